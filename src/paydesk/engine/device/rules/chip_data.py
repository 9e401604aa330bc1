"""What a card says at the end of a payment, for its issuer: EMV data objects, which must not carry a card number."""

from __future__ import annotations

import base64

from paydesk.engine.payments.acquirer import CHIP_DATA_BYTES_MAX

CARD_DATA_TAGS = frozenset({0x56, 0x57, 0x5A, 0x9F1F, 0x9F20, 0x9F6B, 0x99})
"""Track data, the card number and the PIN, which no terminal may send in clear."""
_CONSTRUCTED, _LONG_TAG, _LONG_LENGTH = 0x20, 0x1F, 0x80


def decoded(text: str | None) -> bytes | None:
    """Return the data of a result, b"" without any; None if it must not be kept: unreadable, or with card data."""
    try:
        data = base64.b64decode(text or "", validate=True)
    except ValueError:
        return None
    if len(data) > CHIP_DATA_BYTES_MAX:
        return None
    try:
        return None if _tags(data) & CARD_DATA_TAGS else data
    except IndexError:
        return None


def _tags(data: bytes) -> set[int]:
    """Return the tags of the objects and of those in them (ISO/IEC 7816-4). Raises `IndexError` for cut data."""
    tags: set[int] = set()
    at = 0
    while at < len(data):
        first = tag = data[at]
        at += 1
        if first & _LONG_TAG == _LONG_TAG:
            tag = tag << 8 | data[at]
            while data[at] & 0x80:
                at += 1
                tag = tag << 8 | data[at]
            at += 1
        length = data[at]
        at += 1
        if length & _LONG_LENGTH:
            count = length & 0x7F
            length = int.from_bytes(data[at : at + count])
            at += count
        if at + length > len(data):
            raise IndexError
        tags.add(tag)
        if first & _CONSTRUCTED:
            tags |= _tags(data[at : at + length])
        at += length
    return tags
