"""`POST /device/v1/leases/{lease_id}/authorize`: every answer, and what it does to the order and at the acquirer."""

from __future__ import annotations

import asyncio
import base64
import uuid
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from authorize_scene import (
    BLOB,
    CHARGES_AGAIN,
    ENCRYPTED,
    WatchedAcquirer,
    at_terminal,
    authorize,
    is_consistent,
    ledger,
    process_jobs,
    rows,
    service_device,
    service_terminal,
    watched,
)
from moved_time import advance
from paydesk.core.clock import MovableClock
from paydesk.core.keys import Keys
from paydesk.engine.device.authorization import calls as authorizations
from paydesk.engine.payments.acquirer import Approved, NotSent, Outcome, Unknown
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.terminals import store as terminals
from paydesk.platform.storage.database import Database, Unavailable
from service import Device, Reply, Service, approved, order_body, running

CANCELABLE = {"X-Allow-Cancelable-Status": "at_terminal"}
PERMITTED = "SELECT permitted_ms IS NOT NULL FROM orders WHERE seller_id = $1 AND order_id = $2"
SHUT = NotSent("the line is down")


@dataclass
class Shop:
    """A service with an acquirer and a terminal of kind `service`."""

    service: Service
    acquirer: WatchedAcquirer
    device: Device
    clock: MovableClock

    async def order(self, lease_id: str) -> dict[str, Any]:
        """Return the order of the lease."""
        return await self.service.get(f"ORD{lease_id}")

    async def payment(self, lease_id: str) -> dict[str, Any]:
        """Return the payment of the lease's order."""
        payment: dict[str, Any] = (await self.order(lease_id))["transactions"]["payments"][0]
        return payment

    async def is_permitted(self, lease_id: str) -> bool:
        """Return whether the authorization is permitted."""
        ((permitted,),) = await rows(self.service, PERMITTED, self.service.seller_id, f"ORD{lease_id}")
        return bool(permitted)


class Unreached(deque[Outcome]):
    """The answers of an acquirer that cannot be reached; the pause after each lasts `pause_seconds`."""

    def __init__(self, pause_seconds: float, times: int = 100) -> None:
        super().__init__([SHUT] * times)
        self.pause_seconds = pause_seconds

    def popleft(self) -> Outcome:
        """Return that the request was not sent; time moves once the pause has begun."""
        asyncio.get_running_loop().call_later(0.01, advance, self.pause_seconds)
        return super().popleft()


async def unanswered(shop: Shop, lease_id: str, reached: asyncio.Event) -> Reply:
    """Return the answer to an authorization that the acquirer does not answer in time, once it has come to it."""
    reached.clear()
    request = asyncio.create_task(authorize(shop.device, lease_id))
    await reached.wait()
    advance(authorizations.ANSWER_SECONDS_MAX)
    return await request


@pytest.fixture
async def shop(database: Database) -> AsyncIterator[Shop]:
    """A shop without workers, whose clock stands still."""
    clock = MovableClock()
    clock.freeze()
    acquirer = watched(database, clock)
    async with running(database, clock=clock, workers=False, acquirers=Acquirers(test=acquirer)) as service:
        yield Shop(service, acquirer, await service_device(service), clock)


def outcome_of(reply: Reply) -> tuple[str, str, str]:
    """Return the outcome, its detail and the status of the order."""
    assert reply.status == 200, reply
    return reply.body["outcome"], reply.body["status_detail"], reply.body["order"]["status"]


async def test_an_approval_processes_the_order(shop: Shop) -> None:
    """The answer has the acquirer's numbers, the order the terminal's card, the acquirer the encrypted data."""
    lease_id = await at_terminal(shop.device)
    reply = await authorize(shop.device, lease_id)
    assert outcome_of(reply) == ("approved", "accredited", "processed")
    assert list(reply.body) == ["outcome", "status_detail", "order", "authorization_code", "reference_id"]
    payment = await shop.payment(lease_id)
    assert {payment[name] for name in ("authorization_code", "reference_id")} == {
        reply.body["authorization_code"],
        reply.body["reference_id"],
    }
    assert payment["paid_amount"] == "24.90"
    assert payment["card"] == {"first_digits": "423564", "last_digits": "5682", "entry_mode": "chip"}
    assert payment["payment_method"] == {"id": "visa", "type": "credit_card", "installments": 1}
    assert "tip_amount" not in payment
    assert shop.acquirer.blobs == [BLOB]
    assert await ledger(shop.service) == [(f"PAY{lease_id}", 2490, "approved", False)]
    assert await rows(shop.service, "SELECT ended_by FROM leases") == [("authorization",)]
    await is_consistent(shop.service)


