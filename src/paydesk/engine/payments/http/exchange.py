"""One signed request to the switch and its answer, within limits of time and size. Failures are values."""

from __future__ import annotations

import asyncio
import errno
import ssl
import urllib.parse
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from paydesk import __version__
from paydesk.core import trace
from paydesk.engine.payments.adapters.context import AdapterContext
from paydesk.engine.payments.http.signing import HEADER, Signer, Verdict
from paydesk.engine.payments.http.wire import UNREADABLE, Refused
from paydesk.platform.http.connect_errors import connect_message

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

BODY_BYTES_MAX = 64 * 1024
CONNECT_SECONDS_MAX = 2.0
KEEP_ALIVE_SECONDS = 10.0
"""Less than the switch keeps an idle connection, so that a request seldom meets a connection just closed."""
NANOSECONDS = 1_000_000_000
REFUSED = "; a switch ends a new connection like this if it does not accept the client certificate, or needs one"


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer, and the verdict on its signature."""

    status: int
    media_type: str
    body: bytes
    verdict: Verdict
    difference_seconds: float | None
    """The switch's clock minus the machine's: by the signature, without a signature by the header `Date`."""

    @property
    def is_trusted(self) -> bool:
        """Return whether the answer is that of the switch."""
        return self.verdict in ("valid", "unneeded")

    @property
    def document(self) -> bytes | None:
        """Return the body if it is JSON, and certainly that of the switch."""
        return self.body if self.is_trusted and self.media_type == "application/json" else None

    @property
    def refused(self) -> Refused | None:
        """Return the switch's refusal, or None for another answer.

        Its complaint about the clocks counts whatever its own clock shows.
        """
        try:
            refused = msgspec.json.decode(self.body if self.media_type == "application/json" else b"", type=Refused)
        except UNREADABLE:
            return None
        is_skew = self.verdict == "outdated" and self.status == 401 and refused.error == "clock_skew"
        return refused if self.is_trusted or is_skew else None

    @property
    def fault(self) -> str | None:
        """Return why the answer cannot be trusted, or None. With `clock_skew` the refusal says it."""
        match self.verdict:
            case "absent":
                return f"status {self.status} without a signature"
            case "wrong":
                return f"status {self.status} with a wrong signature: compare the secrets and `key_id`"
            case "outdated" if self.refused is None:
                return f"status {self.status} with the signature of another time: compare the clocks"
        return None


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No complete answer. `connected`: the request may have been sent, because there was a connection."""

    fault: str
    connected: bool
    difference_seconds: None = None


@dataclass(frozen=True, slots=True)
class Tls:
    """The encryption of connections, and the time until which the client certificate is valid; None without one."""

    context: ssl.SSLContext
    valid_until_seconds: int | None = None

    def fault(self, now_seconds: int) -> str | None:
        """Return why no connection needs to be made, or None.

        With TLS 1.3 a switch refuses a client certificate after the request was sent, which would be unknown.
        """
        if self.valid_until_seconds is None or now_seconds <= self.valid_until_seconds:
            return None
        return f"the client certificate expired on {datetime.fromtimestamp(self.valid_until_seconds, UTC):%Y-%m-%d}"


@dataclass(slots=True)
class _Connection:
    made: bool = False
    is_new: bool = False


async def _connected(_session: object, context: Any, _parameters: object) -> None:
    context.trace_request_ctx.made = True


async def _created(_session: object, context: Any, _parameters: object) -> None:
    context.trace_request_ctx.made = context.trace_request_ctx.is_new = True


