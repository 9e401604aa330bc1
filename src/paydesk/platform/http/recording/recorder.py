"""Keeps the requests of applications and terminals until a worker records them, so that no response waits for it.

The worker makes the rows and writes them. In production a node records at most a fixed rate of requests, so that the
cost does not grow with the load. Failed requests have a rate of their own, and so have failed ones without an
authenticated caller, so that none displaces another kind. Requests that are not recorded are counted.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from paydesk.core import ids, runtime
from paydesk.core.text.card_numbers import MASK
from paydesk.core.text.redaction import redacted, redacted_agent, redacted_body, redacted_url
from paydesk.platform.http import request_log
from paydesk.platform.http.recording.store import Recorded
from paydesk.platform.http.reply import Reply
from paydesk.platform.http.request import Request
from paydesk.platform.operation import Operation

SUCCEEDED_PER_SECOND, FAILED_PER_SECOND, UNAUTHENTICATED_PER_SECOND = 20, 40, 10
BURST_SECONDS = 5
WAITING_MAX = 1000
"""Maximum number of waiting requests in development, where there is no rate."""
BODY_CHARACTERS_MAX = 65_536
PATH_CHARACTERS_MAX, REASON_CHARACTERS_MAX, AGENT_CHARACTERS_MAX, KEY_CHARACTERS_MAX = 500, 500, 200, 64
METHOD_CHARACTERS_MAX = 20
SURFACES = ("application", "token", "device")
POLL = "device_next"
"""Terminals poll all the time; polls are not recorded."""
PATHS = ("/v1/", "/terminals/", "/oauth/", "/device/")
"""Below these the requests that reach no operation are recorded too."""

_CREATED = re.compile(rb'"id":\s?"(ORD[0-9A-HJKMNP-TV-Z]{26})"')
_ID_START_BYTES = 60
_OF_ORDER = re.compile(
    "/v1/orders/(ORD[0-9A-HJKMNP-TV-Z]{26})(?:/|$)|/device/v1/leases/([0-9A-HJKMNP-TV-Z]{26})/", re.IGNORECASE
)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def is_recorded(operation: Operation) -> bool:
    """Return whether requests to this operation are recorded."""
    return operation.surface in SURFACES and operation.name != POLL


class Left(NamedTuple):
    """An answered request that waits to be recorded."""

    operation: str
    request: Request
    reply: Reply
    request_id: str
    address: str
    started: float
    """A time of `runtime.monotonic`."""
    duration_us: int


class Rate:
    """A rate of requests, with a burst that a time without requests restores. It reads no clock: most are refused."""

    def __init__(self, per_second: float) -> None:
        self._spacing = 1 / per_second
        self._ahead_max = BURST_SECONDS - self._spacing / 2
        # When the requests that were taken would have come at exactly this rate.
        self._due = 0.0

    def take(self, at: float) -> bool:
        """Return whether one more request is permitted at a time of `runtime.monotonic`, and count it if it is."""
        if self._due - at > self._ahead_max:
            return False
        self._due = max(self._due, at) + self._spacing
        return True


class RequestRecorder:
    """The requests of one process that wait to be recorded. `development`: all of them, with their bodies."""

    def __init__(self, *, development: bool = False) -> None:
        self._development = development
        self._left: list[Left] = []
        self._succeeded, self._failed = Rate(SUCCEEDED_PER_SECOND), Rate(FAILED_PER_SECOND)
        self._unauthenticated = Rate(UNAUTHENTICATED_PER_SECOND)
        self.dropped = 0
        """The number of requests since the start that were not recorded."""
        self.wake: Callable[[], None] | None = None
        """Wakes the worker that writes."""
        self.writing = asyncio.Lock()
        """Locked while rows are written, and while a reset removes them."""

    def note(
        self, operation: str, request: Request, reply: Reply, request_id: str, address: str, started: float
    ) -> None:
        """Keep a request that was answered; `started` is a time of `runtime.monotonic`."""
        if not self._development:
            if reply.status < 400:
                rate = self._succeeded
            else:
                rate = self._failed if request.caller is not None else self._unauthenticated
            if not rate.take(started):
                self.dropped += 1
                return
        elif len(self._left) >= WAITING_MAX:
            self.dropped += 1
            return
        duration_us = int((runtime.monotonic() - started) * 1_000_000)
        self._left.append(Left(operation, request, reply, request_id, address, started, duration_us))
        if self.wake is not None:
            self.wake()

    def take(self, now_ms: int) -> Iterator[Recorded]:
        """Yield the rows of all waiting requests; each takes a moment, as what was sent is masked."""
        left, self._left = self._left, []
        return (self._row(one, now_ms) for one in left)

    def forget(self) -> None:
        """Discard the waiting requests."""
        self._left.clear()

    def give_up(self, rows: int) -> None:
        """Count rows that could not be written."""
        self.dropped += rows

    def _row(self, left: Left, now_ms: int) -> Recorded:
        request, reply, refusal = left.request, left.reply, left.reply.refusal
        # A request that was refused before its time was read.
        past_ms = int((runtime.monotonic() - left.started) * 1000)
        created_ms = request.call.now_ms if request.call is not None else now_ms - past_ms
        ids_ = request.identity() if request.caller is not None or request.call is not None else {}
        caller, headers = request.caller, request.headers
        key = headers.get("x-idempotency-key")
        return Recorded(
            entry_id=ids.ordered_ulid(created_ms),
            request_id=redacted(left.request_id),
            method=_bounded(request.method, METHOD_CHARACTERS_MAX),
            path=_bounded(_target(request), PATH_CHARACTERS_MAX),
            operation=left.operation,
            status=reply.status,
            duration_us=left.duration_us,
            application_id=ids_.get("application_id"),
            seller_id=ids_.get("seller_id"),
            live=int(caller.live) if caller is not None and caller.application_id else None,
            terminal_id=ids_.get("terminal_id"),
            order_id=_order_id(request, reply),
            idempotency_key=_bounded(redacted(key), KEY_CHARACTERS_MAX) if key else None,
            replayed=int(any(name == "x-idempotent-replayed" for name, _ in reply.headers)),
            error=refusal.kind.code if refusal is not None else None,
            reason=_bounded(redacted(refusal.reason), REASON_CHARACTERS_MAX) if refusal is not None else None,
            address=left.address,
            user_agent=_bounded(redacted_agent(headers.get("user-agent", "")), AGENT_CHARACTERS_MAX),
            request_body=_body(request.raw) if self._development else None,
            response_body=_body(reply.body, is_answer=True) if self._development else None,
            created_ms=created_ms,
        )


def _target(request: Request) -> str:
    """Return the path with its query, without secrets, also percent-encoded ones."""
    path = request_log.readable(request.path)
    if not request.query_string:
        return path
    # Parameters with escapes first: after a part of one is masked, the search would miss the rest of its secret.
    query = "&".join(map(_parameter, request.query_string.split("&")))
    return f"{path}{redacted_url(f'?{query}')}"


def _parameter(parameter: str) -> str:
    """Return a parameter of a query as it was sent, or without its value if that is a secret."""
    plain = request_log.unquoted(parameter.replace("+", " "))
    if plain is not None and redacted(plain) == plain:
        return parameter
    name = request_log.unquoted(parameter.partition("=")[0])
    return f"{name}={MASK}" if name is not None and redacted(name) == name else MASK


def _order_id(request: Request, reply: Reply) -> str | None:
    """Return the order that a request is about: in its path, of its terminal's lease, or created by it."""
    named = _OF_ORDER.match(request.path)
    if named is not None:
        return (named[1] or f"ORD{named[2]}").upper()
    if reply.status == 201:
        created = _CREATED.search(reply.body[:_ID_START_BYTES])
        return created[1].decode() if created is not None else None
    return None


def _body(raw: bytes, *, is_answer: bool = False) -> str | None:
    """Return a body for the record: text in which all is masked that is not known to be harmless."""
    if not raw:
        return None
    # Masked before it is cut off, so that no cut hides what a secret is recognized by.
    text = raw[: 2 * BODY_CHARACTERS_MAX].decode("utf-8", "replace")
    return _bounded(redacted_body(text, is_answer=is_answer), BODY_CHARACTERS_MAX)


def _bounded(text: Any, characters_max: int) -> str:
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", str(text)[:characters_max])