async def test_a_decline_fails_the_order(shop: Shop) -> None:
    """With the acquirer's detail."""
    lease_id = await at_terminal(shop.device)
    reply = await authorize(shop.device, lease_id, "insufficient_amount")
    assert outcome_of(reply) == ("declined", "insufficient_amount", "failed")
    assert (await shop.payment(lease_id))["origin"] == "acquirer"
    await is_consistent(shop.service)


async def test_an_unanswered_authorization_is_inquired(shop: Shop) -> None:
    """The outcome is unknown, and the inquiry finds the payment with the terminal's card; a repeat then answers it."""
    lease_id = await at_terminal(shop.device)
    shop.acquirer.can = CHARGES_AGAIN
    shop.acquirer.answers.append(Unknown("no answer within 25 s"))
    assert outcome_of(await authorize(shop.device, lease_id)) == ("unknown", "check_on_terminal", "at_terminal")
    assert outcome_of(await authorize(shop.device, lease_id)) == ("unknown", "check_on_terminal", "at_terminal")
    assert len(shop.acquirer.charges) == 1
    await shop.acquirer.simulator.approve(shop.acquirer.charges[0], None)
    await process_jobs(shop.service, shop.acquirer)
    assert outcome_of(await authorize(shop.device, lease_id)) == ("approved", "accredited", "processed")
    payment = await shop.payment(lease_id)
    assert payment["card"] == {"first_digits": "423564", "last_digits": "5682", "entry_mode": "chip"}
    assert payment["payment_method"] == {"id": "visa", "type": "credit_card", "installments": 1}
    assert len(shop.acquirer.charges) == 1
    await is_consistent(shop.service)


async def test_silence_of_the_acquirer_ends_as_unknown(shop: Shop) -> None:
    """After the time that the acquirer has for its answer."""
    shop.acquirer.may_answer.clear()
    lease_id = await at_terminal(shop.device)
    assert outcome_of(await unanswered(shop, lease_id, shop.acquirer.charged))[:2] == ("unknown", "check_on_terminal")
    await process_jobs(shop.service, shop.acquirer)
    assert (await shop.order(lease_id))["status"] == "processed"
    await is_consistent(shop.service)


async def test_an_authorization_that_was_not_sent_is_tried_again(shop: Shop) -> None:
    """Under the same payment id, until the acquirer is reached."""
    shop.acquirer.answers = Unreached(1, times=2)
    lease_id = await at_terminal(shop.device)
    assert outcome_of(await authorize(shop.device, lease_id)) == ("approved", "accredited", "processed")
    assert [payment.payment_id for payment in shop.acquirer.charges] == [f"PAY{lease_id}"] * 3
    await is_consistent(shop.service)


async def test_an_authorization_that_was_never_sent_fails(shop: Shop) -> None:
    """Also on a node so busy that its last pause ends too late: nothing was charged, so no inquiry is needed."""
    shop.acquirer.answers = Unreached(20)
    lease_id = await at_terminal(shop.device)
    assert outcome_of(await authorize(shop.device, lease_id)) == ("declined", "processing_error", "failed")
    assert (await shop.payment(lease_id))["origin"] == "network"
    assert await rows(shop.service, "SELECT order_id FROM inquiries") == []
    await is_consistent(shop.service)


