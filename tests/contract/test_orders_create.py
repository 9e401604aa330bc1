"""POST /v1/orders: the response, the validation of fields, and which terminals accept orders."""

from __future__ import annotations

import re
from typing import Any

import pytest

import counted
from accounts import other_application, other_seller
from paydesk.core.clock import MovableClock
from paydesk.engine.orders import store
from paydesk.platform.storage.database import Database
from paydesk.platform.storage.postgres import database as postgres
from paydesk.platform.storage.postgres import sets as postgres_sets
from service import Service, order_body, running
from tables import each

FULL: dict[str, Any] = {
    "type": "point",
    "external_reference": "ext_ref_1234",
    "description": "Smartphone",
    "expiration_time": "PT16M",
    "total_amount": "24.9",
    "currency": "BRL",
    "processing_mode": "automatic",
    "capture_mode": "automatic_async",
    "integration_data": {
        "platform_id": "dev_1",
        "integrator_id": "dev_2",
        "corporation_id": "corp_1",
        "sponsor": {"id": "446566691"},
    },
}
POINT = {"print_on_terminal": "no_ticket", "ticket_number": "S0392JED", "screen_time": "PT30S"}
PAYMENT_METHOD = {"default_type": "credit_card", "default_installments": 6, "installments_cost": "seller"}
BROKEN_RULES: tuple[tuple[dict[str, Any], str, str], ...] = (
    ({"type": "online"}, "property_value", "$.type"),
    ({"type": None}, "property_type", "$.type"),
    ({"surprise": 1}, "unsupported_properties", "$.surprise"),
    ({"external_reference": "a" * 65}, "property_value", "$.external_reference"),
    ({"description": "x" * 151}, "property_value", "$.description"),
    ({"description": "pay 4509 9535 6623 3704"}, "property_value", "$.description"),
    ({"expiration_time": "PT29S"}, "property_value", "$.expiration_time"),
    ({"total_amount": "24.91"}, "property_value", "$.total_amount"),
    ({"currency": "ARS"}, "property_value", "$.currency"),
    ({"transactions": {"payments": []}}, "minimum_items", "$.transactions.payments"),
    ({"transactions": {"payments": [{"amount": "1"}] * 2}}, "maximum_items", "$.transactions.payments"),
    ({"transactions": {}}, "minimum_properties", "$.transactions"),
    ({"transactions": {"payments": [{"amount": 24.9}]}}, "property_type", "$.transactions.payments[0].amount"),
    ({"transactions": {"payments": [{"amount": "0.00"}]}}, "property_value", "$.transactions.payments[0].amount"),
    ({"config": {"point": {"print_on_terminal": "no_ticket"}}}, "required_properties", "$.config.point.terminal_id"),
)
ULID = "[0-7][0-9A-HJKMNP-TV-Z]{25}"


async def test_create_returns_the_whole_order(service: Service) -> None:
    """Every sent field is returned, in the documented order."""
    terminal = await service.terminal()
    point = {"terminal_id": terminal.id, **POINT}
    sent = order_body(terminal.id, **FULL, config={"point": point, "payment_method": PAYMENT_METHOD})
    reply = await service.request("POST", "/v1/orders", sent)
    assert reply.status == 201, reply
    order = reply.body
    payment = order["transactions"]["payments"][0]
    assert list(order.items()) == [
        ("id", order["id"]),
        ("type", "point"),
        ("processing_mode", "automatic"),
        ("user_id", str(service.seller_id)),
        ("external_reference", "ext_ref_1234"),
        ("description", "Smartphone"),
        ("expiration_time", "PT16M"),
        ("total_amount", "24.90"),
        ("country_code", "BRA"),
        ("currency", "BRL"),
        ("status", "created"),
        ("status_detail", "created"),
        ("live_mode", False),
        ("version", 1),
        ("created_date", order["created_date"]),
        ("last_updated_date", order["created_date"]),
        ("integration_data", {"application_id": _application(service), **FULL["integration_data"]}),
        ("config", {"point": point, "payment_method": PAYMENT_METHOD}),
        (
            "transactions",
            {"payments": [{"id": payment["id"], "amount": "24.90", "status": "created", "status_detail": "created"}]},
        ),
    ]
    assert list(payment) == ["id", "amount", "status", "status_detail"]
    assert list(order["config"]["point"]) == ["terminal_id", "print_on_terminal", "ticket_number", "screen_time"]


