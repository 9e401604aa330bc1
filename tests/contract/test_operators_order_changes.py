"""An operator cancels and refunds orders: by the rules of applications, with a reason, and in the audit trail."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from accounts import other_seller
from operator_calls import Audited, Operator, audited, operator
from paydesk.engine.invariants import check
from paydesk.engine.payments.acquirer import Unknown
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from refund_scene import DECLINED, Refunder, expire_leases, ledgers_agree, only, paid, part_of, refund, work
from service import Reply, Service, running

REASON = "The customer has left."
AT_TERMINAL = {"X-Allow-Cancelable-Status": "at_terminal"}
REPLAYED = "x-idempotent-replayed"


async def request(
    person: Operator,
    order_id: str,
    verb: str,
    body: Any = None,
    *,
    key: str = "",
    headers: dict[str, str] | None = None,
    reason: str = REASON,
) -> Reply:
    """Request a cancel or refund as the operator."""
    return await person.service.request(
        "POST",
        f"/operator/v1/orders/{order_id}/{verb}",
        {"reason": reason, **(body or {})},
        token=person.token,
        key=key or str(uuid.uuid4()),
        headers=headers,
    )


async def created(service: Service) -> str:
    """Return the id of a new order."""
    return str((await service.create(await service.terminal())).body["id"])


async def at_terminal(service: Service) -> str:
    """Return the id of an order that its terminal has."""
    terminal = await service.terminal()
    device = await service.device(terminal)
    order_id: str = (await service.create(terminal)).body["id"]
    assert (await device.ack(order_id[3:])).status == 200
    return order_id


async def only_audited(service: Service) -> Audited:
    """Return the one entry of the audit trail."""
    (entry,) = await audited(service)
    return entry


async def test_created_order_is_canceled_with_the_reason_in_the_audit_trail(service: Service) -> None:
    """The answer is the order, as its application reads it."""
    person, order_id = await operator(service, "operator"), await created(service)
    answered = await request(person, order_id.lower(), "cancel")
    assert (answered.status, answered.body) == (200, await service.get(order_id))
    assert answered.body["transactions"]["payments"][0]["status_detail"] == "canceled_by_api"
    entry = await only_audited(service)
    assert (entry.operator_id, entry.action, entry.subject) == (person.operator_id, "orders.cancel", order_id)
    assert entry.before == {"status": "created", "payment_status_detail": "created", "version": 1}
    assert entry.after == {
        "status": "canceled",
        "payment_status_detail": "canceled_by_api",
        "version": 2,
        "reason": REASON,
    }


async def test_order_at_its_terminal_needs_the_extra_header(service: Service) -> None:
    """As for applications: 409 without it, 202 with it."""
    person, order_id = await operator(service), await at_terminal(service)
    refused = await request(person, order_id, "cancel")
    assert (refused.status, refused.code) == (409, "cannot_cancel_order")
    assert await audited(service) == []
    requested = await request(person, order_id, "cancel", headers=AT_TERMINAL)
    assert (requested.status, requested.body["status"]) == (202, "at_terminal")
    assert requested.body["transactions"]["payments"][0]["status_detail"] == "cancellation_requested"
    assert (await only_audited(service)).after["payment_status_detail"] == "cancellation_requested"


@pytest.mark.on_postgres
async def test_whole_refund_and_part(service: Service) -> None:
    """The audit trail has each refund's id, its amount and the reason; the order is refunded once all is."""
    person, order_id = await operator(service), await paid(service)
    part = await request(person, order_id, "refund", part_of(order_id, "4.90"))
    assert (part.status, part.body["status_detail"], only(part)["amount"]) == (201, "partially_refunded", "4.90")
    rest = await request(person, order_id, "refund")
    assert (rest.status, rest.body["status"], only(rest)["amount"]) == (201, "refunded", "20.00")
    entries = await audited(service)
    assert [(entry.action, entry.subject) for entry in entries] == [("orders.refund", order_id)] * 2
    assert [entry.after for entry in entries] == [
        {"refund_id": only(reply)["id"], "amount": only(reply)["amount"], "reason": REASON} for reply in (part, rest)
    ]
    await ledgers_agree(service.database)
    assert await check.check(service.database) == []


