"""Replies: a status, headers and a body of bytes, and how they are sent."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import msgspec

from paydesk.core import ids
from paydesk.core.errors import UNAUTHORIZED, Refusal
from paydesk.core.text import card_numbers
from paydesk.platform.http.asgi import IN_ONE_PIECE, Receive, Scope, Send
from paydesk.platform.http.surfaces import SurfacePolicy
from paydesk.platform.operation import Answer

REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
RETRY_SOON = ("retry-after", "1")

_NO_EXTENSIONS: dict[str, Any] = {}
_NO_HEADERS: dict[str, str] = {}
encode = msgspec.json.Encoder().encode


class Reply(msgspec.Struct):
    """An answer in bytes; `refusal` is kept for the log."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    media_type: str = "application/json"
    refusal: Refusal | None = None
    stream: AsyncGenerator[bytes, None] | None = None
    """The parts of a streamed body, instead of `body`."""


def answered(answer: Answer, policy: SurfacePolicy) -> Reply:
    """Return the reply for a handler's answer."""
    headers = (*answer.headers, *policy.headers) if policy.headers else answer.headers
    return Reply(answer.status, _encoded(answer), headers, answer.media_type, answer.refusal, answer.stream)


def refused(refusal: Refusal, policy: SurfacePolicy, headers: Mapping[str, str] = _NO_HEADERS) -> Reply:
    """Return the reply for a refusal in the surface's format; on pages in the language of the request's headers."""
    own = refusal.headers
    if refusal.kind is UNAUTHORIZED:
        own = (*own, ("www-authenticate", "Bearer"))
    if refusal.kind.status == 503:
        own = (*own, RETRY_SOON)
    own = (*own, *policy.headers)
    if policy.error_page is None:
        return Reply(refusal.kind.status, encode(policy.error_body(refusal)), own, refusal=refusal)
    page = policy.error_page(refusal, headers)
    return Reply(page.status, _encoded(page), (*page.headers, *own), page.media_type, refusal)


def _encoded(answer: Answer) -> bytes:
    body = answer.body
    if body is None:
        return b""
    if isinstance(body, bytes):
        return body
    if isinstance(body, str) and answer.media_type != "application/json":
        return body.encode()
    return encode(body)


def replayed(status: int, body: bytes) -> Reply:
    """Return the reply for a stored response, marked as replayed."""
    return Reply(status, body, (("x-idempotent-replayed", "true"),))


def request_id(sent: str | None, *, checked: bool = False) -> str:
    """Return the client's request id if it is valid, otherwise a new UUID.

    `checked`: an id that looks like a card number is invalid.
    """
    if sent is None or not REQUEST_ID.fullmatch(sent) or (checked and card_numbers.carried_by_reference(sent)):
        return ids.uuid()
    return sent


async def send_stream(
    receive: Receive, send: Send, reply: Reply, stream: AsyncGenerator[bytes, None], request_id: str
) -> None:
    """Send the parts of a streamed reply until it ends or the client disconnects. The request has been read."""
    headers = [("x-request-id", request_id), ("content-type", reply.media_type), *reply.headers]
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": reply.status, "headers": encoded})
    disconnected = asyncio.ensure_future(_disconnected(receive))
    part: asyncio.Future[Any] = disconnected
    try:
        while not disconnected.done():
            part = asyncio.ensure_future(anext(stream, None))
            await asyncio.wait((part, disconnected), return_when=asyncio.FIRST_COMPLETED)
            if not part.done():
                return
            content = part.result()
            await send({"type": "http.response.body", "body": content or b"", "more_body": content is not None})
            if content is None:
                return
    finally:
        # A generator that runs cannot be closed.
        part.cancel()
        disconnected.cancel()
        await asyncio.gather(part, disconnected, return_exceptions=True)
        await stream.aclose()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_reply(scope: Scope, send: Send, reply: Reply, request_id: str) -> None:
    """Send the reply: with one write on our server, otherwise in the two messages of ASGI."""
    headers = [("x-request-id", request_id)]
    if reply.status != 204:
        headers.append(("content-length", str(len(reply.body))))
    if reply.body:
        headers.append(("content-type", reply.media_type))
    headers += reply.headers
    in_one_piece = scope.get("extensions", _NO_EXTENSIONS).get(IN_ONE_PIECE)
    if in_one_piece is not None and in_one_piece(reply.status, headers, reply.body):
        return
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": reply.status, "headers": encoded})
    await send({"type": "http.response.body", "body": reply.body})
