"""The HTTP adapter: an acquirer behind a switch of the operator's own, which speaks the operator's JSON over HTTP.

Only a trusted answer with an outcome decides. A refusal by the switch has had no effect. Everything else is `Unknown`
once there was a connection: the request may have been sent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import msgspec
import structlog

from paydesk.engine.payments.acquirer import (
    Acquirer,
    Card,
    ConfirmResult,
    Echo,
    InquiryResult,
    LedgerEntry,
    NotSent,
    Outcome,
    Payment,
    ReverseResult,
    Unknown,
)
from paydesk.engine.payments.adapters.context import AcquirerState, AdapterContext
from paydesk.engine.payments.capabilities import Capabilities
from paydesk.engine.payments.http import wire
from paydesk.engine.payments.http.breaker import Breaker
from paydesk.engine.payments.http.exchange import BODY_BYTES_MAX, Answered, Exchange, Unanswered
from paydesk.engine.payments.http.wire import Operation, R

ECHO_SECONDS_MAX = 3.0
"""The first payment of a node waits for an echo, and must end within its own limit."""
MARGIN_SECONDS = 0.1
"""A call ends this long before the engine's limit, so that its timeout counts as a failure."""
LEDGER_ENTRIES_MAX = 100
"""Entries of a page: with the longest ids they are below 64 KiB."""
REFUSED_STATUSES = (400, 401, 403, 422, 429, 503)
IN_CONFLICT = 409

log = structlog.get_logger("acquirer")


class LedgerUnreadable(Exception):
    """The switch did not answer with a page of its ledger."""