async def test_declined_refund_is_refused_under_its_key(service: Service) -> None:
    """The refusal is stored, as for applications; the audit trail has the attempt once."""
    person, order_id = await operator(service), await paid(service, DECLINED)
    replies = [await request(person, order_id, "refund", key="key") for _ in range(2)]
    assert [(reply.status, reply.code) for reply in replies] == [(409, "cannot_refund_order")] * 2
    assert replies[1].headers[REPLAYED] == "true"
    assert len(await audited(service)) == 1


async def test_repeated_request_returns_the_stored_response(service: Service) -> None:
    """With the same bytes, for any operator; it is in the audit trail once. Another reason is another request."""
    person, other = await operator(service), await operator(service, "operator")
    for verb, order_id in (("cancel", await created(service)), ("refund", await paid(service))):
        before = len(await audited(service))
        first = await request(person, order_id, verb, key="key")
        for again in (
            await request(person, order_id.lower(), verb, key="key"),
            await request(other, order_id, verb, key="key"),
        ):
            assert (again.status, again.raw, again.headers[REPLAYED]) == (first.status, first.raw, "true")
        assert len(await audited(service)) == before + 1
        different = await request(person, order_id, verb, key="key", reason="Another one.")
        assert (different.status, different.code) == (409, "idempotency_key_already_used")


async def test_concurrent_requests_with_one_key_have_one_effect(service: Service) -> None:
    """One refund, one entry, one answer."""
    person, order_id = await operator(service), await paid(service)
    body = part_of(order_id, "1.00")
    replies = await asyncio.gather(*[request(person, order_id, "refund", body, key="key") for _ in range(20)])
    assert {(reply.status, reply.raw) for reply in replies} == {(201, replies[0].raw)}
    assert sum(REPLAYED not in reply.headers for reply in replies) == 1
    assert (await service.get(order_id))["transactions"]["payments"][0]["refunded_amount"] == "1.00"
    assert len(await audited(service)) == 1


@pytest.mark.on_postgres
async def test_concurrent_refunds_never_exceed_the_payment(service: Service) -> None:
    """Of an operator and of the application, each with a key of its own."""
    person, order_id = await operator(service), await paid(service)
    replies = await asyncio.gather(
        *[request(person, order_id, "refund", part_of(order_id, "10.00")) for _ in range(4)],
        *[refund(service, order_id, "10.00") for _ in range(4)],
    )
    assert sum(reply.status == 201 for reply in replies) == 2
    assert {reply.code for reply in replies if reply.status != 201} <= {"refund_amount_exceeds", "refund_in_progress"}
    await ledgers_agree(service.database)


async def test_key_is_not_that_of_the_application(service: Service) -> None:
    """The same text is another key: the operator's refund is a second one."""
    person, order_id = await operator(service), await paid(service)
    mine = await refund(service, order_id, "1.00", key="key")
    theirs = await request(person, order_id, "refund", part_of(order_id, "1.00"), key="key")
    assert (mine.status, theirs.status, REPLAYED in theirs.headers) == (201, 201, False)
    assert (await service.get(order_id))["transactions"]["payments"][0]["refunded_amount"] == "2.00"


async def test_support_may_not_cancel_or_refund(service: Service) -> None:
    """403, also for an order that does not exist; nothing changes."""
    support, order_id, paid_id = await operator(service, "support"), await created(service), await paid(service)
    for verb, subject in (("cancel", order_id), ("refund", paid_id), ("cancel", "ORD01J67CQQH5904WDBVZEM4JMEP3")):
        refused = await request(support, subject, verb)
        assert (refused.status, refused.code) == (403, "forbidden")
    assert (await service.get(order_id))["version"] == 1
    assert (await service.get(paid_id))["version"] == 3
    assert await audited(service) == []


