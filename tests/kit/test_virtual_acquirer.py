"""`/virtual/v1/acquirer`: the endpoints of the simulated acquirer for virtual terminals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from accounts import other_seller
from acquirer_scene import new_payment
from paydesk.engine.invariants import check
from paydesk.engine.payments.simulator.cards import CARDS
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from service import Reply, Service, Terminal, order_body, running

PATH = "/virtual/v1/acquirer/payments"
REVERSALS = "/virtual/v1/acquirer/reversals"


@pytest.fixture
async def service(database: Database) -> AsyncIterator[Service]:
    """A running service for development."""
    async with running(database, development=True, workers=False) as service:
        yield service


@pytest.fixture
async def terminal(service: Service) -> Terminal:
    """A terminal for test orders."""
    return await service.terminal()


@pytest.fixture
async def payment_id(service: Service, terminal: Terminal) -> str:
    """The payment of an order at the terminal."""
    order = (await service.create(terminal)).body
    found: str = order["transactions"]["payments"][0]["id"]
    return found


def _body(payment_id: str, card: str = "visa_approved", **changes: Any) -> dict[str, Any]:
    test_card = CARDS[card]
    return {
        "payment_id": payment_id,
        "amount": "24.90",
        "payment_method": {"id": test_card.brand, "type": test_card.type, "installments": 2},
        "card": {"first_digits": test_card.first_digits, "last_digits": test_card.last_digits, "entry_mode": "chip"},
        **changes,
    }


async def _authorize(service: Service, terminal: Terminal, body: dict[str, Any]) -> Reply:
    return await service.request("POST", PATH, body, token=terminal.token, key=None)


async def _reverse(service: Service, terminal: Terminal, payment_id: str) -> Reply:
    return await service.request("POST", REVERSALS, {"payment_id": payment_id}, token=terminal.token, key=None)


async def _ledger(service: Service) -> list[tuple[Any, ...]]:
    sql = "SELECT payment_id, terminal_id, live, amount_minor, currency, outcome, installments FROM simulator_payments"
    return [tuple(row) for row in await service.database.read(lambda tx: tx.all(sql))]


async def test_charges_once_per_payment_id(service: Service, terminal: Terminal, payment_id: str) -> None:
    """Repeated requests, concurrent or not, get the same answer."""
    body = _body(payment_id)
    replies = await asyncio.gather(*(_authorize(service, terminal, body) for _ in range(20)))
    first = replies[0]
    assert first.status == 200
    assert first.body["outcome"] == "approved"
    assert first.body["amount"] == "24.90"
    assert {reply.raw for reply in replies} == {first.raw}
    assert (await _authorize(service, terminal, body)).raw == first.raw
    assert await _ledger(service) == [(body["payment_id"], terminal.id, 0, 2490, "BRL", "approved", 2)]


@pytest.mark.parametrize(
    ("card", "answer"),
    [
        ("insufficient_amount", {"outcome": "declined", "status_detail": "insufficient_amount"}),
        ("wrong_pin", {"outcome": "declined", "status_detail": "max_attempts_exceeded"}),
        ("no_answer", {"outcome": "unknown"}),
        ("late", {"outcome": "unknown"}),
    ],
)
async def test_card_decides_the_outcome(
    service: Service, terminal: Terminal, payment_id: str, card: str, answer: dict[str, str]
) -> None:
    """Each test card has its rules."""
    assert (await _authorize(service, terminal, _body(payment_id, card))).body == answer


async def test_amount_decides_the_outcome(service: Service, terminal: Terminal, payment_id: str) -> None:
    """A request that was not sent is not in the ledger."""
    assert (await _authorize(service, terminal, _body(payment_id, amount="99900.05"))).body[
        "status_detail"
    ] == "card_disabled"
    assert (await _authorize(service, terminal, _body(payment_id, amount="99900.22"))).body == {"outcome": "not_sent"}
    assert [row[5] for row in await _ledger(service)] == ["declined"]


@pytest.mark.parametrize(("amount", "outcome"), [("24.90", "approved"), ("99900.52", "unknown")])
async def test_provisional_approval_is_confirmed_at_once(database: Database, amount: str, outcome: str) -> None:
    """And after a repeat, if the first attempts were not answered: the terminal hears of a final approval alone."""
    settings = Settings(simulator_confirmations=True)
    async with running(database, development=True, workers=False, settings=settings) as service:
        terminal = await service.terminal()
        order = (await service.create(terminal, amount=amount)).body
        body = _body(order["transactions"]["payments"][0]["id"], amount=amount)
        assert (await _authorize(service, terminal, body)).body["outcome"] == outcome
        for _ in range(3):
            approved = await _authorize(service, terminal, body)
        assert approved.body["outcome"] == "approved"
        confirmed = "SELECT outcome, COUNT(*) FROM simulator_confirmation_movements GROUP BY outcome"
        rows = await service.database.read(lambda tx: tx.all(confirmed))
        assert [tuple(row) for row in rows] == [("approved", 1)]


@pytest.mark.on_postgres
async def test_reversal_undoes_the_payment_once(service: Service, terminal: Terminal, payment_id: str) -> None:
    """Repeated reversals get the same answer; the payment is declined from then on, and `doctor` finds nothing."""
    assert (await _authorize(service, terminal, _body(payment_id))).body["outcome"] == "approved"
    replies = await asyncio.gather(*(_reverse(service, terminal, payment_id) for _ in range(5)))
    assert (replies[0].status, replies[0].body["outcome"], replies[0].body["amount"]) == (200, "approved", "24.90")
    assert {reply.raw for reply in replies} == {replies[0].raw}
    declined = {"outcome": "declined", "status_detail": "processing_error"}
    assert (await _authorize(service, terminal, _body(payment_id))).body == declined
    device = await service.device(terminal)
    assert (await device.ack(payment_id[3:])).status == 200
    assert (await device.authorizing(payment_id[3:])).body["go"] is True
    assert (await device.result(payment_id[3:], **declined)).status == 200
    assert await check.check(service.database) == []


async def test_reversal_before_the_payment_blocks_it(service: Service, terminal: Terminal, payment_id: str) -> None:
    """Of an order of the terminal's own seller alone."""
    foreign = await (await other_seller(service)).terminal()
    assert (await _reverse(service, foreign, payment_id)).code == "order_not_found"
    assert (await _reverse(service, terminal, "PAY1")).code == "property_value"
    assert (await _reverse(service, terminal, payment_id)).body["outcome"] == "approved"
    assert (await _authorize(service, terminal, _body(payment_id))).body["outcome"] == "declined"
    assert [row[5] for row in await _ledger(service)] == ["declined"]