@pytest.mark.on_postgres
async def test_a_repeat_that_was_not_sent_is_inquired(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The earlier request, whose node ended, may have been sent."""
    lease_id = await at_terminal(shop.device)

    async def die(*_: object) -> None:
        raise Unavailable("the node dies")

    with monkeypatch.context() as killed:
        killed.setattr(authorizations.Authorization, "_ask", die)
        assert (await authorize(shop.device, lease_id)).status == 503
    shop.acquirer.answers = Unreached(20)
    assert outcome_of(await authorize(shop.device, lease_id))[:2] == ("unknown", "check_on_terminal")
    assert len(await rows(shop.service, "SELECT order_id FROM inquiries")) == 1


async def test_a_repeat_gets_the_outcome(shop: Shop) -> None:
    """The same content in the same or a later session, whatever the outcome was."""
    for card in ("visa_approved", "high_risk"):
        lease_id = await at_terminal(shop.device)
        first = await authorize(shop.device, lease_id, card)
        assert (await authorize(shop.device, lease_id, card)).raw == first.raw
        restarted = await shop.service.device(shop.device.terminal)
        assert (await authorize(restarted, lease_id, card)).raw == first.raw
        shop.device = restarted
    assert len(shop.acquirer.charges) == 2


@pytest.mark.on_postgres
async def test_a_repeat_after_the_permit_asks_no_acquirer(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It returns what is known: nothing yet."""
    shop.acquirer.may_charge.clear()
    lease_id = await at_terminal(shop.device)

    async def stay(_self: object, _change: object, order: Any, *_: object) -> Any:
        return order

    monkeypatch.setattr(authorizations.Authorization, "_apply", stay)
    for later_ms in (0, 59_000):
        shop.clock.advance(later_ms)
        reply = await unanswered(shop, lease_id, shop.acquirer.entered)
        assert outcome_of(reply) == ("unknown", "at_terminal", "at_terminal")
    assert len(shop.acquirer.charges) == 2
    shop.clock.advance(1_000)
    assert outcome_of(await authorize(shop.device, lease_id)) == ("unknown", "at_terminal", "at_terminal")
    assert len(shop.acquirer.charges) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"entry_mode": "contactless"},
        {"encrypted_data": "b3RoZXI="},
        {"card": {"first_digits": "423564", "last_digits": "5683"}},
        {"payment_method": {"id": "visa", "type": "credit_card", "installments": 2}},
    ],
)
async def test_other_content_for_the_lease_is_a_conflict(shop: Shop, other: dict[str, Any]) -> None:
    """It is not sent to the acquirer, also after the end."""
    lease_id = await at_terminal(shop.device)
    assert (await authorize(shop.device, lease_id)).status == 200
    reply = await authorize(shop.device, lease_id, **other)
    assert (reply.status, reply.code) == (409, "authorization_conflict")
    assert len(shop.acquirer.charges) == 1


async def test_a_new_server_key_does_not_make_a_conflict(database: Database) -> None:
    """The digest of a request is compared under the key that it was made with."""
    clock = MovableClock()
    acquirer = watched(database, clock)
    chosen = {"clock": clock, "workers": False, "acquirers": Acquirers(test=acquirer)}
    async with running(database, **chosen) as service:  # type: ignore[arg-type]  # the names are those of `running`
        device = await service_device(service)
        lease_id = await at_terminal(device)
        first = await authorize(device, lease_id)
    newer = Keys(2, {1: b"k" * 32, 2: b"n" * 32})
    async with running(database, keys=newer, **chosen) as again:  # type: ignore[arg-type]  # the same
        moved = replace(device, service=again)
        assert (await authorize(moved, lease_id)).raw == first.raw


async def test_the_terminal_cannot_approve_what_the_service_has_not_requested(shop: Shop) -> None:
    """Nothing was charged: the order is inquired, and fails."""
    lease_id = await at_terminal(shop.device)
    reply = await shop.device.result(lease_id, **approved())
    assert (reply.status, reply.code, reply.body["recorded"]) == (409, "result_conflict", True)
    shop.clock.advance(120_000)
    await process_jobs(shop.service, shop.acquirer)
    assert (await shop.payment(lease_id))["status_detail"] == "processing_error"
    await is_consistent(shop.service)


