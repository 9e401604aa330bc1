"""What the console shows of confirmations, and of refunds and reversals that wait for a person; and their forms."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Literal

import pytest

from authorize_scene import BLOCKING, WatchedAcquirer, at_terminal, authorize, process_jobs, service_device, watched
from console_scene import Console, console
from operator_calls import audited
from page_scene import Page
from paydesk.core.clock import MovableClock
from paydesk.engine.payments.acquirer import Declined, TooLate, Unknown
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.platform.storage.database import Database
from refund_scene import paid, refund
from resolving_scene import THREE_MINUTES_MS
from service import Service, running
from tables import each

HOLDING = replace(BLOCKING, needs_confirmation=True, confirm_before=600, can_inquire=False)
WHOLE = replace(BLOCKING, partial_refunds=False)
REASON = "Seen in the portal."
GONE = "UPDATE orders SET live = 1, acquirer = 'former' WHERE order_id = $1"


@dataclass
class Desk:
    """The browser of an operator, and a shop whose acquirer a test scripts."""

    service: Service
    acquirer: WatchedAcquirer
    clock: MovableClock
    browser: Console

    async def sale(self, outcome: str = "approved") -> str:
        """Return the id of an order whose provisional approval has this result of its terminal."""
        self.acquirer.can = HOLDING
        device = await service_device(self.service)
        lease_id = await at_terminal(device)
        reference_id = (await authorize(device, lease_id)).body["reference_id"]
        method = {"id": "visa", "type": "credit_card", "installments": 1}
        approved = {"payment_method": method, "paid_amount": "24.90", "reference_id": reference_id}
        more = approved if outcome == "approved" else {}
        assert (await device.result(lease_id, outcome=outcome, **more)).status == 200
        return f"ORD{lease_id}"

    async def work(self) -> None:
        """Do what is due."""
        await process_jobs(self.service, self.acquirer)

    async def page(self, order_id: str) -> Page:
        """Return the page of an order."""
        return await self.browser.open(f"/console/orders/{order_id}")


@pytest.fixture
async def desk(database: Database) -> AsyncIterator[Desk]:
    """A desk without workers, whose clock stands still."""
    clock = MovableClock()
    clock.freeze()
    acquirer = watched(database, clock)
    async with running(database, clock=clock, workers=False, acquirers=Acquirers(test=acquirer)) as service:
        yield Desk(service, acquirer, clock, await console(service, "operator"))


async def test_a_refused_payment_is_settled(desk: Desk) -> None:
    """The page and the overview say that it is not paid out, offer no refund, and then say how it was settled."""
    order_id = await desk.sale()
    assert "Not confirmed yet" in (await desk.page(order_id)).text
    desk.acquirer.confirmations.append(Declined("processing_error"))
    await desk.work()
    here = f"/console/orders/{order_id}"
    page = await desk.page(order_id)
    assert (
        "The acquirer refused to confirm the payment. It is not paid out, and the goods were handed over." in page.text
    )
    assert "No refund is possible" in page.text
    assert f'href="{here}/refund"' not in page.html
    assert "there is nothing to refund" in (await desk.browser.open(f"{here}/refund")).text
    assert "Not paid out" in (await desk.browser.open("/console")).text
    said = await desk.browser.done(f"{here}/confirmation/resolve", reason="Paid in cash.")
    assert said == "It is recorded how the payment was settled."
    page = await desk.page(order_id)
    assert "Settled: Paid in cash." in page.text
    assert f"{here}/confirmation/resolve" not in page.html
    assert "It is settled: Paid in cash." in (await desk.browser.open(f"{here}/confirmation/resolve")).text
    assert "Nothing needs you" in (await desk.browser.open("/console")).text


async def test_a_confirmed_payment_needs_no_settlement(desk: Desk) -> None:
    """The form says so."""
    order_id = await desk.sale()
    await desk.work()
    assert "Confirmed" in (await desk.page(order_id)).text
    path = f"/console/orders/{order_id}/confirmation/resolve"
    assert "has not refused to confirm" in (await desk.browser.open(path)).text


async def test_a_silent_refund_is_resolved(desk: Desk) -> None:
    """From three minutes on; the form takes the acquirer's reference."""
    order_id = await paid(desk.service)
    desk.acquirer.refunds.append(Unknown("no answer"))
    reply = await refund(desk.service, order_id)
    refund_id = reply.body["transactions"]["refunds"][0]["id"]
    path = f"/console/orders/{order_id}/refunds/{refund_id}/resolve"
    page = await desk.page(order_id)
    assert "The outcome can be set in 3 min" in page.text
    assert path not in page.html
    desk.clock.advance(THREE_MINUTES_MS)
    assert path in (await desk.page(order_id)).html
    status, said = await desk.browser.refused(path, outcome="processed", reason=REASON, reference_id="4235647728025682")
    assert (status, said) == (400, "The reference must not be a card number.")
    assert "refunded" in await desk.browser.done(path, outcome="processed", reason=REASON, reference_id="42")
    assert (await desk.service.get(order_id))["status"] == "refunded"


