"""The HTTP client of the development kit: requests with JSON to a service, and one exception for its errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from ssl import SSLContext
from typing import TYPE_CHECKING, Any

import msgspec

from paydesk.core.secrets import Secret

if TYPE_CHECKING:
    from aiohttp import ClientSession

ANSWER_SECONDS_MAX, CONNECT_SECONDS_MAX = 30.0, 10.0
BYTES_MAX = 64 * 1024 * 1024
"""A longer answer, which is none of Paydesk's, is cut."""

Document = dict[str, Any]


class _Error(msgspec.Struct, frozen=True):
    code: str = ""
    message: str = ""
    details: list[str] = []


class _Errors(msgspec.Struct, frozen=True):
    errors: list[_Error] = []
    message: str = ""


@dataclass(eq=False)
class Refused(Exception):
    """The service refused a request, with this error. `status` is 0 if the service did not answer."""

    message: str
    status: int = 0
    code: str = ""
    details: Sequence[str] = ()
    request_id: str = ""
    retry_seconds: int = 0
    """The `Retry-After` of the answer, 0 without one."""

    def __str__(self) -> str:
        request = f" (request {self.request_id})" if self.request_id and self.status >= 500 else ""
        return f"{self.message} {'; '.join(self.details)}".strip() + request


@dataclass(frozen=True)
class Reply:
    """An answer of any status."""

    status: int
    raw: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def body(self) -> Document:
        """The JSON object in the body, empty without one."""
        try:
            return msgspec.json.decode(self.raw, type=Document)
        except msgspec.DecodeError:
            return {}

    @property
    def code(self) -> str:
        """The error code, or an empty string."""
        return str(self.body.get("error", ""))

    def refused(self) -> Refused:
        """Return the error of the answer. Its code is empty if the answer is not from Paydesk."""
        try:
            answer = msgspec.json.decode(self.raw, type=_Errors)
        except msgspec.DecodeError:
            answer = _Errors()
        error = next(iter(answer.errors), _Error())
        message = error.message or answer.message or f"The service responded with status {self.status}."
        pause = self.headers.get("Retry-After", "")
        retry_seconds = int(pause) if pause.isdecimal() and len(pause) < 5 else 0
        request_id = self.headers.get("X-Request-Id", "")
        return Refused(message, self.status, error.code, error.details, request_id, retry_seconds)


@dataclass(frozen=True, slots=True)
class Client:
    """A client of the service at `base_url`, with a bearer token or without one."""

    http: ClientSession
    base_url: str
    token: Secret | None = None
    tls: SSLContext | None = field(default=None, compare=False)
    """The TLS context, by default the session's."""

    async def call(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Document:
        """Send a request and return the document of its answer. Raises `Refused`."""
        try:
            reply = await self.send(method, path, body, headers)
        except OSError as error:
            raise Refused(f"Cannot connect to {self.base_url}: {error}.") from None
        if reply.status >= 300:
            raise reply.refused()
        return reply.body

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        seconds_max: float = ANSWER_SECONDS_MAX,
    ) -> Reply:
        """Send a request and return the answer. `body` becomes JSON, unless it is bytes. Raises `OSError`."""
        from aiohttp import ClientError, ClientTimeout

        sent = dict(headers or {})
        if self.token is not None:
            sent["Authorization"] = f"Bearer {self.token.reveal()}"
        if body is not None and not isinstance(body, bytes):
            body, sent["Content-Type"] = msgspec.json.encode(body), "application/json"
        try:
            async with self.http.request(
                method,
                self.base_url + path,
                data=body,
                headers=sent,
                timeout=ClientTimeout(total=seconds_max, connect=CONNECT_SECONDS_MAX),
                allow_redirects=False,
                ssl=self.tls or True,
            ) as answer:
                raw = bytearray()
                async for chunk in answer.content.iter_any():
                    raw += chunk
                    if len(raw) > BYTES_MAX:
                        del raw[BYTES_MAX:]
                        break
                return Reply(answer.status, bytes(raw), answer.headers)
        except TimeoutError:
            raise TimeoutError(f"no answer within {seconds_max:g} s") from None
        except (ClientError, OSError, ValueError) as error:
            raise ConnectionError(str(error) or type(error).__name__) from None


def session(tls: SSLContext | None = None) -> ClientSession:
    """Return a session that keeps no cookies, with any number of connections: each terminal keeps one for its poll."""
    import aiohttp

    connector = aiohttp.TCPConnector(limit=0, ssl=tls or True)
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
