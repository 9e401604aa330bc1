"""Images of print actions: what is a PNG or a JPEG that a terminal can print, and what only looks like one."""

from __future__ import annotations

import random

import pytest

from cost import Within, each_way
from paydesk.engine.terminals.print_actions.images import IMAGE_BYTES_MAX, InvalidImage, check, media_type
from print_scene import chunk, in_base64, jpeg, png, segment
from tables import each

HTML = b"<html><script>alert(1)</script></html>"


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (png(), "image/png"),
        (png(1_000, 5_000), "image/png"),
        (png(more=chunk(b"tEXt", b"Comment\0x")), "image/png"),
        (jpeg(), "image/jpeg"),
        (jpeg(1_000, 5_000), "image/jpeg"),
        (jpeg(marker=0xC2), "image/jpeg"),
    ],
)
def test_a_png_or_jpeg_is_accepted(image: bytes, expected: str) -> None:
    """Up to the largest size, also progressive ones."""
    assert check(in_base64(image)) == image
    assert media_type(image) == expected


def _damaged_png() -> bytes:
    image = bytearray(png())
    image[-20] ^= 1
    return bytes(image)


SIGNATURE = b"\x89PNG\r\n\x1a\n"
INVALID = {
    "html": (HTML, "must be a PNG or a JPEG"),
    "gif": (b"GIF89a" + bytes(50), "must be a PNG or a JPEG"),
    "svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "must be a PNG or a JPEG"),
    "empty": (b"", "must be a PNG or a JPEG"),
    "png signature before html": (SIGNATURE + HTML, "complete PNG"),
    "png signature alone": (SIGNATURE, "complete PNG"),
    "html after a png": (png() + HTML, "complete PNG"),
    "zip after a png": (png() + b"PK\x05\x06" + bytes(18), "complete PNG"),
    "truncated png": (png()[:-1], "complete PNG"),
    "png without its end": (png()[:-12], "complete PNG"),
    "png with a wrong check sum": (_damaged_png(), "complete PNG"),
    "png without pixels": (SIGNATURE + png()[8:33] + chunk(b"IEND", b""), "complete PNG"),
    "png without a header": (SIGNATURE + chunk(b"IDAT", b"x") + chunk(b"IEND", b""), "complete PNG"),
    "png with content in its end": (png()[:-12] + chunk(b"IEND", HTML), "complete PNG"),
    "png of an invalid color type": (SIGNATURE + chunk(b"IHDR", bytes((0, 0, 0, 1, 0, 0, 0, 1, 8, 5, 0, 0, 0))), "PNG"),
    "png chunk of 4 GiB": (png()[:33] + b"\xff\xff\xff\xffIDAT", "complete PNG"),
    "png of many chunks": (png(more=chunk(b"tEXt", b"") * 1_000), "complete PNG"),
    "huge png": (png(10_000, 10_000, pixels=b""), "1,000 pixels wide and 5,000 high, but is 10,000 by 10,000"),
    "wide png": (png(1_001, 1, pixels=b""), "is 1,001 by 1"),
    "high png": (png(1, 5_001, pixels=b""), "is 1 by 5,001"),
    "png without a pixel": (png(0, 8, pixels=b""), "is 0 by 8"),
    "huge jpeg": (jpeg(10_000, 10_000), "is 10,000 by 10,000"),
    "html after a jpeg": (jpeg() + HTML, "complete JPEG"),
    "truncated jpeg": (jpeg()[:-2], "complete JPEG"),
    "jpeg of segments alone": (b"\xff\xd8" + segment(0xE0, HTML) + b"\xff\xd9", "complete JPEG"),
    "jpeg without a frame": (jpeg(marker=0xE1), "is 0 by 0"),
    "arithmetic jpeg": (jpeg(marker=0xC9), "baseline or progressive JPEG"),
    "jpeg with another frame before": (jpeg()[:2] + segment(0xC9, bytes(6)) + jpeg()[2:], "with one size"),
    "jpeg with another height after": (jpeg()[:-2] + segment(0xDC, b"\xff\xff") + jpeg()[-2:], "with one size"),
    "jpeg with a second image": (jpeg() + jpeg(), "complete JPEG"),
    "jpeg with a segment beyond its end": (jpeg()[:4] + b"\xff\xff" + jpeg()[6:], "complete JPEG"),
    "jpeg signature alone": (b"\xff\xd8\xff", "complete JPEG"),
    "too large": (png(more=chunk(b"tEXt", bytes(IMAGE_BYTES_MAX))), "at most 1,000,000 bytes"),
}


@each("name", INVALID)
def test_anything_else_is_refused(name: str) -> None:
    """The message says what the content must be."""
    image, message = INVALID[name]
    with pytest.raises(InvalidImage, match=message):
        check(in_base64(image))


@pytest.mark.parametrize("content", ["", "####", in_base64(png())[:-1], f"data:image/png;base64,{in_base64(png())}"])
def test_what_is_no_base64_is_refused(content: str) -> None:
    """Neither is a data URL, which is a client's common mistake."""
    with pytest.raises(InvalidImage, match="must be"):
        check(content)


@pytest.mark.parametrize("image", [png(200, 200), jpeg(200, 200, data=random.Random(1).randbytes(900))])
def test_any_damage_is_refused_or_harmless(image: bytes) -> None:
    """No change of a byte and no cut raises anything else."""
    chance = random.Random(2)
    for _ in range(2_000):
        place = chance.randrange(len(image))
        spoiled = image[:place] + bytes([chance.randrange(256)]) + image[place + 1 :]
        for candidate in (spoiled, image[:place]):
            try:
                check(in_base64(candidate))
            except InvalidImage:
                continue


@pytest.mark.parametrize(
    "image",
    [
        jpeg(data=b"\xff\x00" * 400_000),
        jpeg(data=b"\xff" * 800_000),
        jpeg(data=b"\xff" * 800_000 + b"\x00"),
        b"\xff\xd8" + b"\xff" * 800_000 + b"\x00",
        jpeg()[:-2] + segment(0xDA, b"") * 190_000,
        png(more=chunk(b"tEXt", b"") * 60_000),
        png(more=chunk(b"tEXt", bytes(800_000))),
    ],
)
@each_way
def test_a_hostile_image_costs_little_time(image: bytes, within: Within) -> None:
    """Less than 0.1 s of processor time."""
    within(100, check, in_base64(image))
