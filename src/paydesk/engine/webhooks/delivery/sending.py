"""One POST to a receiver, within limits of time and size. Failures are outcomes, not exceptions."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, cast

from paydesk.core.text.redaction import redacted, redacted_answer
from paydesk.engine.webhooks import urls
from paydesk.engine.webhooks.addresses import AddressRefused, CheckedResolver
from paydesk.platform.http.connect_errors import connect_message

if TYPE_CHECKING:
    from aiohttp.abc import AbstractResolver
    from yarl import URL

    from paydesk.platform.settings import Settings

READ_BYTES_MAX = 64 * 1024
KEEP_ALIVE_SECONDS = 2.0
STORED_BYTES_MAX = 4 * 1024
MASKING_BYTES_EXTRA = 512
"""Read beyond the stored part, so that a secret at its end is whole when it is masked."""
ERROR_CHARACTERS_MAX = 300


@dataclass(frozen=True, slots=True)
class Outcome:
    """The status and the beginning of the answer, or the error."""

    status: int | None
    body: str = ""
    error: str | None = None
    retry_after: str | None = None
    refused: AddressRefused | None = None
    failure: str = "unreachable"
    """Why there is no status: `unreachable`, `timeout`, or `blocked`, because nothing is sent to that address."""

    @property
    def delivered(self) -> bool:
        """Whether the answer was a 2xx. A redirect is a failure."""
        return self.error is None and self.status is not None and 200 <= self.status < 300

    @property
    def kind(self) -> str:
        """The outcome in one word, of which there are few."""
        classes = {2: "delivered", 4: "refused_4xx", 5: "failed_5xx"}
        return self.failure if self.status is None else classes.get(self.status // 100, "other_status")


@dataclass(slots=True)
class _Connection:
    """The connection of a request: whether it was used before."""

    reused: bool = False


async def _reused(_session: object, context: Any, _parameters: object) -> None:
    context.trace_request_ctx.reused = True


class Sender:
    """Sends to checked addresses only, without redirects, proxies, cookies or decompression. An async context manager.

    A connection is kept for two seconds after its last answer: less than servers keep idle ones, so that a notification
    seldom meets one that the receiver has just closed. It is then sent on another one. Every new connection goes to a
    checked address.
    """

    def __init__(self, resolver: CheckedResolver, *, timeout_seconds: float, ports: Collection[int] = ()) -> None:
        self._resolver, self._ports = resolver, ports
        self._timeout_seconds = timeout_seconds

    @classmethod
    def of(cls, settings: Settings, *, loopback_allowed: bool) -> Self:
        """Return the sender of a service, with the limits of its settings."""
        resolver = CheckedResolver(
            loopback_allowed=loopback_allowed,
            private_networks=settings.webhook_private_networks,
            lookups_max=settings.webhook_concurrency_max,
        )
        return cls(resolver, timeout_seconds=settings.webhook_timeout_seconds, ports=settings.webhook_ports)

    async def __aenter__(self) -> Self:
        # In a thread, because the import takes long and would block the event loop.
        await asyncio.to_thread(import_module, "aiohttp")
        import aiohttp

        connector = aiohttp.TCPConnector(
            resolver=cast("AbstractResolver", self._resolver),
            socket_factory=self._resolver.open_socket,
            use_dns_cache=False,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            limit=0,
        )
        trace = aiohttp.TraceConfig()
        trace.on_connection_reuseconn.append(_reused)
        self._session = aiohttp.ClientSession(
            trace_configs=[trace],
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            trust_env=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()
        await self._resolver.close()

    async def send(self, url: URL, headers: Mapping[str, str], body: bytes) -> Outcome:
        """POST `body` and read the answer within `timeout_seconds`. Nothing is sent to a URL that is not allowed."""
        from aiohttp import ClientError, ClientOSError, ServerDisconnectedError

        try:
            faults = urls.connection_faults(url, ports=self._ports, loopback_allowed=self._resolver.loopback_allowed)
            if faults:
                return Outcome(None, error=f"the URL {faults[0]}; nothing was sent", failure="blocked")
            async with asyncio.timeout(self._timeout_seconds):
                while True:
                    connection = _Connection()
                    try:
                        return await self._post(url, headers, body, connection)
                    except (ServerDisconnectedError, ClientOSError):
                        # The receiver closed the idle connection while this request was on its way.
                        if not connection.reused:
                            raise
        except TimeoutError:
            return Outcome(None, error=f"no complete answer within {self._timeout_seconds:g} s", failure="timeout")
        except (ClientError, OSError, ValueError) as error:
            cause = getattr(error, "os_error", error)
            refused = cause if isinstance(cause, AddressRefused) else None
            # `message` lacks the URL that aiohttp adds to an error's text: its query may have credentials.
            own = str(refused or connect_message(error))
            text = own or str(getattr(error, "message", "") or error) or type(error).__name__
            # Any other error may repeat what the receiver sent.
            reason = str((redacted if own else redacted_answer)(" ".join(text.replace("\0", "").split())))
            failure = "unreachable" if refused is None else "blocked"
            return Outcome(None, error=reason[:ERROR_CHARACTERS_MAX], refused=refused, failure=failure)

    async def _post(self, url: URL, headers: Mapping[str, str], body: bytes, connection: _Connection) -> Outcome:
        async with self._session.post(
            url, headers=headers, data=body, allow_redirects=False, trace_request_ctx=connection
        ) as response:
            stored, read = bytearray(), 0
            async for chunk in response.content.iter_any():
                stored += chunk[: STORED_BYTES_MAX + MASKING_BYTES_EXTRA - len(stored)]
                read += len(chunk)
                if read >= READ_BYTES_MAX:
                    response.close()
                    break
            return Outcome(response.status, _text(bytes(stored)), retry_after=response.headers.get("Retry-After"))


def _text(raw: bytes) -> str:
    """Return the beginning of an answer for storage: masked, and without NUL, which PostgreSQL refuses."""
    text = redacted_answer(raw.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}"))
    masked = text.encode()
    if len(raw) == STORED_BYTES_MAX + MASKING_BYTES_EXTRA:
        # Masking shortens the text, so an unmasked first part of a secret could move into the stored part.
        masked = masked[:-MASKING_BYTES_EXTRA]
    return masked[:STORED_BYTES_MAX].decode("utf-8", "ignore")
