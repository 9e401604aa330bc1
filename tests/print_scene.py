"""Print actions of a running service, and images to print."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

from service import Device, Reply, Service, Terminal

TEXT = (
    "{center}{b}{w}Corner shop{/w}{/b}{br}Your coupon for the next visit{/center}{br}{br}10% off on everything.{br}"
    "{qr}https://shop.example/c/4711{/qr}"
)
PATH = "/terminals/v1/actions"


def action_body(terminal_id: str, content: str = TEXT, subtype: str = "custom", **fields: Any) -> dict[str, Any]:
    """Return the body that creates a print action."""
    point = {"terminal_id": terminal_id, "subtype": subtype}
    about = {"type": "print", "external_reference": "coupon_1234", "config": {"point": point}}
    return {**about, "content": content, **fields}


async def print_on(service: Service, terminal: Terminal, content: str = TEXT, **options: Any) -> Reply:
    """Create a print action for the terminal."""
    return await service.request("POST", PATH, action_body(terminal.id, content), **options)


async def status_of(service: Service, action_id: str) -> str:
    """Return the status of the action."""
    reply = await service.request("GET", f"{PATH}/{action_id}")
    assert reply.status == 200, reply
    status: str = reply.body["status"]
    return status


async def report(device: Device, action_id: str, outcome: str = "printed", **fields: Any) -> Reply:
    """Report whether the terminal has printed the action."""
    return await device.post(f"/actions/{action_id}/result", {"boot_id": device.boot_id, "outcome": outcome, **fields})


def png(width: int = 8, height: int = 8, *, pixels: bytes | None = None, more: bytes = b"") -> bytes:
    """Return a PNG, white unless `pixels` are given; `more` chunks come before its pixels."""
    rows = b"".join(b"\0" + b"\xff" * width for _ in range(height)) if pixels is None else pixels
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = chunk(b"IHDR", header), more, chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def chunk(kind: bytes, content: bytes) -> bytes:
    """Return a chunk of a PNG."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def jpeg(width: int = 8, height: int = 8, *, marker: int = 0xC0, data: bytes = b"\x12\xff\x00\xff\xd0\x34") -> bytes:
    """Return what a JPEG consists of, with meaningless tables and pixels."""
    frame = struct.pack(">BHHB", 8, height, width, 1) + b"\x01\x11\x00"
    return b"".join(
        (
            b"\xff\xd8",
            segment(0xE0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0"),
            segment(marker, frame),
            segment(0xDA, b"\x01\x01\x00\x00\x3f\x00"),
            data,
            b"\xff\xd9",
        )
    )


def segment(marker: int, content: bytes) -> bytes:
    """Return a segment of a JPEG."""
    return bytes((0xFF, marker)) + struct.pack(">H", len(content) + 2) + content


def in_base64(image: bytes) -> str:
    """Return the image as the content of a print action."""
    return base64.b64encode(image).decode()