async def test_nothing_is_reversed_for_another_terminal_or_an_ended_order(
    service: Service, terminal: Terminal, payment_id: str
) -> None:
    """Nor while the service inquires for the outcome: the answer is `unknown` then."""
    other, order_id = await service.terminal(), f"ORD{payment_id[3:]}"
    assert (await _authorize(service, terminal, _body(payment_id))).body["outcome"] == "approved"
    assert (await _reverse(service, other, payment_id)).code == "order_not_found"
    for state in ("action_required", "processed"):
        moved = await service.request("POST", f"/v1/orders/{order_id}/events", {"status": state}, key=None)
        assert moved.status == 204, moved.body
        assert (await _reverse(service, terminal, payment_id)).body == {"outcome": "unknown"}, state
    rows = await service.database.read(lambda tx: tx.all("SELECT reversed_ms FROM simulator_payments"))
    assert [tuple(row) for row in rows] == [(None,)]


INVALID: tuple[tuple[dict[str, Any], str], ...] = (
    ({"amount": "0.00"}, "property_value"),
    ({"amount": "1.234"}, "property_value"),
    ({"payment_id": "ORD01J67CQQH5904WDBVZEM4JMEP3"}, "property_value"),
    ({"card": {"first_digits": "4235", "last_digits": "5682"}}, "property_value"),
    ({"number": "4235647728025682"}, "unsupported_properties"),
)


async def test_invalid_request_charges_nothing(service: Service, terminal: Terminal, payment_id: str) -> None:
    """It is refused with 400."""
    for change, code in INVALID:
        reply = await _authorize(service, terminal, {**_body(payment_id), **change})
        assert (reply.status, reply.code) == (400, code), change
        assert await _ledger(service) == [], change


@pytest.mark.on_postgres
async def test_payment_that_no_order_has_is_refused(service: Service, terminal: Terminal, payment_id: str) -> None:
    """An unknown one, another seller's and one of the other mode; the ledger has no trace of it, nor has `doctor`."""
    other = await other_seller(service)
    foreign = await other.terminal()
    live_order = order_body((await service.terminal(live=True)).id)
    live = await service.request("POST", "/v1/orders", live_order, token=service.live_access_token)
    unknown = (new_payment().payment_id, f"PAY{live.body['id'][3:]}")
    for sent, by in ((unknown[0], terminal), (unknown[1], terminal), (payment_id, foreign)):
        reply = await _authorize(service, by, _body(sent))
        assert (reply.status, reply.code) == (404, "order_not_found"), sent
    assert await _ledger(service) == []
    assert await check.check(service.database) == []


async def test_requires_a_valid_device_token(service: Service, terminal: Terminal) -> None:
    """A live terminal is refused where live orders have no simulated acquirer."""
    unknown = Terminal(terminal.id, f"PDT-{'0' * 40}-{service.seller_id}")
    assert (await _authorize(service, unknown, _body(new_payment().payment_id))).status == 401
    assert (
        await _authorize(service, Terminal("", service.access_token), _body(new_payment().payment_id))
    ).status == 401
    live = await service.terminal(live=True)
    assert (await _authorize(service, live, _body(new_payment().payment_id))).status == 403
    await service.scene.run("UPDATE device_tokens SET revoked_ms = 1 WHERE seller_id = $1", service.seller_id)
    service.database.signals.notify([f"device:{terminal.id}"])
    assert (await _authorize(service, terminal, _body(new_payment().payment_id))).status == 401
    assert await _ledger(service) == []


async def test_endpoint_exists_only_in_development(database: Database) -> None:
    """In production it is 404."""
    async with running(database, workers=False) as service:
        assert (await _authorize(service, await service.terminal(), _body(new_payment().payment_id))).status == 404
