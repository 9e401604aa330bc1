"""Checks that the content of a print action is an image that a terminal can print, without decoding its pixels."""

from __future__ import annotations

import base64
import re
import struct
import zlib

IMAGE_BYTES_MAX = 1_000_000
WIDTH_MAX, HEIGHT_MAX = 1_000, 5_000
"""The largest width and height in pixels. A receipt printer of 80 mm has 576 in a line."""
PARTS_MAX = 1_000
"""Chunks of a PNG, or segments of a JPEG."""

_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
_PNG_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
"""The bits of a sample that each color type allows."""
_CHUNK_TYPE = re.compile(rb"[A-Za-z]{4}")
# Neither goes over a byte twice: a file of nothing else than 0xFF takes no longer.
_JPEG_MARKER = re.compile(rb"\xff++([^\x00\xff])", re.DOTALL)
_JPEG_DATA_END = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]", re.DOTALL)
"""The marker after compressed data: neither a stuffed byte nor a restart."""
_SOF, _SOS, _EOI = (0xC0, 0xC1, 0xC2), 0xDA, 0xD9
_OTHER_SIZES = (0xC3, *range(0xC5, 0xC8), *range(0xC9, 0xCC), *range(0xCD, 0xD0), 0xDC)
"""Frames of processes that terminals can't decode, and the marker that sets another height (DNL)."""
_WITHOUT_CONTENT = (0x01, *range(0xD0, 0xD9))


class InvalidImage(ValueError):
    """A terminal can't print the content as an image. The message says what it must be."""


def check(content: str) -> bytes:
    """Return the decoded image. Raises `InvalidImage`.

    It is a PNG or a JPEG from its first to its last byte, so that it can't be read as a file of another type.
    """
    try:
        image = base64.b64decode(content, validate=True)
    except ValueError:
        raise InvalidImage("must be an image in base64 (RFC 4648 section 4), without line breaks") from None
    if len(image) > IMAGE_BYTES_MAX:
        raise InvalidImage(f"must be an image of at most {IMAGE_BYTES_MAX:,} bytes")
    if image.startswith(_PNG):
        width, height = _png_size(image)
    elif image.startswith(_JPEG):
        width, height = _jpeg_size(image)
    else:
        raise InvalidImage("must be a PNG or a JPEG in base64")
    if not (0 < width <= WIDTH_MAX and 0 < height <= HEIGHT_MAX):
        raise InvalidImage(
            f"must be at most {WIDTH_MAX:,} pixels wide and {HEIGHT_MAX:,} high, but is {width:,} by {height:,}"
        )
    return image


def media_type(image: bytes) -> str:
    """Return the media type of a checked image."""
    return "image/png" if image.startswith(_PNG) else "image/jpeg"


def _png_size(image: bytes) -> tuple[int, int]:
    """Return the width and height of a complete PNG: IHDR, then chunks with correct check sums up to IEND."""
    at, has_pixels, size = len(_PNG), False, (0, 0)
    for number in range(PARTS_MAX):
        kind, content, at = _chunk(image, at)
        if number == 0:
            size = _header_size(kind, content)
        has_pixels = has_pixels or kind == b"IDAT"
        if kind == b"IEND":
            if at != len(image) or content or not has_pixels:
                break
            return size
    raise _damaged("PNG")


def _chunk(image: bytes, at: int) -> tuple[bytes, bytes, int]:
    """Return the type and the content of the chunk, and where the next one begins."""
    head = image[at : at + 8]
    if len(head) < 8:
        raise _damaged("PNG")
    (length,), kind = struct.unpack(">I", head[:4]), head[4:]
    end = at + 12 + length
    if end > len(image) or not _CHUNK_TYPE.fullmatch(kind):
        raise _damaged("PNG")
    if zlib.crc32(image[at + 4 : end - 4]) != int.from_bytes(image[end - 4 : end], "big"):
        raise _damaged("PNG")
    return kind, image[at + 8 : end - 4], end


def _header_size(kind: bytes, content: bytes) -> tuple[int, int]:
    if kind != b"IHDR" or len(content) != 13:
        raise _damaged("PNG")
    width, height, depth, color, *methods = struct.unpack(">IIBBBBB", content)
    if depth not in _PNG_DEPTHS.get(color, ()) or methods[:2] != [0, 0] or methods[2] > 1:
        raise _damaged("PNG")
    return width, height


def _jpeg_size(image: bytes) -> tuple[int, int]:
    """Return the width and height of a complete JPEG: segments with one frame, and scans up to the end."""
    at, size, has_scan = 2, (0, 0), False
    for _ in range(PARTS_MAX):
        marker = _JPEG_MARKER.match(image, at)
        if marker is None:
            break
        kind, at = marker[1][0], marker.end()
        if kind == _EOI:
            if at != len(image) or not has_scan:
                break
            return size
        if kind in _WITHOUT_CONTENT:
            break
        if kind in _OTHER_SIZES:
            raise InvalidImage("must be a baseline or progressive JPEG with one size")
        content, at = _segment(image, at)
        if kind in _SOF:
            size = _frame_size(content, is_first=size == (0, 0))
        elif kind == _SOS:
            data_end = _JPEG_DATA_END.search(image, at)
            if data_end is None:
                break
            at, has_scan = data_end.start(), True
    raise _damaged("JPEG")


def _frame_size(content: bytes, *, is_first: bool) -> tuple[int, int]:
    if len(content) < 6 or not is_first or content[5] not in (1, 3):
        raise _damaged("JPEG")
    return int.from_bytes(content[3:5], "big"), int.from_bytes(content[1:3], "big")


def _segment(image: bytes, at: int) -> tuple[bytes, int]:
    """Return the content of the segment, and where it ends."""
    length = int.from_bytes(image[at : at + 2], "big")
    if length < 2 or at + length > len(image):
        raise _damaged("JPEG")
    return image[at + 2 : at + length], at + length


def _damaged(kind: str) -> InvalidImage:
    return InvalidImage(f"must be a complete {kind} with nothing after its end; it is truncated or damaged")
