"""POST /v1/orders with what clients for online payments send: `payer.email` and `payment_method` of the payment."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from accounts import other_seller
from kept_logging import kept_logging
from oauth_scene import DAY_MS
from operator_calls import operator
from paydesk.core.clock import MovableClock
from paydesk.platform import logs
from paydesk.platform.storage.database import Database
from retention_scene import sweep
from sensitive_data import stored
from service import Reply, Service, Terminal, order_body, running
from tables import each
from webhooks_scene import receiver, subscribe, until

EMAIL = "ana.buyer@shop.example"
MOVES = ("created", "at_terminal", "processed", "refunded")
KEYS_KEEP_DAYS = 30


async def create(service: Service, terminal: Terminal, method: Any = None, config: Any = None, **fields: Any) -> Reply:
    """Create an order with this `payment_method` of the payment and this one of `config`."""
    body = order_body(terminal.id, **fields)
    if method is not None:
        body["transactions"]["payments"][0]["payment_method"] = method
    if config is not None:
        body["config"]["payment_method"] = config
    return await service.request("POST", "/v1/orders", body)


async def test_the_email_is_returned_with_the_order(service: Service) -> None:
    """By create, get, search, cancel and simulate, between `config` and `transactions`."""
    terminal = await service.terminal()
    created = await create(service, terminal, payer={"email": EMAIL})
    assert (created.status, created.body["payer"]) == (201, {"email": EMAIL})
    names = list(created.body)
    assert names[names.index("payer") - 1 : names.index("payer") + 2] == ["config", "payer", "transactions"]
    order_id = created.body["id"]
    assert (await service.get(order_id))["payer"] == {"email": EMAIL}
    found = (await service.request("GET", "/v1/orders?external_reference=ext_ref_1234")).body["data"]
    assert [order["payer"] for order in found if order["id"] == order_id] == [{"email": EMAIL}]
    assert (await service.cancel(order_id)).body["payer"] == {"email": EMAIL}


@pytest.mark.parametrize("payer", [{}, {"payer": {}}])
async def test_an_order_without_an_email_has_no_payer(service: Service, payer: dict[str, Any]) -> None:
    """An empty `payer` is the same as none."""
    reply = await create(service, await service.terminal(), **payer)
    assert reply.status == 201
    assert "payer" not in reply.body


async def test_another_email_is_another_request(service: Service) -> None:
    """The same key with another e-mail address conflicts; with the same one it is a retry."""
    terminal = await service.terminal()
    first = await service.create(terminal, key="k", payer={"email": EMAIL})
    again = await service.create(terminal, key="k", payer={"email": EMAIL})
    assert (again.status, again.raw) == (201, first.raw)
    other = await service.create(terminal, key="k", payer={"email": f"other.{EMAIL}"})
    assert (other.status, other.code) == (409, "idempotency_key_already_used")


async def test_another_seller_does_not_see_the_email(service: Service) -> None:
    """As nothing of the order."""
    order_id = (await create(service, await service.terminal(), payer={"email": EMAIL})).body["id"]
    other = await other_seller(service)
    reply = await other.request("GET", f"/v1/orders/{order_id}")
    assert (reply.status, EMAIL in reply.raw.decode()) == (404, False)


@pytest.mark.on_postgres
async def test_the_email_is_in_no_notification_event_log_or_message_to_the_terminal(database: Database) -> None:
    """It is stored in the order and in the response under the idempotency key, and nowhere else."""
    stream = io.StringIO()
    with kept_logging():
        logs.configure("json", stream)
        async with receiver() as inbox, running(database) as service:
            await subscribe(database, inbox.url, application_id=service.scene.application.application_id)
            terminal = await service.terminal()
            device = await service.device(terminal)
            order_id = (await create(service, terminal, payer={"email": EMAIL})).body["id"]
            offered = await device.next()
            await device.ack(order_id[3:])
            await device.authorizing(order_id[3:])
            assert (await device.approve(order_id[3:])).status == 200
            refund = await service.request("POST", f"/v1/orders/{order_id}/refund", {})
            assert refund.status == 201
            malformed = await create(service, terminal, payer={"email": f"{EMAIL}@"})
            assert malformed.status == 400
            await until(lambda: len(inbox.got) >= len(MOVES))
            events = await service.request("GET", "/v1/events")
        for text in (offered.raw, events.raw, malformed.raw, refund.raw, *(got.body for got in inbox.got)):
            assert text
            assert EMAIL.encode() not in text
    assert stream.getvalue()
    assert EMAIL not in stream.getvalue()
    found = {table for table, text in (await stored(database)).items() if EMAIL in text}
    assert found == {"orders", "idempotency_keys"}


async def test_the_email_is_deleted_after_120_days(database: Database) -> None:
    """Of orders of any status; the order stays, and so does all else in it."""
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        old = (await create(service, await service.terminal(), payer={"email": EMAIL})).body
        clock.advance(2 * DAY_MS)
        new = (await create(service, await service.terminal(), payer={"email": EMAIL})).body
        clock.advance(117 * DAY_MS)
        await sweep(database, clock)
        assert (await service.get(old["id"]))["payer"] == {"email": EMAIL}
        clock.advance(2 * DAY_MS)
        await sweep(database, clock, step_rows_max=1)
        assert await service.get(old["id"]) == {name: value for name, value in old.items() if name != "payer"}
        assert (await service.get(new["id"]))["payer"] == {"email": EMAIL}
    tables = await stored(database)
    assert tables["orders"].count(EMAIL) == 1
    assert EMAIL not in tables["idempotency_keys"], f"its keys are kept {KEYS_KEEP_DAYS} days"


@each(
    "method, config, effective",
    [
        ({"type": "debit_card"}, None, {"default_type": "debit_card"}),
        ({"type": "qr", "id": "pix"}, None, {"default_type": "qr"}),
        (
            {"type": "credit_card", "installments": 3, "id": "visa"},
            None,
            {"default_type": "credit_card", "default_installments": 3},
        ),
        # The config takes precedence, field by field.
        ({"type": "credit_card", "installments": 3}, {"default_type": "debit_card"}, {"default_type": "debit_card"}),
        (
            {"type": "debit_card", "installments": 1},
            {"default_type": "credit_card", "default_installments": 6},
            {"default_type": "credit_card", "default_installments": 6},
        ),
        (
            {"type": "credit_card", "installments": 3},
            {"default_type": "credit_card"},
            {"default_type": "credit_card", "default_installments": 3},
        ),
        (
            {"installments": 3},
            {"default_type": "credit_card"},
            {"default_type": "credit_card", "default_installments": 3},
        ),
        (
            {"type": "credit_card"},
            {"installments_cost": "buyer"},
            {"default_type": "credit_card", "installments_cost": "buyer"},
        ),
        # Installments have a meaning for credit cards alone.
        ({"type": "debit_card", "installments": 1}, None, {"default_type": "debit_card"}),
        ({"installments": 3}, None, None),
        ({"id": "visa"}, None, None),
        ({}, None, None),
        ({}, {}, {}),
    ],
)
async def test_the_payment_method_of_the_payment_stands_for_that_of_config(
    service: Service, method: Any, config: Any, effective: Any
) -> None:
    """Where that says nothing. The terminal gets it; the payment in the answer has no payment method yet."""
    terminal = await service.terminal()
    reply = await create(service, terminal, method, config)
    assert (reply.status, reply.body["config"].get("payment_method")) == (201, effective)
    assert "payment_method" not in reply.body["transactions"]["payments"][0]
    device = await service.device(terminal)
    offered = (await device.next()).body
    assert offered["order"].get("payment_method", {}) == (effective or {})


async def test_the_body_of_an_official_example_is_accepted(service: Service) -> None:
    """The one for terminals that the client on Java has, with a terminal and an address put in.

    Its empty `screen_time` is the same as none.
    """
    terminal = await service.terminal()
    body = {
        "type": "point",
        "processing_mode": "automatic",
        "total_amount": "100.00",
        "external_reference": "ext_ref_point_1234",
        "description": "Example Point - Payment",
        "config": {"point": {"terminal_id": terminal.id, "print_on_terminal": "seller_ticket", "screen_time": ""}},
        "payer": {"email": EMAIL},
        "transactions": {
            "payments": [
                {"amount": "100.00", "payment_method": {"id": "debit_card", "type": "debit_card", "installments": 1}}
            ]
        },
    }
    reply = await service.request("POST", "/v1/orders", body)
    assert reply.status == 201, reply
    assert reply.body["config"]["payment_method"] == {"default_type": "debit_card"}
    assert "screen_time" not in reply.body["config"]["point"]
    device = await service.device(terminal)
    assert "screen_time" not in (await device.next()).body["order"]


async def test_installments_as_digits_are_returned_as_sent_and_reach_the_terminal_as_a_number(
    service: Service,
) -> None:
    """Both forms are in use, in `config` and in the payment; a simulated payment has the number too."""
    in_config = {"default_type": "credit_card", "default_installments": "6"}
    in_payment = {"type": "credit_card", "installments": "6"}
    for method, config in ((None, in_config), (in_payment, None)):
        terminal = await service.terminal()
        created = await create(service, terminal, method, config)
        assert (created.status, created.body["config"]["payment_method"]) == (201, in_config)
        device = await service.device(terminal)
        offered = (await device.next()).body["order"]
        assert offered["payment_method"] == {"default_type": "credit_card", "default_installments": 6}
        path = f"/v1/orders/{created.body['id']}"
        assert (await service.request("POST", f"{path}/events", {"status": "processed"})).status == 204
        paid = await service.get(created.body["id"])
        assert paid["transactions"]["payments"][0]["payment_method"]["installments"] == 6
        assert paid["config"]["payment_method"] == in_config


@pytest.mark.on_postgres
async def test_taxes_are_returned_with_the_order(service: Service) -> None:
    """By create, get, search and cancel, after `config`; other taxes are another request."""
    terminal = await service.terminal()
    exempt, taxable = ([{"payer_condition": f"payment_{name}_iva"}] for name in ("exempt", "taxable"))
    created = await service.create(terminal, key="k", taxes=exempt)
    assert (created.status, created.body["taxes"]) == (201, exempt)
    names = list(created.body)
    assert names[names.index("config") :] == ["config", "taxes", "transactions"]
    assert (await service.create(terminal, key="k", taxes=taxable)).code == "idempotency_key_already_used"
    order_id = created.body["id"]
    found = (await service.request("GET", "/v1/orders?external_reference=ext_ref_1234")).body["data"]
    shown = [await service.get(order_id), *found, (await service.cancel(order_id)).body]
    assert [order["taxes"] for order in shown] == [exempt] * 3


async def test_an_order_for_another_channel_is_refused_with_the_value_to_send(service: Service) -> None:
    """Every fault of the body is listed, and the first says that orders here are for terminals."""
    terminal = await service.terminal()
    for kind in ("qr", "online"):
        reply = await create(service, terminal, type=kind, items=[])
        assert reply.status == 400
        assert reply.details[0] == "'$.type' - must be 'point': orders here are for terminals"
        assert [error["code"] for error in reply.body["errors"]] == ["property_value", "unsupported_properties"]


async def test_operators_see_the_email_with_the_order(service: Service) -> None:
    """As in every answer with the order."""
    order_id = (await create(service, await service.terminal(), payer={"email": EMAIL})).body["id"]
    order = await (await operator(service)).did("GET", f"orders/{order_id}")
    assert EMAIL in json.dumps(order)