async def test_only_terminals_of_kind_service(shop: Shop) -> None:
    """The permit is not taken."""
    device = await service_device(shop.service, kind="terminal")
    lease_id = await at_terminal(device)
    reply = await authorize(device, lease_id)
    assert (reply.status, reply.code) == (409, "not_a_service_terminal")
    assert not await shop.is_permitted(lease_id)


async def test_without_an_acquirer_nothing_is_permitted(shop: Shop) -> None:
    """A live order: it can still be canceled."""
    service = shop.service
    terminal = await service_terminal(service, live=True)
    device, token = await service.device(terminal), service.live_access_token
    created = await service.request("POST", "/v1/orders", order_body(terminal.id), token=token)
    lease_id = created.body["id"][3:]
    assert (await device.ack(lease_id)).status == 200
    reply = await authorize(device, lease_id)
    assert (reply.status, reply.code) == (409, "acquirer_not_configured")
    assert not await shop.is_permitted(lease_id)
    canceled = await service.cancel(created.body["id"], token=token, headers=CANCELABLE)
    assert canceled.status == 202


async def test_is_refused_as_the_permit_is(shop: Shop) -> None:
    """Stale session, unknown lease, not acknowledged, cancel requested, expired, revoked."""
    service, device = shop.service, shop.device
    lease_id = (await service.create(device.terminal)).body["id"][3:]
    assert (await authorize(device, lease_id)).code == "lease_not_found"
    assert (await authorize(device, "01J67CQQH5904WDBVZEM4JMEP3")).code == "lease_not_found"
    assert (await device.ack(lease_id)).status == 200
    stale = replace(device, boot_id=str(uuid.uuid4()))
    assert (await authorize(stale, lease_id)).code == "stale_session"
    assert (await service.cancel(f"ORD{lease_id}", headers=CANCELABLE)).status == 202
    assert (await authorize(device, lease_id)).code == "order_canceled"
    shop.clock.advance(900_000)
    reply = await authorize(device, lease_id)
    assert (reply.status, reply.code) == (409, "order_canceled")
    assert (await shop.order(lease_id))["status_detail"] == "expired"
    now_ms = shop.clock.now_ms()
    await service.database.write(lambda tx: terminals.revoke_tokens(tx, service.seller_id, device.terminal.id, now_ms))
    assert (await authorize(device, lease_id)).status == 401
    assert shop.acquirer.charges == []


INVALID: tuple[tuple[dict[str, Any], str, str], ...] = (
    ({"encrypted_data": base64.b64encode(b"x" * 16_385).decode()}, "property_value", "encrypted_data"),
    ({"encrypted_data": "not base64!"}, "property_value", "encrypted_data"),
    ({"encrypted_data": ""}, "property_value", "encrypted_data"),
    ({"encrypted_data": None}, "required_properties", "encrypted_data"),
    ({"card": {"first_digits": "4235641234", "last_digits": "5682"}}, "property_value", "first_digits"),
    ({"card": {"number": "4235647728025682"}}, "unsupported_properties", "number"),
    ({"tip_amount": "1.005"}, "property_value", "tip_amount"),
    ({"tip_amount": "0.01"}, "property_value", "tip_amount"),
    ({"track2": "x"}, "unsupported_properties", "track2"),
)


async def test_an_invalid_request_changes_nothing(shop: Shop) -> None:
    """It names the field; the permit is not taken."""
    lease_id = await at_terminal(shop.device)
    for wrong, code, named in INVALID:
        reply = await authorize(shop.device, lease_id, **wrong)
        assert (reply.status, reply.code, named in reply.details[0]) == (400, code, True), str(wrong)[:60]
        assert not await shop.is_permitted(lease_id), str(wrong)[:60]
        assert shop.acquirer.charges == [], str(wrong)[:60]


async def test_the_largest_encrypted_data_is_accepted(shop: Shop) -> None:
    """16 KiB."""
    data = base64.b64encode(b"x" * 16_384).decode()
    lease_id = await at_terminal(shop.device)
    assert outcome_of(await authorize(shop.device, lease_id, encrypted_data=data))[0] == "approved"
    assert shop.acquirer.blobs == [b"x" * 16_384]


