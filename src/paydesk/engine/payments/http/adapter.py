"""The HTTP adapter: an acquirer behind a switch of the operator's own, which speaks the operator's JSON over HTTP.

Only a trusted answer with an outcome is one. A refusal by the switch has had no effect. Everything else is `Unknown`
once there was a connection: the request may have been sent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
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
        state: AcquirerState,
        context: AdapterContext,
    ) -> None:
        self._name, self._exchange, self._capabilities, self._details = name, exchange, capabilities, details
        self._state = state
        self._breaker = Breaker(name, self._echo_fault, context)

    @property
    def capabilities(self) -> Capabilities:
        """Return what the acquirers file declares."""
        return self._capabilities

    @property
    def state(self) -> AcquirerState:
        """Return the address, the id of the key, and the state of the breaker."""
        return replace(self._state, breaker=self._breaker.state, reason=self._breaker.reason)

    async def authorize(self, payment: Payment, card: Card | None, *, blob: bytes = b"") -> Outcome:
        """Charge the payment, once per `payment.payment_id`."""
        result: Outcome = await self._ask("authorize", payment, payment.payment_id, **wire.presented(card, blob))
        return result

    async def confirm(self, payment: Payment, *, key: str, reference_id: str, chip_data: bytes = b"") -> ConfirmResult:
        """Make the provisional approval final, once per `key`."""
        result: ConfirmResult = await self._ask("confirm", payment, key, reference_id=reference_id, chip_data=chip_data)
        return result

    async def inquire(self, payment: Payment) -> InquiryResult:
        """Return the outcome of the payment's authorization."""
        result: InquiryResult = await self._ask("inquire", payment)
        return result

    async def refund(self, payment: Payment, *, key: str, amount_minor: int, reference_id: str = "") -> Outcome:
        """Refund a part or all of the payment, once per `key`."""
        result: Outcome = await self._ask("refund", payment, key, refund_minor=amount_minor, reference_id=reference_id)
        return result

    async def reverse(
        self, payment: Payment, *, key: str, amount_minor: int, reference_id: str = "", chip_data: bytes = b""
    ) -> ReverseResult:
        """Reverse the approval, once per `key`: always all of it, so the request has the payment's own amount."""
        del amount_minor
        result: ReverseResult = await self._ask("reverse", payment, key, reference_id=reference_id, chip_data=chip_data)
        return result

    async def echo(self) -> Echo:
        """Ask the switch for an answer, whatever the breaker's state is."""
        answer = await self._exchange.send("GET", "/echo", seconds_max=self._echo_seconds)
        if isinstance(answer, Unanswered):
            return Echo(answer.reason)
        return Echo(_echo_fault(answer), answer.difference_seconds)

    async def ledger(self, since: datetime) -> AsyncIterator[LedgerEntry]:
        """Yield the switch's entries since then. Raises `LedgerUnreadable`."""
        query = {"since": since.astimezone(UTC).isoformat(timespec="milliseconds"), "limit": LEDGER_ENTRIES_MAX}
        while True:
            target = f"/ledger?{urlencode(query)}"
            answer = await self._exchange.send("GET", target, seconds_max=self._seconds_max)
            page = _ledger_page(answer)
            for entry in page.entries:
                yield entry
            if page.next is None:
                return
            query["cursor"] = page.next

    async def close(self) -> None:
        """End the echoes and close the connections."""
        await self._breaker.close()
        await self._exchange.close()

    @property
    def _seconds_max(self) -> float:
        return self._capabilities.answer_seconds - MARGIN_SECONDS

    @property
    def _echo_seconds(self) -> float:
        return min(ECHO_SECONDS_MAX, self._capabilities.answer_seconds / 2)

    async def _echo_fault(self) -> str | None:
        return (await self.echo()).fault

    async def _ask(self, operation: wire.Operation, payment: Payment, key: str = "", **more: Any) -> Any:
        """Return the result of a request, and let the breaker know what came of it."""
        body = wire.request(payment, **more)
        if len(body) > BODY_BYTES_MAX:
            return NotSent(f"the request has more than {BODY_BYTES_MAX} bytes", again=False)
        refusal = await self._breaker.refusal()
        if refusal is not None:
            return NotSent(refusal, again=False)
        answer = await self._exchange.send("POST", f"/{operation}", body, key=key, seconds_max=self._seconds_max)
        if isinstance(answer, Unanswered):
            self._breaker.failed(answer.reason)
            return Unknown(answer.reason) if answer.connected else NotSent(answer.reason)
        fault = _signature_fault(answer)
        if fault is not None and answer.signature.verdict != "absent":
            self._breaker.trip(fault)
        elif fault is not None or answer.status >= 500:
            self._breaker.failed(fault or f"status {answer.status}")
        else:
            self._breaker.succeeded()
        if answer.is_document and answer.status == 200:
            return wire.result_of(operation, payment, answer.body, self._details)
        return self._without_outcome(answer, operation, payment, fault)

    def _without_outcome(
        self, answer: Answered, operation: wire.Operation, payment: Payment, fault: str | None
    ) -> NotSent | Unknown:
        """Return the result of an answer without an outcome: refused before it acted, or unknown."""
        refused = _refused(answer)
        if refused is None:
            return Unknown(fault or f"status {answer.status} of type {wire.readable(answer.media_type)}")
        if answer.status in REFUSED_STATUSES:
            return NotSent(refused.reason, again=False)
        if answer.status == IN_CONFLICT and refused.error == "key_reused":
            # Every attempt has the same body, so this is a defect, here or in the switch.
            log.error("acquirer_key_reused", acquirer=self._name, operation=operation, payment=payment.payment_id)
        return Unknown(f"status {answer.status}: {refused.reason}")


def _signature_fault(answer: Answered) -> str | None:
    """Return why the answer cannot be trusted, or None. With `clock_skew` the switch says what the other fault is."""
    match answer.signature.verdict:
        case "absent":
            return f"status {answer.status} without a signature"
        case "wrong":
            return f"status {answer.status} with a wrong signature: compare the secrets and `key_id`"
        case "outdated" if _refused(answer) is None:
            return f"status {answer.status} with the signature of another time: compare the clocks"
    return None


def _refused(answer: Answered) -> wire.Refused | None:
    """Return the switch's refusal, or None. Its own complaint about the clocks counts whatever its clock shows."""
    refused = None if answer.media_type != "application/json" else wire.refused_of(answer.body)
    if refused is None or answer.signature.is_trusted:
        return refused
    is_skew = answer.signature.verdict == "outdated" and answer.status == 401 and refused.error == "clock_skew"
    return refused if is_skew else None


def _echo_fault(answer: Answered) -> str | None:
    fault = _signature_fault(answer)
    if fault is None and answer.status != 200:
        refused = _refused(answer)
        fault = f"status {answer.status}" if refused is None else f"status {answer.status}: {refused.reason}"
    return fault


def _ledger_page(answer: Answered | Unanswered) -> wire.LedgerPage:
    if isinstance(answer, Unanswered):
        raise LedgerUnreadable(answer.reason)
    fault = _echo_fault(answer)
    if fault is not None or not answer.is_document:
        raise LedgerUnreadable(fault or f"its type is {wire.readable(answer.media_type)}")
    try:
        return msgspec.json.decode(answer.body, type=wire.LedgerPage)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise LedgerUnreadable(wire.readable(str(error))) from None
