"""The console's client of `/operator/v1`: it sends the requests that the command line could send, as the operator.

Paths are templates with `{}` for each id, such as `orders/{}/cancel`; one that begins with `/` is not below
`/operator/v1`. A test compares the templates with those of the commands.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from paydesk.platform.http.in_process import InProcess, InProcessReply
from paydesk.platform.operation import Call

BASE = "/operator/v1/"
Document = dict[str, Any]
_RULE = re.compile(r"'(\$?[^']*)' - (.+)", re.DOTALL)
"""The detail of a property that breaks a rule, such as `'$.password' - must have at least 12 characters`."""
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A property that breaks a rule. `names` are those of its path, the last one first; empty for the whole body."""

    names: Sequence[str]
    rule: str

    def __str__(self) -> str:
        """Return it as a sentence without the path."""
        subject = self.names[0].replace("_", " ").capitalize() if self.names else "The request"
        return f"{subject}: {self.rule}." if self.names else f"{subject} {self.rule}."


class ApiRefused(Exception):
    """A request was refused: with the status, the code and the messages of the response."""

    def __init__(self, status: int, code: str, message: str, details: Sequence[str], request_id: str) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status, self.code, self.message, self.details, self.request_id = (
            status, code, message, tuple(details), request_id,
        )  # fmt: skip

    @property
    def rules(self) -> list[BrokenRule]:
        """The properties that break a rule."""
        rules = (_RULE.fullmatch(detail) for detail in self.details)
        return [BrokenRule(_NAME.findall(one[1])[::-1], one[2]) for one in rules if one is not None]

    @property
    def sentences(self) -> list[str]:
        """The message and further details; if properties break rules, only these rules."""
        return [str(one) for one in self.rules] or [
            self.message,
            *(_sentence(detail) for detail in self.details if detail not in self.message),
        ]


@dataclass(frozen=True, slots=True)
class Api:
    """Sends requests as the operator of a session."""

    in_process: InProcess
    address: str
    request_id: str
    token: str = field(repr=False)

    @classmethod
    def of(cls, call: Call, token: str) -> Api:
        """Return the client for the operator who made the call."""
        return cls(call.shared.objects[InProcess], call.address, call.request_id, token)

    async def get(self, path: str, *ids: object, **query: object) -> Any:
        """Return the document at a path. Parameters that are None or empty are not sent. Raises `ApiRefused`."""
        return await self._send("GET", path, ids, query=_texts(query))

    async def text(self, path: str, *ids: object, **query: object) -> InProcessReply:
        """Return the reply at a path that is not JSON. Raises `ApiRefused`."""
        return await self._reply("GET", path, ids, query=_texts(query))

    async def post(
        self, path: str, *ids: object, body: Mapping[str, Any] | None = None, key: str = "", **headers: str
    ) -> Any:
        """Send a document, with an idempotency key if the operation takes one. Raises `ApiRefused`."""
        return await self._send("POST", path, ids, body=body or {}, key=key, headers=headers)

    async def patch(self, path: str, *ids: object, body: Mapping[str, Any], **query: object) -> Any:
        """Change an object. Raises `ApiRefused`."""
        return await self._send("PATCH", path, ids, query=_texts(query), body=body)

    async def put(self, path: str, *ids: object, body: Mapping[str, Any]) -> Any:
        """Set an object. Raises `ApiRefused`."""
        return await self._send("PUT", path, ids, body=body)

    async def delete(self, path: str, *ids: object, **query: object) -> Any:
        """Delete an object, or what the parameters select. Raises `ApiRefused`."""
        return await self._send("DELETE", path, ids, query=_texts(query))

    async def _send(self, method: str, path: str, ids: Sequence[object], **more: Any) -> Any:
        reply = await self._reply(method, path, ids, **more)
        return msgspec.json.decode(reply.body) if reply.body else None

    async def _reply(
        self,
        method: str,
        path: str,
        ids: Sequence[object],
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        key: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> InProcessReply:
        if any("/" in str(one) for one in ids):
            # A slash, percent-encoded or not, would change the path.
            raise ApiRefused(404, "not_found", "There is no such object: ids contain no slash.", (), self.request_id)
        target = path.format(*(quote(str(one), safe="") for one in ids))
        target = target if target.startswith("/") else BASE + target
        if query:
            target += "?" + urlencode(query)
        sent = {
            "authorization": f"Bearer {self.token}",
            "x-request-id": self.request_id,
            **({"content-type": "application/json"} if body is not None else {}),
            **({"x-idempotency-key": key} if key else {}),
            **{name.replace("_", "-"): value for name, value in (headers or {}).items()},
        }
        content = msgspec.json.encode(body) if body is not None else b""
        reply = await self.in_process.request(method, target, address=self.address, headers=sent, body=content)
        if reply.status >= 400:
            raise refused(reply)
        return reply


def _sentence(detail: str) -> str:
    """Return a detail as a sentence, such as "It has the stores 47792478; delete these first."."""
    return f"{detail[:1].upper()}{detail[1:]}{'' if detail.endswith(('.', '!', '?')) else '.'}"


def _texts(query: Mapping[str, object]) -> dict[str, str]:
    """Return the parameters as they are sent; those that are None or empty are not."""
    return {name.rstrip("_"): str(value) for name, value in query.items() if value not in (None, "")}


async def first_of(page: Callable[[str | None], Awaitable[Any]], rows_max: int) -> tuple[list[Document], bool]:
    """Return the rows of the pages of a list until there are `rows_max`, and whether more follow.

    Raises `ApiRefused`.
    """
    rows: list[Document] = []
    after: str | None = None
    while len(rows) < rows_max:
        part = await page(after)
        rows += part["data"]
        after = part.get("next")
        if after is None:
            return rows, False
    return rows, True


async def listed(getting: Awaitable[Any]) -> tuple[Document, ApiRefused | None]:
    """Return a list, or an empty one and the refusal of its filters. Raises `ApiRefused` for other errors."""
    try:
        return await getting, None
    except ApiRefused as refusal:
        if refusal.status != 400:
            raise
        return {"data": []}, refusal


async def present(getting: Awaitable[Any]) -> Document | None:
    """Return a document, or None if there is no such object. Raises `ApiRefused` for other errors."""
    try:
        document: Document = await getting
    except ApiRefused as refusal:
        if refusal.status != 404:
            raise
        return None
    return document


def refused(reply: InProcessReply) -> ApiRefused:
    """Return the error of a reply."""
    identity = reply.headers.get("x-request-id", "")
    try:
        errors = msgspec.json.decode(reply.body)["errors"]
        details = [detail for one in errors for detail in one.get("details", ())]
        return ApiRefused(reply.status, errors[0]["code"], errors[0]["message"], details, identity)
    except (msgspec.DecodeError, LookupError, TypeError, AttributeError):
        return ApiRefused(reply.status, "error", "The request was refused.", (), identity)
