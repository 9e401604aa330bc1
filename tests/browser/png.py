"""Makes the browser's PNGs small: at most 256 colours, the nearest to those of the picture."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from pathlib import Path

Colour = tuple[int, ...]
SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLOURS_MAX = 256
CHANNELS = 3
NONE, SUB, UP, AVERAGE = range(4)


def shrink(file: Path) -> None:
    """Rewrite the PNG, which has 8 bits for each of red, green and blue, with a palette."""
    width, height, rows = _decode(file.read_bytes())
    pixels = [tuple(row[x : x + CHANNELS]) for row in rows for x in range(0, len(row), CHANNELS)]
    palette = _palette(Counter(pixels))
    numbers = {colour: _nearest(palette, colour) for colour in set(pixels)}
    lines = bytes(numbers[colour] for colour in pixels)
    data = b"".join(bytes((NONE,)) + lines[y * width : (y + 1) * width] for y in range(height))
    file.write_bytes(
        SIGNATURE
        + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
        + _chunk(b"PLTE", bytes(value for colour in palette for value in colour))
        + _chunk(b"IDAT", zlib.compress(data, 9))
        + _chunk(b"IEND", b"")
    )


def _decode(png: bytes) -> tuple[int, int, list[bytearray]]:
    """Return width, height and the rows of the picture."""
    position, data, width, height = len(SIGNATURE), b"", 0, 0
    while position < len(png):
        size, kind = struct.unpack(">I4s", png[position : position + 8])
        body = png[position + 8 : position + 8 + size]
        position += size + 12
        if kind == b"IHDR":
            width, height, depth, colours, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            assert (depth, colours, interlaced) == (8, 2, 0), "a picture of the browser"
        elif kind == b"IDAT":
            data += body
    filtered, step, rows = zlib.decompress(data), width * CHANNELS, list[bytearray]()
    for start in range(0, len(filtered), step + 1):
        above = rows[-1] if rows else bytearray(step)
        rows.append(_unfiltered(filtered[start], bytearray(filtered[start + 1 : start + 1 + step]), above))
    return width, height, rows


def _unfiltered(kind: int, row: bytearray, above: bytearray) -> bytearray:
    """Return the row without its filter (PNG, section 9)."""
    for x, value in enumerate(row):
        left, corner = (row[x - CHANNELS], above[x - CHANNELS]) if x >= CHANNELS else (0, 0)
        if kind in (NONE, SUB, UP, AVERAGE):
            guess = (0, left, above[x], (left + above[x]) // 2)[kind]
        else:
            middle = left + above[x] - corner
            guess = min((left, above[x], corner), key=lambda near: abs(middle - near))
        row[x] = (value + guess) & 255
    return row


def _palette(counts: Counter[Colour]) -> list[Colour]:
    """Return at most 256 colours: halve the box of colours that spreads most until there are enough."""
    boxes = [list(counts)]
    while len(boxes) < COLOURS_MAX:
        spread, channel, number = max((*_spread(box, counts), number) for number, box in enumerate(boxes))
        if not spread:
            break
        box = sorted(boxes.pop(number), key=lambda colour: colour[channel])
        half = (box[0][channel] + box[-1][channel]) / 2
        boxes += [[it for it in box if it[channel] <= half], [it for it in box if it[channel] > half]]
    return [max(box, key=lambda colour: counts[colour]) for box in boxes]


def _spread(box: list[Colour], counts: Counter[Colour]) -> tuple[float, int]:
    """Return how far apart the colours of a box are, weighted by their pixels, and in which channel."""
    weight = sum(counts[colour] for colour in box) ** 0.25
    return max(
        ((max(it[channel] for it in box) - min(it[channel] for it in box)) * weight, channel)
        for channel in range(CHANNELS)
    )


def _nearest(palette: list[Colour], colour: Colour) -> int:
    def distance(number: int) -> int:
        return sum((one - other) ** 2 for one, other in zip(palette[number], colour, strict=True))

    return min(range(len(palette)), key=distance)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
