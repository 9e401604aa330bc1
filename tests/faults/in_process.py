"""The real application called in process, over ASGI: no sockets, so that a fault may strike thousands of times."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

from paydesk.core.clock import Clock
from paydesk.platform.operation import Surface
from paydesk.platform.settings import UNTHROTTLED, Settings
from paydesk.platform.storage.database import Database
from service import Reply, Service
from shared_objects import composed

SURFACES: tuple[Surface, ...] = ("application", "token", "device")


@dataclass
class InProcessService(Service):
    """A service whose requests are calls of its application; another may take its place after a fault."""

    app: Any = None

    def take(self, database: Database, clock: Clock, settings: Settings) -> None:
        """Serve from this database now, with nothing remembered of the one before."""
        self.database, self.clock = database, clock
        self.app = composed(database, settings.model_copy(update=UNTHROTTLED), clock).app(SURFACES)

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = "",
        key: str | None = "",
        headers: dict[str, str] | None = None,
        data: bytes | None = None,
    ) -> Reply:
        """One request. `token` and `key`: empty is a good one of this service, None is none."""
        sent = {"host": "127.0.0.1", **(headers or {})}
        if token is not None:
            sent["authorization"] = f"Bearer {token or self.access_token}"
        if key is not None and method == "POST":
            sent["x-idempotency-key"] = key or str(uuid.uuid4())
        raw = data if data is not None else b"" if body is None else json.dumps(body).encode()
        if raw:
            sent |= {"content-type": "application/json", "content-length": str(len(raw))}
        return await call(self.app, method, path, sent, raw)


async def call(app: Any, method: str, path: str, headers: dict[str, str], raw: bytes) -> Reply:
    """Call the application as a server would."""
    messages: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": raw, "more_body": False}

    async def send(message: Any) -> None:
        messages.append(message)

    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 80),
        "scheme": "http",
        "http_version": "1.1",
    }
    await app(scope, receive, send)
    answered = {name.decode().lower(): value.decode("latin-1") for name, value in messages[0]["headers"]}
    body = b"".join(message["body"] for message in messages[1:])
    document = json.loads(body) if answered.get("content-type") == "application/json" else None
    return Reply(messages[0]["status"], answered, body, document)