class Exchange:
    """Sends requests to one address: without redirects, proxies, cookies or compression.

    `url` ends without a slash. `tls` is None for an address of this machine without TLS.
    """

    def __init__(self, url: str, signer: Signer, tls: Tls | None, context: AdapterContext) -> None:
        self.url, self._path = url, urllib.parse.urlsplit(url).path
        self.signer, self._tls, self._now_ns = signer, tls, context.now_ns
        self._session: ClientSession | None = None

    async def send(
        self, method: str, target: str, body: bytes = b"", *, key: str = "", seconds_max: float
    ) -> Answered | Unanswered:
        """Send a request to `target`, a path below the address with its query, and read the answer."""
        fault = None if self._tls is None else self._tls.fault(self._now_seconds())
        if fault is not None:
            return Unanswered(fault, connected=False)
        if self._session is None:
            # In a thread, because the import takes long and would block the event loop.
            await asyncio.to_thread(import_module, "aiohttp")
        from aiohttp import ClientError
        from yarl import URL

        connection, session = _Connection(), self._opened()
        try:
            async with (
                asyncio.timeout(seconds_max),
                session.request(
                    method,
                    URL(self.url + target, encoded=True),
                    headers=self._headers(method, target, body, key),
                    data=body or None,
                    allow_redirects=False,
                    trace_request_ctx=connection,
                ) as response,
            ):
                return await self._answer(response, key)
        except TimeoutError:
            limit = max(seconds_max, 1) if connection.made else CONNECT_SECONDS_MAX
            awaited = "answer" if connection.made else "connection"
            return Unanswered(f"no {awaited} within {limit:.0f} s", connection.made)
        except (ClientError, OSError, ValueError) as error:
            is_refused = self._tls is not None and _is_refused(error, connection)
            return Unanswered(f"{_reason(error)}{REFUSED if is_refused else ''}", connection.made)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def _headers(self, method: str, target: str, body: bytes, key: str) -> dict[str, str]:
        headers = {"User-Agent": f"Paydesk/{__version__}", "Accept": "application/json", "Accept-Encoding": "identity"}
        if body:
            # An echo has no body: the breaker sends it, whichever request was first.
            headers |= {"Content-Type": "application/json", **trace.headers()}
        if key:
            headers["Idempotency-Key"] = key
        if self.signer.secrets:
            headers[HEADER] = self.signer.sign(self._now_seconds(), method, self._path + target, key, body=body)
        return headers

    async def _answer(self, response: ClientResponse, key: str) -> Answered | Unanswered:
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > BODY_BYTES_MAX:
                response.close()
                return Unanswered(f"the answer has more than {BODY_BYTES_MAX} bytes", connected=True)
        status, content, now_seconds = response.status, bytes(body), self._now_seconds()
        signatures = response.headers.getall(HEADER, [])
        verdict, seconds = self.signer.check(signatures, str(status), key, body=content, now_seconds=now_seconds)
        seconds = _date_seconds(response.headers.get("Date", "")) if seconds is None else seconds
        difference = None if seconds is None else float(seconds - now_seconds)
        return Answered(status, response.content_type, content, verdict, difference)

    def _now_seconds(self) -> int:
        return self._now_ns() // NANOSECONDS

    def _opened(self) -> ClientSession:
        if self._session is None:
            import aiohttp

            trace = aiohttp.TraceConfig()
            trace.on_connection_create_end.append(_created)
            trace.on_connection_reuseconn.append(_connected)
            self._session = aiohttp.ClientSession(
                trace_configs=[trace],
                connector=aiohttp.TCPConnector(
                    ssl=True if self._tls is None else self._tls.context, keepalive_timeout=KEEP_ALIVE_SECONDS, limit=0
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS_MAX),
                auto_decompress=False,
                trust_env=False,
            )
        return self._session


def _date_seconds(text: str) -> int | None:
    try:
        return round(parsedate_to_datetime(text).timestamp())
    except (ValueError, OverflowError):
        return None


def _is_refused(error: Exception, connection: _Connection) -> bool:
    """Return whether the other side ended the handshake, or the new connection before its first answer."""
    from aiohttp import ServerDisconnectedError

    cause = getattr(error, "os_error", error)
    if (connection.made and not connection.is_new) or isinstance(cause, ssl.SSLCertVerificationError):
        return False
    is_ended = isinstance(cause, ServerDisconnectedError | ConnectionResetError | ConnectionAbortedError | ssl.SSLError)
    return is_ended or getattr(cause, "errno", None) in (errno.ECONNRESET, errno.EPIPE)


def _reason(error: Exception) -> str:
    """Return what failed; for an invalid answer only its kind, because the text would repeat what was sent."""
    from aiohttp import ClientConnectionError, ClientConnectorError

    if isinstance(error, ClientConnectorError) and isinstance(error.os_error, ConnectionRefusedError):
        return f"{error.host}:{error.port} refuses connections"
    if reason := connect_message(error) or getattr(error, "strerror", ""):
        return reason
    if isinstance(error, (ClientConnectionError, OSError)) and str(error):
        return str(error)
    return type(error).__name__
