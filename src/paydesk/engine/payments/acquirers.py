"""The acquirers of a service: an order's acquirer, and each call to it, with a time limit and a compared answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any, TypeVar, get_args

import structlog

from paydesk.core.metrics import Counter, Histogram
from paydesk.core.runtime import monotonic
from paydesk.core.trace import CURRENT, Attributes
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.routing import NO_ROUTING, Routing
from paydesk.engine.payments.acquirer import (
    Acquirer,
    Approved,
    Card,
    ConfirmResult,
    Echo,
    InquiryResult,
    NotSent,
    Outcome,
    Payment,
    Result,
    ReverseResult,
    Unknown,
)
from paydesk.engine.payments.capabilities import Capabilities
from paydesk.platform import traces
from paydesk.platform.storage.database import Locked, Unavailable

T = TypeVar("T", bound=Result)
Call = partial[Coroutine[Any, Any, T]]

log = structlog.get_logger("acquirer")

REQUESTS = Counter(
    "paydesk_acquirer_requests_total",
    "Requests to acquirers by what came of them. What an open circuit breaker has kept back is breaker_open.",
    *("acquirer", "operation", "outcome"),
)
DURATION = Histogram(
    "paydesk_acquirer_request_duration_seconds",
    "From a request to an acquirer to its answer, or to the end of the wait.",
    *("acquirer", "operation"),
)
_NAMES = ("approved", "declined", "unknown", "not_sent", "not_found", "too_late")
OUTCOMES: Mapping[type, str] = dict(zip(get_args(Result), _NAMES, strict=True))


def note_request(acquirer: str, operation: str, outcome: str, began: float) -> None:
    """Count a request that began at a time of `runtime.monotonic`."""
    REQUESTS.add(acquirer, operation, outcome)
    if outcome != "breaker_open":
        DURATION.of(acquirer, operation).add(monotonic() - began)


class CheckedAcquirer:
    """An acquirer as the engine calls it: each call ends within `answer_seconds`, and its answer is compared.

    An answer with another currency or key than its request, or with another amount than a request of a fixed amount,
    is `Unknown` and `differs`. So is a provisional approval of an acquirer that declares none. The amount of an
    authorization is compared by the decisions on the order.
    """

    def __init__(self, acquirer: Acquirer, name: str = "test") -> None:
        self.acquirer, self.name = acquirer, name
        self.capabilities: Capabilities = acquirer.capabilities

    async def authorize(
        self, payment: Payment, card: Card | None, *, blob: bytes = b"", seconds_max: float = inf
    ) -> Outcome:
        """Charge the payment, once per `payment.payment_id`; `seconds_max` is the time left, if it is limited."""
        if not self.capabilities.supports(payment.currency):
            return NotSent(f"the acquirer does not accept {payment.currency}", again=False)
        call = partial(self.acquirer.authorize, payment, card, blob=blob)
        return await self._noted("authorize", self._answer(call, payment, payment.payment_id, seconds_max=seconds_max))

    async def inquire(self, payment: Payment) -> InquiryResult:
        """Return the outcome of the payment's authorization."""
        return await self._noted(
            "inquire", self._answer(partial(self.acquirer.inquire, payment), payment, payment.payment_id)
        )

    async def confirm(self, payment: Payment, *, reference_id: str, chip_data: bytes = b"") -> ConfirmResult:
        """Make the provisional approval final."""
        key = payment.confirmation_key
        call = partial(self.acquirer.confirm, payment, key=key, reference_id=reference_id, chip_data=chip_data)
        return await self._noted("confirm", self._answer(call, payment, key, payment.amount_minor))

    async def refund(self, payment: Payment, *, key: str, amount_minor: int, reference_id: str = "") -> Outcome:
        """Refund `amount_minor` of the payment, once per `key`."""
        call = partial(self.acquirer.refund, payment, key=key, amount_minor=amount_minor, reference_id=reference_id)
        return await self._noted("refund", self._answer(call, payment, key, amount_minor))

    async def reverse(
        self, payment: Payment, *, key: str, amount_minor: int, reference_id: str = "", chip_data: bytes = b""
    ) -> ReverseResult:
        """Reverse the approval completely, once per `key`."""
        call = partial(self.acquirer.reverse, payment, key=key, amount_minor=amount_minor, reference_id=reference_id)
        return await self._noted(
            "reverse", self._answer(partial(call, chip_data=chip_data), payment, key, amount_minor)
        )

    async def echo(self) -> Echo:
        """Send a request that charges nothing, and return the answer."""
        try:
            return await asyncio.wait_for(self.acquirer.echo(), self.capabilities.answer_seconds)
        except TimeoutError:
            return Echo(f"no answer within {self.capabilities.answer_seconds} s")
        except Exception as error:
            log.exception("acquirer_adapter_failed")
            return Echo(f"the adapter failed: {type(error).__name__}")

    async def _noted(self, operation: str, answer: Awaitable[T | Unknown]) -> T | Unknown:
        began = monotonic()
        result = await answer
        is_refused = isinstance(result, NotSent) and result.breaker_open
        note_request(self.name, operation, "breaker_open" if is_refused else OUTCOMES[type(result)], began)
        return result

    async def _answer(
        self, call: Call[T], payment: Payment, key: str, amount_minor: int | None = None, seconds_max: float = inf
    ) -> T | Unknown:
        """Return the answer, compared with its request; `Unknown` when there is none in time, or the adapter fails."""
        limit = min(self.capabilities.answer_seconds, seconds_max)
        facts: Attributes = {traces.SELLER: payment.merchant_id, traces.ORDER: payment.order_id}
        try:
            with traces.call(f"acquirer {call.func.__name__}", CURRENT.get(), facts):
                answer = await asyncio.wait_for(call(), limit)
                outcome = traces.ERROR if isinstance(answer, Unknown | NotSent) else "paydesk.outcome"
                facts[outcome] = type(answer).__name__
        except TimeoutError:
            return Unknown(f"no answer within {max(limit, 1):.0f} s")
        except (Unavailable, Locked):
            raise
        except Exception as error:
            log.exception("acquirer_adapter_failed", **payment.order_facts)
            return Unknown(f"the adapter failed: {type(error).__name__}")
        if not isinstance(answer, Approved):
            return answer if isinstance(answer, Result) else Unknown(f"the adapter answered {type(answer).__name__}")
        expected = {"currency": payment.currency, "key": key, "amount_minor": amount_minor}
        differing = [
            name for name, value in expected.items() if value is not None and getattr(answer, name) not in ("", value)
        ]
        if answer.needs_confirmation and not self.capabilities.needs_confirmation:
            differing.append("needs_confirmation")
        return Unknown(f"the answer differs in {', '.join(differing)}", differs=True) if differing else answer


