"""Answers that are the same for everyone, such as documents and style sheets: compressed, and sent once.

An answer that says `no-store` is neither: its length would reveal what a secret in it has in common with what the
request made it repeat.
"""

from __future__ import annotations

import gzip
from collections.abc import AsyncGenerator, Mapping
from functools import lru_cache
from hashlib import sha256

import msgspec

from paydesk.platform.http.asgi import Receive
from paydesk.platform.http.endpoint import Endpoint
from paydesk.platform.http.reply import Reply
from paydesk.platform.http.request import Request

COMPRESSED = ("text/", "application/json", "image/svg+xml")
"""The beginnings of media types that are worth it."""
COMPRESSED_BYTES_MIN = 1_000
KEPT_MAX = 400
"""Bodies of which the tag and the compressed form are kept: more than the pages of the documentation."""


class ConstantEndpoint(Endpoint):
    """Serves an operation that is constant."""

    async def _reply(self, request: Request, receive: Receive, identity: str, address: str) -> Reply:
        reply = await super()._reply(request, receive, identity, address)
        is_kept = reply.status == 200 and "no-store" not in dict(reply.headers).get("cache-control", "no-store")
        return _for_client(reply, request.headers, is_asked_often=not request.query_string) if is_kept else reply


def _for_client(reply: Reply, headers: Mapping[str, str], *, is_asked_often: bool) -> Reply:
    """Return the reply with its tag: without a body if the client has it, else compressed if the client accepts it.

    What answers a query is made anew each time: searches would take the place of the pages.
    """
    tag = (_tag if is_asked_often else _tag.__wrapped__)(reply.body)
    own = (*reply.headers, ("etag", tag), ("vary", "accept-encoding"))
    if _names(headers.get("if-none-match", ""), tag):
        # RFC 9110 section 15.4.5: a 304 has no Content-Length, so it is sent as a stream.
        return Reply(304, b"", own, reply.media_type, stream=_nothing())
    is_text = reply.media_type.startswith(COMPRESSED) and len(reply.body) >= COMPRESSED_BYTES_MIN
    if is_text and _accepts_gzip(headers.get("accept-encoding", "")):
        packed = (_packed if is_asked_often else _packed.__wrapped__)(reply.body)
        return msgspec.structs.replace(reply, body=packed, headers=(*own, ("content-encoding", "gzip")))
    return msgspec.structs.replace(reply, headers=own)


@lru_cache(KEPT_MAX)
def _tag(body: bytes) -> str:
    """Return the tag of a body, weak because it is that of its compressed form too."""
    return f'W/"{sha256(body).hexdigest()[:32]}"'


@lru_cache(KEPT_MAX)
def _packed(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)


def _names(if_none_match: str, tag: str) -> bool:
    """Return whether the header has the tag, compared weakly (RFC 9110 section 13.1.2)."""
    tags = {one.strip().removeprefix("W/") for one in if_none_match.split(",")}
    return "*" in tags or tag.removeprefix("W/") in tags


def _accepts_gzip(accept_encoding: str) -> bool:
    for one in accept_encoding.lower().split(","):
        name, _, parameters = one.partition(";")
        if name.strip() == "gzip":
            quality = parameters.replace(" ", "").removeprefix("q=")
            return quality.strip("0.") != "" or not quality
    return False


async def _nothing() -> AsyncGenerator[bytes, None]:
    for part in tuple[bytes, ...]():
        yield part
