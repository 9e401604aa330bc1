"""POST /v1/orders/{order_id}/events: brings a test order to a status without its terminal."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from paydesk.core.clock import MovableClock
from paydesk.engine.orders.status import FAILED_DETAILS
from paydesk.engine.payments.acquirer import Approved, Card, Declined, Payment
from paydesk.engine.payments.simulator.acquirer import Simulator
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from refund_scene import ledgers_agree
from service import Device, Reply, Service, order_body, running

CREATED = ("created", "created", "created")
AT_TERMINAL = ("at_terminal", "at_terminal", "at_terminal")
ASKED = ("at_terminal", "at_terminal", "cancellation_requested")
CHECK = ("at_terminal", "check_on_terminal", "check_on_terminal")
PROCESSED = ("processed", "processed", "accredited")
REFUNDED = ("refunded", "refunded", "refunded")
ON_TERMINAL = ("canceled", "canceled", "canceled_on_terminal")
BY_API = ("canceled", "canceled", "canceled_by_api")
EXPIRED = ("canceled", "expired", "expired")
FAILED = ("failed", "failed", "rejected_other_reason")

ENDS: dict[str, tuple[str, str, str]] = {
    "processed": PROCESSED,
    "failed": FAILED,
    "canceled": ON_TERMINAL,
    "expired": EXPIRED,
    "action_required": CHECK,
}


async def simulate(service: Service, order_id: str, status: str, **fields: Any) -> Reply:
    """Bring the order to a status."""
    body = {"status": status, **fields}
    return await service.request("POST", f"/v1/orders/{order_id}/events", body, key=None)


async def state_of(service: Service, order_id: str) -> tuple[str, str, str]:
    """Return status, detail and the payment's detail."""
    order = await service.get(order_id)
    return order["status"], order["status_detail"], order["transactions"]["payments"][0]["status_detail"]


async def moves(service: Service, order_id: str) -> list[str]:
    """Return the names of the order's moves."""
    sql = "SELECT move FROM order_events WHERE seller_id = $1 AND order_id = $2 ORDER BY version"
    return [row[0] for row in await service.database.read(lambda tx: tx.all(sql, service.seller_id, order_id))]


async def created(service: Service) -> str:
    """Create an order on a new terminal."""
    return str((await service.create(await service.terminal())).body["id"])


async def at_terminal(service: Service) -> tuple[str, Device]:
    """Create an order that its terminal has acknowledged."""
    terminal = await service.terminal()
    device = await service.device(terminal)
    order_id = (await service.create(terminal)).body["id"]
    assert (await device.next()).body["type"] == "order"
    assert (await device.ack(order_id[3:])).status == 200
    return order_id, device


WAYS = {
    "processed": ["create", "acknowledge", "approve"],
    "failed": ["create", "acknowledge", "decline"],
    "canceled": ["create", "acknowledge", "cancel_on_terminal"],
    "expired": ["create", "acknowledge", "expire"],
    "action_required": ["create", "acknowledge", "check"],
}


async def test_every_status_from_created(service: Service) -> None:
    """204 without a body, through the terminal's states; each move is a version with its event."""
    for status, end in ENDS.items():
        order_id = await created(service)
        reply = await simulate(service, order_id, status)
        assert (reply.status, reply.raw) == (204, b""), reply
        assert await state_of(service, order_id) == end
        assert await moves(service, order_id) == WAYS[status]
        assert (await service.get(order_id))["version"] == 3
    await ledgers_agree(service.database)


async def test_every_status_from_the_terminal(service: Service) -> None:
    """The terminal is sent `cancel` once; its later requests are refused."""
    for status, end in ENDS.items():
        order_id, device = await at_terminal(service)
        assert (await simulate(service, order_id, status)).status == 204
        assert await state_of(service, order_id) == end
        assert await moves(service, order_id) == WAYS[status]
        message = await device.next()
        assert (message.status, message.body) == (200, {"type": "cancel", "lease_id": order_id[3:]}), status
        assert (await device.next(0)).status == 204
        assert (await device.authorizing(order_id[3:])).status == 409
        assert (await device.ack(order_id[3:])).status == 409
        answered = await device.post(f"/leases/{order_id[3:]}/cancel-result", {"boot_id": device.boot_id, "done": True})
        assert answered.status == 200
        ended_by = "SELECT ended_by FROM leases WHERE seller_id = $1 AND lease_id = $2"
        assert await service.scene.value(ended_by, service.seller_id, order_id[3:]) == "detached"