async def test_defaults_are_filled_in(service: Service) -> None:
    """A field without a default is omitted."""
    terminal = await service.terminal()
    sent = {
        "type": "point",
        "transactions": {"payments": [{"amount": "10"}]},
        "config": {"point": {"terminal_id": terminal.id}},
    }
    order = (await service.request("POST", "/v1/orders", sent)).body
    assert order["expiration_time"] == "PT15M"
    assert order["config"] == {"point": {"terminal_id": terminal.id, "print_on_terminal": "seller_ticket"}}
    assert order["integration_data"] == {"application_id": _application(service)}
    assert not {"external_reference", "description"} & set(order)


async def test_ids_and_times(service: Service) -> None:
    """The payment has the order's ULID, and times are UTC with milliseconds."""
    order = (await service.create(await service.terminal())).body
    assert order["transactions"]["payments"][0]["id"] == f"PAY{order['id'][3:]}"
    assert _matches(f"ORD{ULID}", order["id"])
    assert _matches(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", order["created_date"])


async def test_amounts_are_echoed_as_sent(service: Service) -> None:
    """No zero is added or removed."""
    for amount in ("10", "10.0", "24.90", "0.01", "007.5", "999999999999.99"):
        order = (await service.create(await service.terminal(), amount=amount)).body
        assert (order["total_amount"], order["transactions"]["payments"][0]["amount"]) == (amount, amount)


async def test_a_live_token_creates_a_live_order(service: Service) -> None:
    """On a live terminal."""
    terminal = await service.terminal(live=True)
    reply = await service.request("POST", "/v1/orders", order_body(terminal.id), token=service.live_access_token)
    assert (reply.status, reply.body["live_mode"]) == (201, True)


async def test_an_invalid_field_is_named(service: Service) -> None:
    """With its JSON path, and no order is created."""
    terminal = await service.terminal()
    for change, code, path in BROKEN_RULES:
        reply = await service.create(terminal, **change)
        assert (reply.status, reply.code) == (400, code), change
        assert reply.details[0].startswith((f"'{path}' - must ", f"'{path}' - is ")), reply.details
    assert (await service.create(terminal)).status == 201


async def test_all_faults_are_listed(service: Service) -> None:
    """In document order; the first one is also the flat error, and each is a sentence in `cause`."""
    change: dict[str, Any] = {"external_reference": "!", "transactions": {"payments": [{"amount": "0", "tip": "1"}]}}
    reply = await service.create(await service.terminal(), **change)
    assert [error["code"] for error in reply.body["errors"]] == [
        "property_value",
        "property_value",
        "unsupported_properties",
    ]
    assert [detail.partition("'")[2].partition("'")[0] for detail in reply.details] == [
        "$.external_reference",
        "$.transactions.payments[0].amount",
        "$.transactions.payments[0].tip",
    ]
    first = reply.body["errors"][0]
    assert reply.body["error"] == first["code"]
    assert reply.body["status"] == 400
    assert [(cause["code"], cause["description"]) for cause in reply.body["cause"]] == [
        (
            "property_value",
            "A property has a value that is not allowed: '$.external_reference' must have 1 to 64 letters, digits, _"
            " and -.",
        ),
        (
            "property_value",
            "A property has a value that is not allowed: '$.transactions.payments[0].amount' must be above zero.",
        ),
        ("unsupported_properties", "A property is unknown: '$.transactions.payments[0].tip'."),
    ]
    assert reply.body["message"] == reply.body["cause"][0]["description"]


async def test_another_sellers_terminal_returns_403(service: Service) -> None:
    """The same response as for an unknown terminal, whatever the modes of terminal and token; it says what to send."""
    outsider = await other_seller(service)
    foreign = [
        "NEWLAND_N950__NOWHERE",
        "PAYDESK_VIRTUAL__NOWHERE",
        (await outsider.terminal()).id,
        (await outsider.terminal(live=True)).id,
        (await outsider.terminal(terminal_id=_virtual_id())).id,
    ]
    replies = [
        await service.request("POST", "/v1/orders", order_body(terminal_id), token=token)
        for terminal_id in foreign
        for token in (service.access_token, service.live_access_token)
    ]
    assert {(reply.status, reply.code) for reply in replies} == {(403, "forbidden_checking_terminal_owner")}
    assert len({reply.raw for reply in replies}) == 1
    assert (
        replies[0]
        .body["message"]
        .endswith(
            ": '$.config.point.terminal_id' must be an id from GET /terminals/v1/list with the same access token."
        )
    )


@pytest.mark.on_postgres
async def test_a_terminal_of_the_other_mode_is_explained_to_its_own_seller(service: Service) -> None:
    """403 that says which kind of token the terminal takes, and where to get one."""
    virtual = await service.terminal(terminal_id=_virtual_id())
    for terminal, token, expected in (
        (virtual, service.live_access_token, ("is a virtual terminal", "test_token: true", "`test_tokens`")),
        (await service.terminal(), service.live_access_token, ("is a test terminal", "test_token: true")),
        (await service.terminal(live=True), service.access_token, ("is a live terminal", "live token (APP_USR-…)")),
    ):
        reply = await service.request("POST", "/v1/orders", order_body(terminal.id), token=token)
        assert (reply.status, reply.code) == (403, "forbidden_checking_terminal_owner")
        for text in ("The terminal belongs to the other mode", "'$.config.point.terminal_id'", *expected):
            assert text in reply.body["message"], reply.body
    assert (await service.create(virtual)).status == 201


def _virtual_id() -> str:
    return counted.virtual_id()


@each("mode", ["STANDALONE", "UNDEFINED"])
async def test_a_terminal_in_another_mode_returns_409(service: Service, mode: Any) -> None:
    """STANDALONE, or no mode set."""
    reply = await service.create(await service.terminal(mode=mode))
    assert (reply.status, reply.code) == (409, "terminal_not_in_pdv_mode")
    assert f"Its operating_mode is {mode}; PATCH /terminals/v1/setup changes it." in reply.body["message"]


async def test_a_self_service_terminal_accepts_orders(service: Service) -> None:
    """As in mode PDV."""
    assert (await service.create(await service.terminal(mode="SELF_SERVICE"))).status == 201


@pytest.mark.on_postgres
async def test_the_conflicting_order_is_named_to_its_own_application(service: Service) -> None:
    """A second order on a terminal is rejected; another application does not learn the first one's id."""
    terminal = await service.terminal()
    first = (await service.create(terminal)).body["id"]
    own = await service.create(terminal)
    other = await (await other_application(service)).create(terminal)
    assert (own.status, own.code) == (other.status, other.code) == (409, "already_queued_order_on_terminal")
    assert f": {first} is created on this terminal; " in own.body["message"]
    assert f"POST /v1/orders/{first}/cancel." in own.body["message"]
    assert other.body["message"].endswith(": retry with the same X-Idempotency-Key when it has ended.")
    assert first.encode() not in other.raw


async def test_each_terminal_has_its_own_live_order(service: Service) -> None:
    """Two terminals accept an order each."""
    for _ in range(3):
        assert (await service.create(await service.terminal())).status == 201


async def test_an_overdue_order_does_not_conflict(database: Database, clock: MovableClock) -> None:
    """Create expires it first, with or without a worker."""
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        terminal = await service.terminal()
        overdue = (await service.create(terminal, expiration_time="PT30S")).body["id"]
        clock.advance(29_999)
        assert (await service.create(terminal)).status == 409
        clock.advance(1)
        assert (await service.create(terminal)).status == 201
        order = await service.get(overdue)
        assert (order["status"], order["status_detail"], order["version"]) == ("canceled", "expired", 2)


async def test_an_order_canceled_during_create_does_not_conflict(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancel between the failed insert and the read of the conflicting order, on concurrent nodes."""
    # One work a transaction: in a batch the statement is another.
    database = postgres.PostgresDatabase(postgres_url, write_units_max=1)
    async with running(database) as service:
        terminal = await service.terminal()
        standing = [(await service.create(terminal)).body["id"]]
        perform = postgres_sets.execute_one

        async def cancel_before_the_look(connection: Any, kind: str, sql: str, args: Any) -> Any:
            if sql == store.LIVE_ON_TERMINAL and standing:
                assert (await service.cancel(standing.pop())).status == 200
            return await perform(connection, kind, sql, args)

        monkeypatch.setattr("paydesk.platform.storage.postgres.transaction.execute_one", cancel_before_the_look)
        assert (await service.create(terminal)).status == 201
        assert not standing
    await database.close()


def _application(service: Service) -> str:
    return str(service.scene.application.application_id)


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text) is not None