async def test_encrypted_data_is_stored_nowhere(shop: Shop) -> None:
    """Neither it nor a digest that could be found by trial is in any table."""
    lease_id = await at_terminal(shop.device)
    assert (await authorize(shop.device, lease_id)).status == 200
    sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    if shop.service.database.name == "postgres":
        sql = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    for (table,) in await rows(shop.service, sql):
        stored = repr(await rows(shop.service, f"SELECT * FROM {table}"))
        assert ENCRYPTED not in stored, table
        assert repr(BLOB)[2:-1] not in stored, table


async def test_a_result_that_confirms_the_outcome_is_accepted(shop: Shop) -> None:
    """An approval with its receipt, or a decline; a repeat and a second one too."""
    lease_id = await at_terminal(shop.device)
    answer = (await authorize(shop.device, lease_id)).body
    card = {"first_digits": "423564", "last_digits": "5682", "entry_mode": "chip"}
    content = {**approved(), "card": card, "reference_id": answer["reference_id"]}
    result_id = str(uuid.uuid4())
    for _ in range(2):
        reply = await shop.device.result(lease_id, result_id, **content)
        assert (reply.status, reply.body["order"]["status"]) == (200, "processed")
    assert (await shop.device.result(lease_id, **content)).status == 200
    lease_id = await at_terminal(shop.device)
    await authorize(shop.device, lease_id, "high_risk")
    declined = {"outcome": "declined", "status_detail": "high_risk"}
    result_id = str(uuid.uuid4())
    assert (await shop.device.result(lease_id, result_id, **declined)).status == 200
    other = await shop.device.result(lease_id, result_id, outcome="declined", status_detail="card_disabled")
    assert (other.status, other.code) == (409, "result_conflict")
    await is_consistent(shop.service)


@pytest.mark.on_postgres
async def test_a_result_that_contradicts_the_outcome_is_recorded(shop: Shop) -> None:
    """A decline of a paid order, and an approval with another reference, which is not reversed without evidence."""
    lease_id = await at_terminal(shop.device)
    await authorize(shop.device, lease_id)
    declined = {"outcome": "declined", "status_detail": "high_risk"}
    reply = await shop.device.result(lease_id, **declined)
    assert (reply.status, reply.code, reply.body["recorded"]) == (409, "order_finished", True)
    reply = await shop.device.approve(lease_id)
    assert (reply.status, reply.code, reply.body["recorded"]) == (409, "order_finished", True)
    await process_jobs(shop.service, shop.acquirer)
    assert (await shop.order(lease_id))["status"] == "processed"


async def test_only_the_acquirer_approves_what_the_service_requested(shop: Shop) -> None:
    """A terminal's own approval of such an order is recorded, and the acquirer is inquired."""
    lease_id = await at_terminal(shop.device)
    shop.acquirer.can = CHARGES_AGAIN
    shop.acquirer.answers.append(Unknown("no answer"))
    await authorize(shop.device, lease_id)
    reply = await shop.device.approve(lease_id)
    assert (reply.status, reply.code) == (409, "result_conflict")
    assert (await shop.order(lease_id))["status_detail"] == "check_on_terminal"


async def test_an_approval_of_another_amount_is_reversed(shop: Shop) -> None:
    """The order fails by the inquiry, with an alert."""
    shop.acquirer.answers.append(Approved("90210000000017", 2491, "831000"))
    lease_id = await at_terminal(shop.device)
    assert outcome_of(await authorize(shop.device, lease_id))[:2] == ("unknown", "check_on_terminal")
    assert len(await rows(shop.service, "SELECT order_id FROM inquiries")) == 1


async def test_an_approved_amount_that_cannot_be_inquired_is_reversed(shop: Shop) -> None:
    """The acquirer's answer to the authorization is all that says what it has charged."""
    shop.acquirer.can = replace(shop.acquirer.can, can_inquire=False)
    shop.acquirer.answers.append(Approved("90210000000017", 2491, "831000"))
    lease_id = await at_terminal(shop.device)
    await authorize(shop.device, lease_id)
    await process_jobs(shop.service, shop.acquirer)
    assert shop.acquirer.reversed_minor == [2491]
    assert (await shop.order(lease_id))["status"] == "failed"
