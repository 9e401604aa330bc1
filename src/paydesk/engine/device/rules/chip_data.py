"""A card's data for its issuer at the end of a payment: EMV data objects, which must not contain a card number."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from paydesk.engine.payments.acquirer import CHIP_DATA_BYTES_MAX

CARD_DATA_TAGS = frozenset({0x56, 0x57, 0x5A, 0x9F1F, 0x9F20, 0x9F6B, 0x99})
"""Track data, the card number and the PIN, which no terminal may send in clear."""
_CONSTRUCTED, _LONG_TAG, _LONG_LENGTH = 0x20, 0x1F, 0x80


def decoded(text: str | None) -> bytes | None:
    """Return the data of a result, b"" without any; None if it must not be kept: unreadable, or with card data."""
    try:
        data = base64.b64decode(text or "", validate=True)
        is_kept = len(data) <= CHIP_DATA_BYTES_MAX and CARD_DATA_TAGS.isdisjoint(_tags(data))
    except (ValueError, IndexError):
        return None
    return data if is_kept else None


def _tags(data: bytes) -> Iterator[int]:
    """Yield the tags of the objects and of those in them (ISO/IEC 7816-4). Raises `IndexError` for cut data."""
    at = 0
    while at < len(data):
        begin = at
        at += 1
        if data[begin] & _LONG_TAG == _LONG_TAG:
            while data[at] & 0x80:
                at += 1
            at += 1
        yield int.from_bytes(data[begin:at])
        length = data[at]
        at += 1
        if length & _LONG_LENGTH:
            count = length & 0x7F
            length = int.from_bytes(data[at : at + count])
            at += count
        if at + length > len(data):
            raise IndexError
        if data[begin] & _CONSTRUCTED:
            yield from _tags(data[at : at + length])
        at += length