async def test_invalid_requests_are_refused(service: Service) -> None:
    """A missing or blank reason, an unknown field or order, a missing key, an amount of zero."""
    person, order_id = await operator(service), await paid(service)
    for body, code in (
        ({"reason": ""}, "property_value"),
        ({"reason": " "}, "property_value"),
        ({"reason": "card 4235647728025682"}, "property_value"),
        ({"reason": 5}, "property_type"),
        ({"surprise": 1}, "unsupported_properties"),
        (part_of(order_id, "0"), "property_value"),
        (part_of(order_id, "1.005"), "property_value"),
        (part_of(order_id, "1e3"), "property_value"),
        (part_of(order_id, "24.91"), "refund_amount_exceeds"),
    ):
        refused = await request(person, order_id, "refund", body)
        assert (refused.status, refused.code) == (400, code), body
    path = f"orders/{order_id}/refund"
    assert await person.refused("POST", path, {"reason": REASON}) == (400, "empty_required_header")
    reply = await service.request("POST", f"/operator/v1/{path}", {}, token=person.token)
    assert (reply.status, reply.code) == (400, "minimum_properties")
    unknown = await request(person, f"ORD{'0' * 26}", "cancel")
    assert (unknown.status, unknown.code) == (404, "order_not_found")
    assert await audited(service) == []


async def test_amount_with_more_decimals_than_the_currency_is_refused(service: Service) -> None:
    """Not taken for a refund of all that remains."""
    person = await operator(service)
    await service.scene.run(
        "UPDATE sellers SET currency = 'CLP', country = 'CHL' WHERE seller_id = $1", service.seller_id
    )
    order_id = await paid(service, "2490")
    refused = await request(person, order_id, "refund", part_of(order_id, "10.00"))
    assert (refused.status, refused.code) == (400, "property_value")
    assert refused.details == ["'$.transactions[0].amount' - must have at most 0 decimals, as CLP has"]
    assert (await service.get(order_id))["status_detail"] == "processed"
    assert only(await request(person, order_id, "refund", part_of(order_id, "10")))["amount"] == "10"


async def test_orders_of_every_seller_live_and_test(database: Database) -> None:
    """The key is kept with the order's seller and mode; each has its own."""
    async with running(database, settings=Settings(acquirer="simulator")) as service:
        person, other = await operator(service), await other_seller(service)
        orders = [await paid(service), await paid(service, live=True), await paid(other)]
        replies = [await request(person, order_id, "refund", key="key") for order_id in orders]
        assert [(reply.status, REPLAYED in reply.headers) for reply in replies] == [(201, False)] * 3
        rows = await database.read(
            lambda tx: tx.all(
                "SELECT seller_id, application_id, live, object_id FROM idempotency_keys"
                " WHERE operation = 'operator_refund_order' ORDER BY created_ms, object_id"
            )
        )
        sellers = (service.seller_id, service.seller_id, other.seller_id)
        expected = zip(sellers, (0, 0, 0), (0, 1, 0), orders, strict=True)
        assert sorted(map(tuple, rows)) == sorted(expected)


async def test_operators_refund_of_a_dead_node_is_continued(database: Database) -> None:
    """Once its lease has expired, a worker stores the response under the operator's key, and ends the refund."""
    refunder = Refunder(closed=True)
    async with running(database, workers=False, acquirers=refunder.acquirers) as service:
        person, order_id = await operator(service), await paid(service)
        lost = asyncio.create_task(request(person, order_id, "refund", key="key"))
        await refunder.was_asked.wait()
        await expire_leases(service)
        assert await work(service, refunder=Refunder(words=[Unknown("no answer")])) == 1
        repeat = await request(person, order_id, "refund", key="key")
        assert (repeat.status, only(repeat)["status"]) == (201, "processing")
        refunder.opens.set()
        assert (await lost).raw == repeat.raw
        assert (await service.get(order_id))["status"] == "refunded"
        assert len(await audited(service)) == 1
        assert await check.check(database) == []


@pytest.mark.parametrize("verb", ["cancel", "refund"])
async def test_application_token_is_refused(service: Service, verb: str) -> None:
    """The interface is for operators alone."""
    order_id = await created(service)
    reply = await service.request("POST", f"/operator/v1/orders/{order_id}/{verb}", {"reason": REASON})
    assert (reply.status, reply.code) == (401, "unauthorized")
