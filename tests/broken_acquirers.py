"""Adapters of the example switch that are right but for one defect, each of them found by one case of the kit."""

# ruff: noqa: D102 - what each does is said by its class
from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from paydesk.engine.payments.acquirer import Approved, Card, Declined, NotFound, Payment, Unknown
from paydesk.engine.payments.http import wire


class Broken:
    """An adapter that does what another one does, but for what a subclass changes."""

    def __init__(self, adapter: Any) -> None:
        self.adapter = adapter
        self.asked = dict[str, Any]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.adapter, name)

    def ledger(self, since: datetime) -> Any:
        return self.adapter.ledger(since)


class DeclinesOnTimeout(Broken):
    """Says that a payment without an answer in time was declined."""

    async def authorize(self, payment: Payment, card: Card | None, *, blob: bytes = b"") -> Any:
        result = await self.adapter.authorize(payment, card, blob=blob)
        is_timeout = isinstance(result, Unknown) and "within" in result.reason
        return Declined("processing_error") if is_timeout else result


class BelievesProxies(Broken):
    """Says that a payment was declined whose answer is a proxy's 502."""

    async def authorize(self, payment: Payment, card: Card | None, *, blob: bytes = b"") -> Any:
        result = await self.adapter.authorize(payment, card, blob=blob)
        is_proxy = isinstance(result, Unknown) and "status 502" in result.reason
        return Declined("processing_error") if is_proxy else result


class DeclinesWhatIsNotFound(Broken):
    """Says that a payment was declined which the host does not have yet."""

    async def inquire(self, payment: Payment) -> Any:
        result = await self.adapter.inquire(payment)
        return Declined("processing_error") if isinstance(result, NotFound) else result


class NewKeyOnRetry(Broken):
    """Sends each attempt of a payment under a key of its own."""

    async def authorize(self, payment: Payment, card: Card | None, *, blob: bytes = b"") -> Any:
        attempt = self.asked[payment.payment_id] = self.asked.get(payment.payment_id, 0) + 1
        key = payment.payment_id if attempt == 1 else f"TRY{payment.payment_id[3:]}{attempt % 10}"
        return await self.adapter._ask(wire.AUTHORIZE, payment, key, **wire.presented(card, blob))


class SecondHost(Broken):
    """Asks another host about a payment that the first one did not answer."""

    second: Any
    """The adapter of the other host."""

    async def authorize(self, payment: Payment, card: Card | None, *, blob: bytes = b"") -> Any:
        result = await self.adapter.authorize(payment, card, blob=blob)
        return await self.second.authorize(payment, card, blob=blob) if isinstance(result, Unknown) else result


class RemembersItsFirstAnswer(Broken):
    """Inquires about a payment once, and repeats what it heard."""

    async def inquire(self, payment: Payment) -> Any:
        if payment.payment_id not in self.asked:
            self.asked[payment.payment_id] = await self.adapter.inquire(payment)
        return self.asked[payment.payment_id]


class RepeatsTheRequest(Broken):
    """Says that the amount and currency were approved that the request has."""

    async def authorize(self, payment: Payment, card: Card | None, *, blob: bytes = b"") -> Any:
        return _echoed(await self.adapter.authorize(payment, card, blob=blob), payment)

    async def inquire(self, payment: Payment) -> Any:
        return _echoed(await self.adapter.inquire(payment), payment)


class ConfirmsUnderTwoKeys(Broken):
    """Confirms under a key of its own after the first attempt."""

    async def confirm(self, payment: Payment, *, key: str, **options: Any) -> Any:
        attempt = self.asked[key] = self.asked.get(key, 0) + 1
        own = key if attempt == 1 else f"{key[:-1]}{attempt}"
        result = await self.adapter.confirm(payment, key=own, **options)
        return replace(result, key=key) if isinstance(result, Approved) else result


class WithoutLedger(Broken):
    """Has no ledger."""

    ledger = None  # type: ignore[assignment]  # as if the class had none


class UnreadableLedger(Broken):
    """Has a ledger that cannot be read."""

    def ledger(self, since: datetime) -> Any:
        raise RuntimeError(f"no entries since {since.year}")


class RaisesOnRefund(Broken):
    """Raises an exception instead of returning a result."""

    async def refund(self, *_args: Any, **_options: Any) -> Any:
        raise RuntimeError("no refunds")


FOUND_BY: dict[type[Broken], str] = {
    DeclinesOnTimeout: "timeout_is_unknown",
    BelievesProxies: "foreign_answer_is_unknown",
    DeclinesWhatIsNotFound: "not_found_is_not_final",
    NewKeyOnRetry: "retry_has_the_same_key",
    SecondHost: "one_address",
    RemembersItsFirstAnswer: "late_answer_is_learned",
    RepeatsTheRequest: "answer_is_compared",
    ConfirmsUnderTwoKeys: "confirm_once",
}
"""The case of the kit that must fail."""


def _echoed(result: Any, payment: Payment) -> Any:
    if not isinstance(result, Approved):
        return result
    return replace(result, amount_minor=payment.amount_minor, currency=payment.currency)
