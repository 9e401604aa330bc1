"""The wait of a live order as operators see it: on its page, at its terminal and among the attention items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from paydesk.core.response import Closed, Time
from paydesk.engine.orders import status
from paydesk.engine.orders.order import Order
from paydesk.engine.payments import confirmation_store, inquiry_store
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.waiting import Periods, Wait, WaitsFor, wait_of
from paydesk.platform.storage.database import Transaction

if TYPE_CHECKING:
    from paydesk.platform.settings import Settings

RELEASABLE = ("acknowledgement", "payment", "cancel_answer", "fetch", "printing")
"""The values of `waits_for` while the terminal can be released: no card can have been charged."""

Sentence = Annotated[str, Meta(description="What it waits for, for people.")]
Until = Annotated[Time, Meta(description="When the wait ends, at the latest.")]
Next = Annotated[Time, Meta(description="The next attempt at the acquirer.")]
NotFound = Annotated[Time, Meta(description="From then on, a payment that the acquirer does not find was not made.")]
Resolvable = Annotated[Time, Meta(description="From then on, an operator can set the outcome.")]


class WaitTimes(Closed, frozen=True, kw_only=True):
    """How long a wait lasts, and why."""

    until_date: Until | None = None
    next_date: Next | None = None
    not_found_date: NotFound | None = None
    resolvable_date: Resolvable | None = None
    reason: Annotated[str, Meta(description="Why the outcome is unknown.")] | None = None


class WaitDocument(WaitTimes, frozen=True):
    """What a live order waits for."""

    waits_for: WaitsFor
    message: Sentence


def periods_of(settings: Settings) -> Periods:
    """Return the settings that decide how long an order waits."""
    return Periods(
        cancel_silence_seconds=settings.cancel_silence_seconds,
        unknown_after_seconds=settings.unknown_after_seconds,
        inquiry_not_found_seconds=settings.inquiry_not_found_seconds,
        grant_seconds=settings.grant_seconds,
        resolve_after_seconds=settings.resolve_after_seconds,
    )


async def wait_for(tx: Transaction, order: Order, periods: Periods, acquirers: Acquirers) -> Wait:
    """Return what a live order waits for, and how long."""
    inquiry = await inquiry_store.find_open(tx, order) if order.state == status.CHECK_ON_TERMINAL else None
    acquirer = acquirers.of(order)
    approval = await confirmation_store.provisional(tx, order) if order.permitted_ms is not None else None
    return wait_of(
        order,
        inquiry,
        periods,
        capabilities=None if acquirer is None else acquirer.capabilities,
        decide_by_ms=None if approval is None else approval.decide_by_ms,
    )


async def waiting(tx: Transaction, order: Order, periods: Periods, acquirers: Acquirers) -> WaitDocument:
    """Return what a live order waits for, for its page."""
    wait = await wait_for(tx, order, periods, acquirers)
    return WaitDocument.of(wait, message=wait.sentence())