@dataclass(frozen=True, slots=True)
class Acquirers:
    """The acquirer of test orders, and those of live orders by their names."""

    test: Acquirer | None = None
    live: Mapping[str, Acquirer] = field(default_factory=dict)
    routing: Routing = NO_ROUTING
    adapters: Mapping[str, str] = field(default_factory=dict)
    """The adapters of the acquirers in the acquirers file."""

    def of(self, order: Order) -> CheckedAcquirer | None:
        """Return the order's acquirer; None where none is configured, or its acquirer no longer is."""
        acquirer = self.live.get(self.name_of(order) or "") if order.live else self.test
        return None if acquirer is None else CheckedAcquirer(acquirer, self.name_of(order) or "test")

    def name_of(self, order: Order) -> str | None:
        """Return the name of a live order's acquirer; the rules name that of an order that has none of its own."""
        if not order.live:
            return None
        return order.acquirer or self.routing.acquirer_for(order.seller_id, order.currency, order.terminal_id)

    @property
    def answer_seconds_max(self) -> int:
        """Return the longest limit of a call at any of them."""
        return max(
            (acquirer.capabilities.answer_seconds for acquirer in self._all), default=Capabilities().answer_seconds
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send an echo to those of live orders, without waiting for it; close the connections of all at the end."""
        echoes = [asyncio.create_task(CheckedAcquirer(acquirer).echo()) for acquirer in self.live.values()]
        try:
            yield
        finally:
            for echo in echoes:
                echo.cancel()
            await asyncio.gather(*echoes, return_exceptions=True)
            await asyncio.gather(*(acquirer.close() for acquirer in self._all))

    @property
    def _all(self) -> tuple[Acquirer, ...]:
        return (*self.live.values(), *(() if self.test is None else (self.test,)))
