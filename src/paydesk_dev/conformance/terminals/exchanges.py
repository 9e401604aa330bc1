"""The log of a terminal under test: each request that it sent and the answer that it got."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from paydesk.core import runtime

Found = TypeVar("Found")

Kind = Literal[
    "pairing",
    "pairing-token",
    "hello",
    "poll",
    "ack",
    "progress",
    "authorizing",
    "authorize",
    "cancel-result",
    "result",
    "print-result",
    "charge",
    "other",
]
IN_SESSION: tuple[Kind, ...] = ("poll", "ack", "progress", "authorizing", "authorize", "cancel-result", "print-result")
"""The calls that need the terminal's newest session."""
PERMITS: tuple[Kind, ...] = ("authorizing", "authorize")
"""The calls that take the permit; a terminal of kind `service` may do without the first one."""

EXCHANGES_MAX, BYTES_MAX = 50_000, 50_000_000

_LEASE = re.compile(r"/device/v1/leases/([^/]+)/(ack|progress|authorize|cancel-result|results)(?:/([^/]+))?")
_PRINT = re.compile(r"/device/v1/actions/([^/]+)/result")
_NAMES: dict[str, Kind] = {
    "/device/v1/pairings": "pairing",
    "/device/v1/pairings/token": "pairing-token",
    "/device/v1/hello": "hello",
    "/device/v1/next": "poll",
}
CHARGE = "/virtual/v1/acquirer/payments"


@dataclass(slots=True)
class Exchange:
    """A request of the terminal and its answer."""

    number: int
    kind: Kind
    method: str
    path: str
    boot_id: str
    """The boot id in lower case; of a charge that of the hello before it."""
    body: Any
    """The JSON of the body; of a poll its query."""
    lease_id: str = ""
    """The lease in upper case; of a charge that of its payment, of a `print-result` the action."""
    result_id: str = ""
    started: float = field(default_factory=runtime.monotonic)
    answered: float | None = None
    """The time at which the terminal got its answer; None: none yet, or it was lost."""
    status: int | None = None
    """The status that the terminal got."""
    answer: dict[str, Any] = field(default_factory=dict)
    """The JSON object that the terminal got."""
    served: int | None = None
    """The status that the service answered; None: the request did not reach the service."""

    @property
    def charges(self) -> bool:
        """Whether it charges the payment: a call to the acquirer, or one that has the service call it."""
        return self.kind == "charge" or (self.kind == "authorize" and self.served == 200)

    @property
    def code(self) -> str:
        """The error code that the terminal got, or an empty string."""
        return str(self.answer.get("error", ""))

    @property
    def content(self) -> dict[str, Any]:
        """The content of a result: its body without the boot id."""
        body = self.body if isinstance(self.body, dict) else {}
        return {name: value for name, value in body.items() if name != "boot_id"}

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Log:
    """The exchanges in the order in which they began."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self._bytes = 0
        self._changed = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether no exchange can be added: a terminal that never pauses must not use up the memory."""
        return len(self.exchanges) >= EXCHANGES_MAX or self._bytes > BYTES_MAX

    def begin(self, method: str, path: str, query: dict[str, str], body: Any, size: int = 0) -> Exchange:
        """Add an exchange that is not answered yet; `size`: the bytes of its body."""
        self._bytes += size
        kind, lease_id, result_id = _classified(path, body)
        values = body if isinstance(body, dict) else {}
        boot_id = str(query.get("boot_id", "") if kind == "poll" else values.get("boot_id", "")).lower()
        if kind == "charge":
            boot_id = next((each.boot_id for each in reversed(self.exchanges) if each.kind == "hello"), "")
        exchange = Exchange(
            len(self.exchanges), kind, method, path, boot_id, query if kind == "poll" else body, lease_id, result_id
        )
        self.exchanges.append(exchange)
        self.notify()
        return exchange

    def notify(self) -> None:
        """Wake all that wait, so that they check again."""
        self._changed.set()
        self._changed = asyncio.Event()

    def find(self, *kinds: Kind, lease_id: str = "", since: int = 0) -> Iterator[Exchange]:
        """Yield the exchanges of these kinds, of that lease if one is given, from number `since` on."""
        for exchange in self.exchanges[since:]:
            if exchange.kind in kinds and lease_id in ("", exchange.lease_id):
                yield exchange

    async def until(self, find: Callable[[], Found | None], seconds: float) -> Found | None:
        """Return what `find` finds as soon as it finds something; None after `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    changed, result = self._changed, find()
                    if result:
                        return result
                    await changed.wait()
        return find()


def _classified(path: str, body: Any) -> tuple[Kind, str, str]:
    """Return the kind of a request, its lease and the id of its result."""
    if path == CHARGE:
        payment_id = body.get("payment_id", "") if isinstance(body, dict) else ""
        return "charge", str(payment_id).upper().removeprefix("PAY"), ""
    printed = _PRINT.fullmatch(path)
    if printed is not None:
        return "print-result", printed[1].upper(), ""
    call = _LEASE.fullmatch(path)
    if call is None:
        return _NAMES.get(path, "other"), "", ""
    lease_id, name, result_id = call.groups()
    if name == "results":
        return "result", lease_id.upper(), (result_id or "").lower()
    if name == "progress" and isinstance(body, dict) and body.get("step") == "authorizing":
        return "authorizing", lease_id.upper(), ""
    kinds: dict[str, Kind] = {one: one for one in ("ack", "progress", "authorize", "cancel-result")}
    return kinds[name], lease_id.upper(), ""
