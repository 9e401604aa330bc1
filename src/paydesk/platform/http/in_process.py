"""Requests of this process to its own application, without a connection: how the console calls `/operator/v1`.

Every check of a request over a connection applies to them too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from paydesk.platform.http.asgi import ASGIApp, Message
from paydesk.platform.http.request import IN_PROCESS


@dataclass(frozen=True, slots=True)
class InProcessReply:
    """The reply to a request: status, headers in lower case, and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class InProcess:
    """Sends requests to the application of the same listener."""

    def __init__(self) -> None:
        self._app: ASGIApp | None = None
        self._host = ""

    def bind(self, app: ASGIApp, host: str) -> None:
        """Set the application and a name that it accepts in `Host`."""
        self._app, self._host = app, host

    async def request(
        self, method: str, target: str, *, address: str, headers: Mapping[str, str], body: bytes = b""
    ) -> InProcessReply:
        """Send a request for a client at `address`. `target`: an encoded path with its query."""
        assert self._app is not None, "the application is bound when it is built"
        path, _, query = target.partition("?")
        sent = {"host": self._host, "content-length": str(len(body)), **headers}
        scope: dict[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode("latin-1", "replace")) for name, value in sent.items()],
            "client": (address, 0),
            "scheme": "http",
            "root_path": "",
            IN_PROCESS: True,
        }
        status, received, parts = 500, dict[str, str](), list[bytes]()

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status, received
            if message["type"] == "http.response.start":
                status = message["status"]
                received = {name.decode("latin-1"): value.decode("latin-1") for name, value in message["headers"]}
            else:
                parts.append(message.get("body", b""))

        await self._app(scope, receive, send)
        return InProcessReply(status, received, b"".join(parts))