async def test_a_detached_terminal_gets_no_authorization_permit(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From before the acquirer is asked."""
    order_id, device = await at_terminal(service)
    approve, replies = Simulator.approve, list[Reply]()

    async def meanwhile(simulator: Simulator, payment: Payment, card: Card | None) -> Approved | Declined:
        replies.append(await device.authorizing(order_id[3:]))
        return await approve(simulator, payment, card)

    monkeypatch.setattr(Simulator, "approve", meanwhile)
    assert (await simulate(service, order_id, "processed")).status == 204
    assert [(reply.status, reply.code) for reply in replies] == [(409, "order_canceled")]


async def test_results_of_a_detached_terminal_are_recorded(service: Service) -> None:
    """The order does not change; an approval is recorded and reversed."""
    for status in ("action_required", "processed", "canceled"):
        order_id, device = await at_terminal(service)
        assert (await simulate(service, order_id, status)).status == 204
        before = await service.get(order_id)
        for content in ({"outcome": "declined", "status_detail": "high_risk"}, {"outcome": "unknown"}):
            reply = await device.result(order_id[3:], **content)
            assert (reply.status, reply.body["recorded"]) == (409, True)
        reply = await device.approve(order_id[3:])
        assert (reply.status, reply.body["recorded"]) == (409, True)
        assert await service.get(order_id) == before
        reversals = "SELECT COUNT(*) FROM reversals WHERE seller_id = $1 AND order_id = $2"
        assert await service.scene.value(reversals, service.seller_id, order_id) == 1


async def test_a_restarted_terminal_drops_a_detached_order(service: Service) -> None:
    """Also while its outcome is unknown."""
    order_id, device = await at_terminal(service)
    assert (await simulate(service, order_id, "action_required")).status == 204
    entry = {"lease_id": order_id[3:], "last_step": "card_presented"}
    again = Device(service, device.terminal, "7f7b3b0e-7a0c-4d8e-9a53-1d2f0c9b8a77")
    reply = await again.post("/hello", {"boot_id": again.boot_id, "app_version": "1", "journal": [entry]})
    assert reply.body["leases"] == [{"lease_id": order_id[3:], "verdict": "forget"}]
    assert await state_of(service, order_id) == CHECK


async def test_simulation_after_authorization_is_permitted_returns_400(database: Database) -> None:
    """The order is unchanged; once its outcome is unknown, it can be processed or failed."""
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, settings=Settings(unknown_after_seconds=40)) as service:
        for status, end in (("processed", PROCESSED), ("failed", FAILED)):
            order_id, device = await at_terminal(service)
            assert (await device.authorizing(order_id[3:])).status == 200
            for every in ENDS:
                refused = await simulate(service, order_id, every)
                assert (refused.status, refused.code) == (400, "bad_request")
                assert refused.details == ["the order is at_terminal (at_terminal), authorization permitted"]
            assert await state_of(service, order_id) == AT_TERMINAL
            assert (await device.result(order_id[3:], outcome="unknown")).status == 200
            for every in ("canceled", "expired", "action_required", "refunded"):
                refused = await simulate(service, order_id, every)
                assert (refused.status, refused.code) == (400, "bad_request"), every
            assert (await simulate(service, order_id, status)).status == 204
            assert await state_of(service, order_id) == end
            open_inquiries = "SELECT COUNT(*) FROM inquiries WHERE ended_ms IS NULL"
            assert await service.scene.value(open_inquiries) == 0
        await ledgers_agree(database)


async def test_the_simulated_acquirer_has_the_payment(service: Service) -> None:
    """An approval has the payment's id; a payment to fail is reversed and blocked."""
    paid = await created(service)
    await simulate(service, paid, "processed")
    doubtful, device = await at_terminal(service)
    await device.authorizing(doubtful[3:])
    await device.result(doubtful[3:], outcome="unknown")
    await simulate(service, doubtful, "failed")
    sql = "SELECT payment_id, outcome, reference_id, reversed_ms FROM simulator_payments ORDER BY created_ms"
    rows = {row[0]: row[1:] for row in await service.database.read(lambda tx: tx.all(sql))}
    reference = (await service.get(paid))["transactions"]["payments"][0]["reference_id"]
    assert rows[f"PAY{paid[3:]}"] == ("approved", reference, None)
    assert rows[f"PAY{doubtful[3:]}"][2] is not None


async def test_no_inquiry_after_action_required(service: Service) -> None:
    """The order waits for a further request."""
    for status, end in (("processed", PROCESSED), ("failed", FAILED)):
        order_id = await created(service)
        await simulate(service, order_id, "action_required")
        assert await service.scene.value("SELECT COUNT(*) FROM inquiries WHERE ended_ms IS NULL") == 0
        assert (await simulate(service, order_id, status)).status == 204
        assert await state_of(service, order_id) == end
        assert await moves(service, order_id) == [*WAYS["action_required"], WAYS[status][2]]
    await ledgers_agree(service.database)


async def test_refunded_requires_a_processed_order(service: Service) -> None:
    """All that remains is refunded, in one move."""
    order_id = await created(service)
    refused = await simulate(service, order_id, "refunded")
    assert (refused.status, refused.code) == (400, "bad_request")
    await simulate(service, order_id, "processed")
    part = {"transactions": [{"id": f"PAY{order_id[3:]}", "amount": "4.90"}]}
    assert (await service.request("POST", f"/v1/orders/{order_id}/refund", part)).status == 201
    assert (await simulate(service, order_id, "refunded")).status == 204
    assert await state_of(service, order_id) == REFUNDED
    order = await service.get(order_id)
    assert [one["amount"] for one in order["transactions"]["refunds"]] == ["4.90", "20.00"]
    assert order["transactions"]["payments"][0]["refunded_amount"] == "24.90"
    assert (await moves(service, order_id))[3:] == ["refund_part", "refund_whole"]
    await ledgers_agree(service.database)


async def test_a_declined_refund_returns_400(service: Service) -> None:
    """By a test amount; the order is unchanged."""
    order_id = (await service.create(await service.terminal(), amount="99900.30")).body["id"]
    await simulate(service, order_id, "processed")
    before = await service.get(order_id)
    refused = await simulate(service, order_id, "refunded")
    assert (refused.status, refused.code) == (400, "bad_request")
    assert await service.get(order_id) == before
    await ledgers_agree(service.database)


async def test_statuses_from_cancellation_requested(service: Service) -> None:
    """Canceled, expired, failed or unknown, but not processed."""
    ends = {**{status: end for status, end in ENDS.items() if status != "processed"}, "canceled": BY_API}
    for status, end in ends.items():
        order_id, _ = await at_terminal(service)
        await service.cancel(order_id, headers={"X-Allow-Cancelable-Status": "at_terminal"})
        assert await state_of(service, order_id) == ASKED
        refused = await simulate(service, order_id, "processed")
        assert (refused.status, refused.code) == (400, "bad_request")
        assert (await simulate(service, order_id, status)).status == 204
        assert await state_of(service, order_id) == end


async def test_an_ended_order_returns_400(service: Service) -> None:
    """failed, canceled, expired, refunded; the details name the order's status."""
    for end in ("failed", "canceled", "expired", "refunded"):
        order_id = await created(service)
        if end == "refunded":
            await simulate(service, order_id, "processed")
        await simulate(service, order_id, end)
        before = await service.get(order_id)
        for status in (*ENDS, "refunded"):
            refused = await simulate(service, order_id, status)
            assert (refused.status, refused.code) == (400, "bad_request"), (end, status)
            assert refused.body["errors"][0]["message"] == f"The order cannot be moved to {status}."
            assert refused.details[0].startswith(f"the order is {before['status']} (")
        assert await service.get(order_id) == before


async def test_failed_with_each_detail(service: Service) -> None:
    """As in a real failure, with its origin."""
    for detail in FAILED_DETAILS:
        order_id = await created(service)
        assert (await simulate(service, order_id, "failed", status_detail=detail)).status == 204
        assert await state_of(service, order_id) == ("failed", "failed", detail)
        payment = (await service.get(order_id))["transactions"]["payments"][0]
        assert payment["origin"] in ("customer", "terminal", "acquirer")


async def test_canceled_by_api(service: Service) -> None:
    """As a cancel request at the terminal, with each move notified."""
    order_id = await created(service)
    assert (await simulate(service, order_id, "canceled", status_detail="canceled_by_api")).status == 204
    assert await state_of(service, order_id) == BY_API
    assert await moves(service, order_id) == ["create", "acknowledge", "request_cancel", "confirm_cancel"]


async def test_payment_method(service: Service) -> None:
    """As requested, else as in the order; a card has digits, a QR code has none."""
    configured = {"default_type": "credit_card", "default_installments": 3}
    for asked, preference, method, first_digits in (
        ({}, None, ("visa", "credit_card", 1), "423564"),
        ({}, configured, ("visa", "credit_card", 3), "423564"),
        ({"payment_method_id": "master", "installments": 6}, configured, ("master", "credit_card", 6), "503143"),
        ({"payment_method_type": "debit_card"}, configured, ("debvisa", "debit_card", 1), "400276"),
        ({"payment_method_type": "qr"}, None, ("account_money", "qr", 1), None),
        ({"payment_method_type": "credit_card", "payment_method_id": "elo"}, None, ("elo", "credit_card", 1), "423564"),
    ):
        terminal = await service.terminal()
        body = order_body(terminal.id)
        if preference is not None:
            body["config"]["payment_method"] = preference
        order_id = (await service.request("POST", "/v1/orders", body)).body["id"]
        assert (await simulate(service, order_id, "processed", status_detail="accredited", **asked)).status == 204
        payment = (await service.get(order_id))["transactions"]["payments"][0]
        assert tuple(payment["payment_method"].values()) == method
        assert payment.get("card", {}).get("first_digits") == first_digits
        assert (payment["paid_amount"], "origin" in payment) == ("24.90", False)


FAULTS: list[tuple[dict[str, Any], str, str]] = [
    ({}, "minimum_properties", ""),
    ({"status_detail": "accredited"}, "required_properties", "'$.status' "),
    ({"status": "created"}, "property_value", "'$.status' "),
    ({"status": 1}, "property_type", "'$.status' "),
    ({"status": "failed", "status_detail": "accredited"}, "property_value", "'$.status_detail' - must be one of"),
    ({"status": "expired", "installments": 1}, "property_value", "'$.installments' - is only for the statuses"),
    ({"status": "canceled", "payment_method_id": "visa"}, "property_value", "'$.payment_method_id' - is only for"),
    ({"status": "refunded", "payment_method_type": "qr"}, "property_value", "'$.payment_method_type' - is only"),
    ({"status": "processed", "installments": 49}, "property_value", "'$.installments' "),
    (
        {"status": "processed", "payment_method_type": "debit_card", "installments": 2},
        "property_value",
        "'$.installments' - is only for the payment_method_type credit_card",
    ),
    ({"status": "processed", "payment_method_id": "VISA 1"}, "property_value", "'$.payment_method_id' "),
    ({"status": "processed", "payment_method_id": None}, "property_type", "'$.payment_method_id' "),
    ({"status": "processed", "amount": "1"}, "unsupported_properties", "'$.amount' "),
]


async def test_an_invalid_body_returns_400(service: Service) -> None:
    """With the field and its rule; the order is unchanged."""
    order_id = await created(service)
    for body, code, detail in FAULTS:
        reply = await service.request("POST", f"/v1/orders/{order_id}/events", body, key=None)
        assert (reply.status, reply.code) == (400, code), body
        assert reply.details[0].startswith(detail), body
    assert await state_of(service, order_id) == CREATED


async def test_a_live_order_returns_403(service: Service) -> None:
    """404 with a test token, and for an unknown order."""
    terminal = await service.terminal(live=True)
    order = await service.request("POST", "/v1/orders", order_body(terminal.id), token=service.live_access_token)
    path = f"/v1/orders/{order.body['id']}/events"
    own = await service.request("POST", path, {"status": "processed"}, token=service.live_access_token, key=None)
    assert (own.status, own.code) == (403, "forbidden")
    assert (await simulate(service, order.body["id"], "processed")).code == "order_not_found"
    assert (await simulate(service, "ORD01J67CQQH5904WDBVZEM4JMEP3", "processed")).code == "order_not_found"


async def test_an_overdue_order_is_expired(database: Database) -> None:
    """It cannot be brought to another status, even without a worker."""
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        order_id = await created(service)
        clock.advance(16 * 60 * 1000)
        assert (await simulate(service, order_id, "processed")).status == 400
        assert await state_of(service, order_id) == EXPIRED


async def test_concurrent_simulations_reach_one_end(service: Service) -> None:
    """By a path of the table of moves, and the simulator's ledger agrees."""
    for _ in range(3):
        order_id, device = await at_terminal(service)
        asked = [simulate(service, order_id, status) for status in ("processed", "failed", "canceled", "expired") * 3]
        replies = await asyncio.gather(*asked, device.authorizing(order_id[3:]), service.cancel(order_id))
        assert {reply.status for reply in replies} <= {200, 204, 400, 409}
        if (await service.get(order_id))["status"] == "at_terminal":
            assert replies[-2].status == 200, "only the permit keeps all the others away"
            assert (await device.approve(order_id[3:])).status == 200
        assert len(await moves(service, order_id)) == (await service.get(order_id))["version"] == 3
    await ledgers_agree(service.database)