async def test_a_refund_without_a_next_attempt_waits_for_a_person(desk: Desk) -> None:
    """No date of the year 9999 is shown."""
    desk.acquirer.can = replace(BLOCKING, idempotent=frozenset({"authorize", "confirm", "reverse"}))
    order_id = await paid(desk.service)
    desk.acquirer.refunds.append(Unknown("no answer"))
    await refund(desk.service, order_id)
    page = await desk.page(order_id)
    assert "a person ends it" in page.text
    assert "waits for an operator: it may have taken effect" in page.text
    assert "9999-12" not in page.html


@each("after, said", [("refund", "is being refunded"), ("person", "none: waits for a person")])
async def test_a_reversal_that_came_too_late_says_what_it_waits_for(
    desk: Desk, after: Literal["refund", "person"], said: str
) -> None:
    """And its form ends it."""
    order_id = await desk.sale("canceled")
    desk.acquirer.can = replace(HOLDING, can_inquire=True, after_reverse_until=after)
    desk.acquirer.reversals.append(TooLate())
    await desk.work()
    page = await desk.page(order_id)
    assert "The acquirer's approval was undone: it was canceled at the terminal" in page.text
    assert said in page.text
    assert "9999-12" not in page.html


async def test_only_the_whole_is_refunded_where_no_part_can_be(desk: Desk) -> None:
    """The form asks for no amount, and says why."""
    desk.acquirer.can = WHOLE
    order_id = await paid(desk.service)
    path = f"/console/orders/{order_id}/refund"
    form, _ = await desk.browser.form_of(path)
    assert "amount" not in form.fields
    assert "refunds only whole payments" in (await desk.browser.open(path)).text
    assert "24.90 BRL was refunded." in await desk.browser.done(path, reason=REASON)
    assert (await desk.service.get(order_id))["status"] == "refunded"


async def test_nothing_is_refunded_without_the_orders_acquirer(desk: Desk) -> None:
    """The page has no button, and names the acquirer that is gone."""
    order_id = await paid(desk.service)
    await desk.service.scene.run(GONE, order_id)
    page = await desk.page(order_id)
    assert "former, is no longer configured" in page.text
    assert f'href="/console/orders/{order_id}/refund"' not in page.html
    path = f"/console/orders/{order_id}/refund"
    assert "former, is no longer configured" in (await desk.browser.open(path)).text


async def test_nothing_is_refunded_in_a_currency_that_the_acquirer_no_longer_accepts(desk: Desk) -> None:
    """The page has no button, and the form has the reason."""
    order_id = await paid(desk.service)
    desk.acquirer.can = replace(BLOCKING, currencies=frozenset({"ARS"}))
    path = f"/console/orders/{order_id}/refund"
    assert f'href="{path}"' not in (await desk.page(order_id)).html
    assert "does not accept BRL" in (await desk.browser.open(path)).text


async def test_resolve_has_what_the_terminal_sent_of_the_card(desk: Desk) -> None:
    """Filled in already; a decline sends none of it."""
    desk.acquirer.is_answer_lost = True
    desk.acquirer.can = replace(BLOCKING, idempotent=frozenset({"confirm", "reverse", "refund"}))
    device = await service_device(desk.service)
    lease_ids = []
    for _ in range(2):
        lease_ids.append(await at_terminal(device))
        assert (await authorize(device, lease_ids[-1])).body["outcome"] == "unknown"
        device = await service_device(desk.service)
    desk.clock.advance(THREE_MINUTES_MS)
    first, second = (f"/console/orders/ORD{lease_id}/resolve" for lease_id in lease_ids)
    form, _ = await desk.browser.form_of(first)
    filled_in = {"payment_method_id": "visa", "payment_method_type": "credit_card", "last_digits": "5682"}
    assert filled_in.items() <= form.fields.items()
    await desk.browser.done(first, outcome="approved", reason=REASON, reference_id="42", authorization_code="831000")
    payment = (await desk.service.get(f"ORD{lease_ids[0]}"))["transactions"]["payments"][0]
    assert (payment["reference_id"], payment["card"]["last_digits"]) == ("42", "5682")
    assert "not paid" in await desk.browser.done(second, outcome="declined", reason=REASON)
    paid_entry, unpaid_entry = await audited(desk.service)
    assert paid_entry.after["last_digits"] == "5682"
    assert "last_digits" not in unpaid_entry.after
