"""What an operator reads of an order's payment: steps, results, inquiry, refunds, reversals, and operators' changes."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from authorize_scene import at_terminal as take_order
from authorize_scene import authorize, service_device, watched
from console_scene import console
from operator_calls import operator
from paydesk.core.clock import MovableClock, SystemClock
from paydesk.engine.device.store import STEPS_MAX
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.platform.storage.database import Database
from plain_rows import run
from refund_scene import paid, part_of, refund
from resolving_scene import REASON, THREE_MINUTES_MS, scene, unknown
from service import Device, Service, running


async def progress(device: Device, order_id: str, seq: int, step: str) -> None:
    """Report a step."""
    body = {"boot_id": device.boot_id, "seq": seq, "step": step}
    reply = await device.post(f"/leases/{order_id[3:]}/progress", body)
    assert reply.status == 200, reply.body


async def at_terminal(service: Service) -> tuple[Device, str]:
    """Return a terminal and the id of an order that it acknowledged."""
    device = await service.device(await service.terminal())
    order_id: str = (await service.create(device.terminal)).body["id"]
    assert (await device.ack(order_id[3:])).status == 200
    return device, order_id


async def test_steps_are_recorded_once_each(database: Database, clock: MovableClock) -> None:
    """With the time of the first report; a repeated one adds nothing, and the permit is the last step."""
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        device, order_id = await at_terminal(service)
        for seq, step in ((1, "card_requested"), (2, "card_presented"), (2, "card_presented")):
            clock.advance(1)
            await progress(device, order_id, seq, step)
        assert (await device.authorizing(order_id[3:], 3)).status == 200
        assert (await device.authorizing(order_id[3:], 3)).status == 200
        document = await (await operator(service, "support")).did("GET", f"orders/{order_id}")
    assert [one["step"] for one in document["steps"]] == ["card_requested", "card_presented", "authorizing"]
    first, second, permitted = (one["date"] for one in document["steps"])
    assert first < second < permitted == document["times"]["permitted_date"]
    assert document["waiting"]["waits_for"] == "result"
    assert document["waiting"]["message"].startswith("Authorization was permitted")


async def test_steps_of_a_lease_are_limited(database: Database) -> None:
    """The newest one stays known to the lease; a terminal cannot fill the database."""
    async with running(database, workers=False) as service:
        device, order_id = await at_terminal(service)
        for seq in range(STEPS_MAX + 2):
            await progress(device, order_id, seq, "card_requested")
        document = await (await operator(service)).did("GET", f"orders/{order_id}")
        newest = await service.scene.value("SELECT seq FROM leases")
    assert len(document["steps"]) == STEPS_MAX
    assert newest == STEPS_MAX + 1


async def test_results_are_shown_with_their_verdict(database: Database) -> None:
    """The card as its digits; an unreadable result as such, and nothing of its content."""
    async with running(database, workers=False) as service:
        device, order_id = await at_terminal(service)
        card = {"first_digits": "503175", "last_digits": "6351", "entry_mode": "chip"}
        declined: dict[str, Any] = {"outcome": "declined", "status_detail": "insufficient_amount", "card": card}
        assert (await device.result(order_id[3:], **declined)).status == 200
        assert (await device.result(order_id[3:], outcome="strange")).status == 409
        document = await (await operator(service)).did("GET", f"orders/{order_id}")
    one, other = sorted(document["results"], key=lambda result: result["verdict"])
    assert {**one, "date": ""} == {**declined, "date": "", "verdict": "taken"}
    assert {**other, "date": ""} == {"date": "", "outcome": "unreadable", "verdict": "unreadable"}
    assert "waiting" not in document


async def test_order_that_no_terminal_took_has_empty_lists(database: Database) -> None:
    """And waits for its terminal."""
    async with running(database, workers=False) as service:
        order_id = (await service.create(await service.terminal())).body["id"]
        document = await (await operator(service, "support")).did("GET", f"orders/{order_id}")
    assert all(document[name] == [] for name in ("steps", "results", "order_refunds", "reversals", "changes"))
    assert "inquiry" not in document
    assert "authorization" not in document
    assert document["waiting"]["waits_for"] == "acknowledgement"
    assert document["waiting"]["until_date"] > document["created_date"]


async def test_inquiry_and_its_resolution_are_shown(database: Database, clock: MovableClock) -> None:
    """While it is open, and ended by an operator with a reason; a late approval is a reversal."""
    async with scene(database, clock, None) as (service, device, person):
        order_id = await unknown(service, device)
        document = await person.did("GET", f"orders/{order_id}")
        assert (document["inquiry"]["status"], document["waiting"]["waits_for"]) == ("asking", "operator")
        assert document["inquiry"]["reason"] == "the terminal knows no outcome"
        clock.advance(THREE_MINUTES_MS)
        await person.did("POST", f"orders/{order_id}/resolve", {"outcome": "declined", "reason": REASON})
        await device.approve(order_id[3:])
        document = await person.did("GET", f"orders/{order_id}")
    assert document["inquiry"]["outcome"] == "operator"
    assert "next_date" not in document["inquiry"]
    (change,) = document["changes"]
    assert (change["action"], change["operator"], change["reason"], change["outcome"]) == (
        "orders.resolve",
        "a operator",
        REASON,
        "declined",
    )
    assert [one["amount"] for one in document["reversals"]] == ["24.90"]
    assert [one["verdict"] for one in document["results"]] == ["taken", "late_approval"]


@pytest.mark.on_postgres
async def test_refund_names_the_operator_and_the_reason(database: Database) -> None:
    """A refund of the application has none."""
    async with running(database, workers=False) as service:
        person = await operator(service, "operator")
        order_id = await paid(service)
        assert (await refund(service, order_id, "5.00")).status == 201
        body = {"reason": "Returned goods.", **part_of(order_id, "2.00")}
        path = f"/operator/v1/orders/{order_id}/refund"
        reply = await service.request("POST", path, body, token=person.token, key=str(uuid.uuid4()))
        assert reply.status == 201, reply.body
        document = await person.did("GET", f"orders/{order_id}")
    first, second = document["order_refunds"]
    assert [(one["amount"], one["status"], one["attempts"]) for one in (first, second)] == [
        ("5.00", "processed", 1),
        ("2.00", "processed", 1),
    ]
    (change,) = document["changes"]
    assert (change["action"], change["refund_id"], change["reason"]) == (
        "orders.refund",
        second["id"],
        "Returned goods.",
    )


@pytest.mark.on_postgres
async def test_resolved_refund_names_the_operator(database: Database) -> None:
    """Beside the refund, in the steps, and among the changes of its order, but of no other order."""
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        person, browser = await operator(service, "operator"), await console(service, "viewer")
        order_id, other_id = await paid(service), await paid(service)
        assert (await refund(service, order_id, "5.00")).status == 201
        await run(database, "UPDATE refunds SET status = 'processing', next_ms = 1, ended_ms = NULL")
        clock.advance(THREE_MINUTES_MS)
        (one,) = (await person.did("GET", "refunds"))["data"]
        body = {"outcome": "processed", "reason": "In the portal."}
        await person.did("POST", f"refunds/{one['id']}/resolve", body)
        document = await person.did("GET", f"orders/{order_id}")
        other = await person.did("GET", f"orders/{other_id}")
        page = await browser.open(f"/console/orders/{order_id}")
    (change,) = document["changes"]
    assert (change["subject"], change["action"], change["outcome"], change["reason"]) == (
        one["id"],
        "refunds.resolve",
        "processed",
        "In the portal.",
    )
    assert other["changes"] == []
    assert f"set by {change['operator']}: In the portal." in page.text
    assert f"Outcome set: processed by {change['operator']}: In the portal." in page.text


async def test_release_of_the_terminal_is_a_change_of_its_order(database: Database) -> None:
    """Only of the order that was released, not of later ones on the terminal."""
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        person = await operator(service, "operator")
        device, order_id = await at_terminal(service)
        await person.did("POST", f"terminals/{device.terminal.id}/release", {"reason": "It is broken."})
        clock.advance(1)
        later = (await service.create(device.terminal)).body["id"]
        document = await person.did("GET", f"orders/{order_id}")
        other = await person.did("GET", f"orders/{later}")
    assert [(one["action"], one["reason"]) for one in document["changes"]] == [("terminals.release", "It is broken.")]
    assert other["changes"] == []


async def test_authorization_by_the_service_is_shown(database: Database) -> None:
    """Of a terminal of kind `service`: when the acquirer was asked, and with which card."""
    acquirer = watched(database, SystemClock())
    async with running(database, acquirers=Acquirers(test=acquirer), workers=False) as service:
        device = await service_device(service)
        lease_id = await take_order(device)
        assert (await authorize(device, lease_id)).status == 200
        document = await (await operator(service)).did("GET", f"orders/ORD{lease_id}")
    assert document["authorization"]["date"] == document["times"]["permitted_date"]
    card = document["transactions"]["payments"][0]["card"]
    assert document["authorization"]["card"]["last_digits"] == card["last_digits"]