class HttpAcquirer(Acquirer):
    """An acquirer behind a switch. `details` are those of declines, by the codes of its host."""

    def __init__(
        self,
        name: str,
        exchange: Exchange,
        capabilities: Capabilities,
        details: Mapping[str, str],
        context: AdapterContext,
    ) -> None:
        self._name, self._exchange, self._capabilities, self._details = name, exchange, capabilities, details
        self._breaker = Breaker(name, self._send_echo, context)

    @property
    def capabilities(self) -> Capabilities:
        """Return what the acquirers file declares."""
        return self._capabilities

    @property
    def state(self) -> AcquirerState:
        """Return the address, the id of the key, and the state of the breaker."""
        breaker, key_id = self._breaker, self._exchange.signer.key_id or None
        return AcquirerState(self._exchange.url, key_id, breaker.state, breaker.reason, breaker.next_echo_ms)

    async def authorize(self, payment: Payment, card: Card | None, *, blob: bytes = b"") -> Outcome:
        """Charge the payment, once per `payment.payment_id`."""
        return await self._ask(wire.AUTHORIZE, payment, payment.payment_id, **wire.presented(card, blob))

    async def confirm(self, payment: Payment, *, key: str, reference_id: str, chip_data: bytes = b"") -> ConfirmResult:
        """Make the provisional approval final, once per `key`."""
        return await self._ask(wire.CONFIRM, payment, key, reference_id=reference_id, chip_data=chip_data)

    async def inquire(self, payment: Payment) -> InquiryResult:
        """Return the outcome of the payment's authorization."""
        return await self._ask(wire.INQUIRE, payment)

    async def refund(self, payment: Payment, *, key: str, amount_minor: int, reference_id: str = "") -> Outcome:
        """Refund a part or all of the payment, once per `key`."""
        return await self._ask(wire.REFUND, payment, key, refund_minor=amount_minor, reference_id=reference_id)

    async def reverse(
        self, payment: Payment, *, key: str, amount_minor: int, reference_id: str = "", chip_data: bytes = b""
    ) -> ReverseResult:
        """Reverse the approval, once per `key`: always all of it, so the request has the payment's own amount."""
        del amount_minor
        return await self._ask(wire.REVERSE, payment, key, reference_id=reference_id, chip_data=chip_data)

    async def echo(self) -> Echo:
        """Ask the switch for an answer, whatever the breaker's state is: a good one closes it."""
        return await self._breaker.echo()

    async def ledger(self, since: datetime) -> AsyncIterator[LedgerEntry]:
        """Yield the switch's entries since then. Raises `LedgerUnreadable`."""
        query = {"since": since.astimezone(UTC).isoformat(timespec="milliseconds"), "limit": LEDGER_ENTRIES_MAX}
        while True:
            target = f"/ledger?{urlencode(query)}"
            page = _ledger_page(await self._exchange.send("GET", target, seconds_max=self._seconds_max))
            for entry in page.entries:
                yield entry
            if not page.next:
                return
            query["cursor"] = page.next

    async def close(self) -> None:
        """End the echoes and close the connections."""
        await self._breaker.close()
        await self._exchange.close()

    @property
    def _seconds_max(self) -> float:
        return self.capabilities.answer_seconds - MARGIN_SECONDS

    async def _send_echo(self) -> Echo:
        seconds_max = min(ECHO_SECONDS_MAX, self.capabilities.answer_seconds / 2)
        answer = await self._exchange.send("GET", "/echo", seconds_max=seconds_max)
        return Echo(_fault(answer) or _echo_fault(answer), answer.difference_seconds)

    async def _ask(
        self, operation: Operation[R], payment: Payment, key: str = "", **more: Any
    ) -> R | NotSent | Unknown:
        """Return the result of a request, and let the breaker know what came of it."""
        body = wire.request(payment, **more)
        if len(body) > BODY_BYTES_MAX:
            return NotSent(f"the request has more than {BODY_BYTES_MAX} bytes", again=False)
        if (refusal := await self._breaker.refusal()) is not None:
            return NotSent(refusal, again=False, breaker_open=True)
        answer = await self._exchange.send("POST", f"/{operation.name}", body, key=key, seconds_max=self._seconds_max)
        fault = answer.fault
        if isinstance(answer, Unanswered):
            self._breaker.failed(answer.fault)
            return Unknown(answer.fault) if answer.connected else NotSent(answer.fault)
        if fault is not None and answer.verdict != "absent":
            self._breaker.trip(fault)
        elif fault is not None or answer.status >= 500:
            self._breaker.failed(fault or f"status {answer.status}")
        else:
            self._breaker.succeeded()
        if answer.document is not None and answer.status == 200:
            result: R | Unknown = operation.result(payment, answer.document, self._details)
            return result
        return self._without_outcome(answer, operation.name, payment)

    def _without_outcome(self, answer: Answered, operation: str, payment: Payment) -> NotSent | Unknown:
        """Return the result of an answer without an outcome: refused before it acted, or unknown."""
        refused = answer.refused
        if refused is None:
            return Unknown(answer.fault or f"status {answer.status} of type {wire.readable(answer.media_type)}")
        if answer.status in REFUSED_STATUSES:
            return NotSent(refused.reason, again=False)
        if answer.status == IN_CONFLICT and refused.error == "key_reused":
            # Every attempt has the same body, so this is a defect, here or in the switch.
            facts = {"operation": operation, "payment": payment.payment_id, **payment.order_facts}
            log.error("acquirer_key_reused", acquirer=self._name, **facts)
        return Unknown(f"status {answer.status}: {refused.reason}")


def _fault(answer: Answered | Unanswered) -> str | None:
    """Return why the switch does not answer as it must, or None."""
    fault = answer.fault
    if fault is None and isinstance(answer, Answered) and answer.status != 200:
        reason = "" if answer.refused is None else f": {answer.refused.reason}"
        fault = f"status {answer.status}{reason}"
    return fault


def _echo_fault(answer: Answered | Unanswered) -> str | None:
    """Return why the answer to an echo is not as described, or None."""
    if isinstance(answer, Answered) and answer.document is not None:
        try:
            msgspec.json.decode(answer.document, type=wire.EchoAnswer)
        except wire.UNREADABLE as error:
            return wire.unreadable(error)
    return None


def _ledger_page(answer: Answered | Unanswered) -> wire.LedgerPage:
    fault = _fault(answer)
    if fault is not None or isinstance(answer, Unanswered):
        raise LedgerUnreadable(fault)
    if answer.document is None:
        raise LedgerUnreadable(f"its type is {wire.readable(answer.media_type)}")
    try:
        return msgspec.json.decode(answer.document, type=wire.LedgerPage)
    except wire.UNREADABLE as error:
        raise LedgerUnreadable(wire.readable(str(error))) from None
