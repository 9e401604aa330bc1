"""Faults at the simulated acquirer: what its callers get, what its ledger has, and what is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import structlog
from test_faults_interface import add, call

import moved_time
from acquirer_scene import Bank, card, new_key, new_payment
from console_scene import console
from oauth_scene import START_MS
from operator_calls import operator
from paydesk.core import faults
from paydesk.core.clock import MovableClock
from paydesk.engine.invariants import check
from paydesk.engine.payments.acquirer import Approved, Declined, NotFound, NotSent, Result, Unknown
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.simulator.acquirer import WITH_CONFIRMATIONS
from paydesk.engine.payments.simulator.exchanges import DEADLINE_SECONDS
from paydesk.platform.process.node import StartRefused
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk_dev.faults.acquirer import KEYS_MAX, AcquirerFaults
from paydesk_dev.faults.active import Active, Faults
from shared_objects import composed
from skipped_waits import skipped_waits
from virtual_scene import create, playing
from waiting import until_found

pytestmark = pytest.mark.on_postgres

Call = Callable[[], Awaitable[Result]]


class Counter:
    """A simulated acquirer, and the faults of its process."""

    def __init__(self, database: Database) -> None:
        self.faults = Faults()
        self.faults.bind(database.signals)
        self.bank = Bank(database, capabilities=WITH_CONFIRMATIONS, source=AcquirerFaults(self.faults))
        self.simulator = self.bank.simulator

    def add(self, line: str) -> Active:
        """Add a fault of the edge `acquirer`."""
        return self.faults.add(faults.parse(f"acquirer {line}"), 0)

    async def call(self, request: str) -> Call:
        """Return a request, about a payment that is ready for it; each call repeats it under its key."""
        payment, simulator, key = new_payment(), self.simulator, new_key()
        if request == "payment":
            return lambda: simulator.authorize(payment, card())
        approved = await simulator.authorize(payment, card())
        assert isinstance(approved, Approved)
        reference_id = approved.reference_id
        if request == "confirm":
            return lambda: simulator.confirm(payment, key=key, reference_id=reference_id)
        if request == "refund":
            assert isinstance(await simulator.confirm(payment, key=key, reference_id=reference_id), Approved)
            return lambda: simulator.refund(payment, key=key, amount_minor=100)
        if request == "reversal":
            return lambda: simulator.reverse(payment, key=key, amount_minor=2490, reference_id=reference_id)
        return lambda: simulator.inquire(payment)


@pytest.fixture
def counter(database: Database) -> Counter:
    """An acquirer whose approvals have to be confirmed, without faults."""
    return Counter(database)


ANY = ("payment", "inquiry", "confirm", "refund", "reversal")


@pytest.mark.parametrize(
    ("kind", "requests", "first", "second", "answer"),
    [
        ("reset", ANY, Unknown, Approved, ""),
        ("not_sent", ANY, NotSent, Approved, ""),
        ("answer_lost", ANY, Unknown, Approved, "approved"),
        ("decline:high_risk", ("payment", "confirm", "refund"), Declined, Declined, "declined"),
        ("late:30s", ("payment", "confirm", "refund", "reversal"), Unknown, Unknown, "unknown"),
    ],
)
async def test_a_kind_disturbs_one_request(
    counter: Counter, kind: str, requests: tuple[str, ...], first: type, second: type, answer: str
) -> None:
    """What is repeated gets the result of the first one, if that took effect; the firing has the answer."""
    for request in requests:
        again = await counter.call(request)
        active = counter.add(f"{request} {kind}")
        assert isinstance(await again(), first), request
        assert isinstance(await again(), second), request
        (firing,) = active.firings
        assert (firing.operation, firing.request.facts["terminal"]) == (request, "PAYDESK_VIRTUAL__1")
        assert firing.order.startswith("ORD")
        assert (f'"outcome":"{answer}"' in str(firing.answer)) == (answer != ""), request
        assert (firing.answer is None) == (answer == ""), request
        if kind == "late:30s":
            counter.bank.clock.advance(30_000)
            assert isinstance(await again(), Approved), request


async def test_a_reset_payment_is_not_in_the_ledger(counter: Counter) -> None:
    """One whose answer is lost is, and a late one once its time has come."""
    payment = new_payment()
    found: list[Any] = []
    for line in ("payment reset", "payment not_sent", "payment late:30s"):
        counter.add(line)
        await counter.simulator.authorize(payment, card())
        found.append(type(await counter.simulator.inquire(payment)))
    counter.bank.clock.advance(30_000)
    assert [*found, type(await counter.simulator.inquire(payment))] == [NotFound, NotFound, NotFound, Approved]


async def test_a_late_refund_may_be_declined_too(counter: Counter) -> None:
    """Kinds of different groups combine; of one group the older fires, and the younger one stays for the next."""
    refund, other = await counter.call("refund"), await counter.call("refund")
    counter.add("refund late:30s")
    older, younger = (counter.add(f"refund decline:{detail}") for detail in ("high_risk", "card_disabled"))
    assert isinstance(await refund(), Unknown)
    counter.bank.clock.advance(30_000)
    assert (older.fired, younger.matched) == (1, 0)
    assert await other() == Declined("card_disabled")
    assert await refund() == Declined("high_risk")


async def test_a_held_answer_comes_with_its_release(counter: Counter) -> None:
    """The payment is in the ledger meanwhile, and other requests are answered."""
    payment, slow = new_payment(), counter.add("payment slow")
    asking = asyncio.ensure_future(counter.simulator.authorize(payment, card()))
    assert await counter.faults.until(lambda: slow.fired == 1, 30)
    assert slow.firings[0].is_held
    approved = await counter.simulator.inquire(payment)
    assert isinstance(approved, Approved)
    assert not asking.done()
    counter.faults.release(slow)
    assert await asking == approved


async def test_a_held_request_arrives_with_its_release(counter: Counter) -> None:
    """Also after the engine has given up; without a release after 60 s, and never once the process stops."""
    simulator = counter.simulator
    for end in ("release", "time", "close", "stop"):
        payment, late = new_payment(), counter.add("payment late")
        asking = asyncio.ensure_future(simulator.authorize(payment, card()))
        assert await counter.faults.until(lambda late=late: late.fired == 1, 30)  # type: ignore[misc]
        assert await simulator.inquire(payment) == NotFound()
        moved_time.advance(DEADLINE_SECONDS)
        assert isinstance(await asking, Unknown)
        assert late.firings[0].is_held
        if end == "release":
            counter.faults.release(late)
        elif end == "time":
            moved_time.advance(60)
        elif end == "close":
            await simulator.close()
        else:
            counter.bank.database.signals.stop()
        arriving = (task for task in asyncio.all_tasks() if task.get_name().startswith("payment of"))
        await asyncio.gather(*arriving)
        expected = Approved if end in ("release", "time") else NotFound
        assert isinstance(await simulator.inquire(payment), expected), end


async def test_a_held_request_that_is_released_in_time_is_answered(counter: Counter) -> None:
    """As if it had been sent then."""
    late = counter.add("payment late")
    asking = asyncio.ensure_future(counter.simulator.authorize(new_payment(), card()))
    assert await counter.faults.until(lambda: late.fired == 1, 30)
    counter.faults.release(late)
    assert isinstance(await asking, Approved)
    assert '"outcome":"approved"' in str(late.firings[0].answer)


@pytest.mark.parametrize(
    ("line", "seconds", "expected"), [("slow", 8, Unknown), ("slow:9s", 8, Unknown), ("slow:5s", 5, Approved)]
)
async def test_an_answer_after_8_seconds_is_unknown(
    counter: Counter, line: str, seconds: float, expected: type
) -> None:
    """Whether it is held or delayed."""
    slow = counter.add(f"payment {line}")
    asking = asyncio.ensure_future(counter.simulator.authorize(new_payment(), card()))
    assert await counter.faults.until(lambda: slow.fired == 1, 30)
    moved_time.advance(seconds)
    assert isinstance(await asking, expected)


async def test_only_matching_requests_meet_a_fault(counter: Counter) -> None:
    """By seller, terminal, order and card; `*` is each request."""
    payment = new_payment()
    counter.add(f"payment reset seller={payment.merchant_id} terminal={payment.terminal_id} card=amex_approved")
    assert isinstance(await counter.simulator.authorize(payment, card()), Approved)
    assert isinstance(await counter.simulator.authorize(new_payment(), card("amex_approved")), Unknown)
    every = counter.add(f"* reset times=0 order={payment.order_id}")
    assert isinstance(await counter.simulator.inquire(payment), Unknown)
    assert isinstance(await counter.simulator.reverse(payment, key=new_key(), amount_minor=2490), Unknown)
    assert isinstance(await counter.simulator.authorize(new_payment(), card()), Approved)
    assert every.fired == 2


async def test_the_first_requests_under_each_key_meet_a_fault(counter: Counter) -> None:
    """`every` chooses among keys, `skip` and `times` count the requests under one; a reset counts anew."""
    counter.add("payment reset every=2 skip=1 times=2 per=key")
    for _ in range(2):
        payments = [new_payment() for _ in range(3)]
        found = [[type(await counter.simulator.authorize(payment, card())) for _ in range(4)] for payment in payments]
        assert found == [[Approved] * 4, [Approved, Unknown, Unknown, Approved], [Approved] * 4]
        counter.faults.count_anew()


def test_a_fault_remembers_a_limited_number_of_keys() -> None:
    """The last ones."""
    active = Faults("acquirer payment reset per=key")
    source, (one,) = AcquirerFaults(active), active
    fired = [len(source.take("payment", f"PAY{number}", {"seller": "1"}, 0)) for number in range(2 * KEYS_MAX)]
    assert (sum(fired), len(one.keys)) == (2 * KEYS_MAX, KEYS_MAX)
    assert [len(source.take("payment", f"PAY{number}", {"seller": "1"}, 0)) for number in (2 * KEYS_MAX - 1, 0)] == [
        0,
        1,
    ]


def test_without_a_fault_of_the_acquirer_nothing_is_asked() -> None:
    """Other edges, and a fault that is spent, count for nothing."""
    active = Faults("till create_order reset; acquirer payment reset")
    source = AcquirerFaults(active)
    assert source.is_active
    assert len(source.take("payment", "PAY1", {"seller": "1"}, 0)) == 1
    assert not source.is_active


async def test_an_added_fault_comes_before_card_and_amount(counter: Counter) -> None:
    """Which have those of their own."""
    counter.add("payment decline:high_risk")
    assert await counter.simulator.authorize(new_payment(9_990_002), card()) == Declined("high_risk")
    assert await counter.simulator.authorize(new_payment(9_990_002), card()) == Declined("insufficient_amount")


async def test_another_amount_is_approved_and_not_reversed(counter: Counter) -> None:
    """A tenth less, but something."""
    for ordered, expected in ((2490, 2241), (2, 1), (1, 2)):
        payment, _ = new_payment(ordered), counter.add("payment other_amount")
        approved = await counter.simulator.authorize(payment, card())
        assert isinstance(approved, Approved)
        assert (approved.amount_minor, await counter.simulator.inquire(payment)) == (expected, approved)
        for reference_id in ("", approved.reference_id):
            key = new_key("REV")
            reversed_ = await counter.simulator.reverse(
                payment, key=key, amount_minor=expected, reference_id=reference_id
            )
            assert reversed_ == Declined("processing_error")
        assert await counter.simulator.inquire(payment) == approved


@pytest.mark.parametrize("outcome", ["approved", "declined"])
async def test_an_order_of_another_amount_needs_an_operator(database: Database, outcome: str) -> None:
    """It stays `check_on_terminal` until one resolves it; `doctor` finds nothing wrong."""
    # The next inquiry is due after 10 s.
    clock, settings = MovableClock(frozen_ms=START_MS), Settings(resolve_after_seconds=1)
    with skipped_waits(database):
        async with playing(database, clock=clock, settings=settings) as service:
            owner, virtual = await operator(service), await create(service, script="approve:0s")
            await add(service, {"edge": "acquirer", "request": "payment", "kind": "other_amount"})
            order_id = await virtual.order()

            async def alerted() -> Any:
                kinds = [one["kind"] for one in (await owner.did("GET", "events"))["data"]]
                return kinds if "inquiry_needs_person" in kinds else None

            assert "approval_of_another_amount" in await until_found(alerted)
            order = await service.get(order_id)
            assert (order["status_detail"], order["total_amount"]) == ("check_on_terminal", "24.90")
            (charge,) = (await owner.service.request("GET", "/dev/charges", token=owner.token)).body["data"]
            assert (charge["charged_amount"], charge["status_detail"]) == ("22.41", "other_amount")
            clock.advance(1000)
            assert await check.check(database, clock.now_ms()) == []
            await owner.did("POST", f"orders/{order_id}/resolve", {"outcome": outcome, "reason": "Seen in the portal."})
            await service.until(order_id, "processed" if outcome == "approved" else "failed")
            assert await check.check(database, clock.now_ms()) == []


async def test_a_fault_of_a_test_token_disturbs_its_seller_and_is_shown(database: Database) -> None:
    """In the fault, the log and the order's timeline; `confirm` and `inquiry` of others pass."""
    with skipped_waits(database):
        async with playing(database) as service:
            virtual = await create(service, script="approve:0s")
            body = {
                "edge": "acquirer",
                "request": "payment",
                "kind": "decline:high_risk",
                "match": {"terminal": virtual.id},
            }
            added = await add(service, body)
            seller = str(service.seller_id)
            line = f"acquirer payment decline:high_risk terminal={virtual.id} seller={seller} mode=test"
            assert added["line"] == line
            with structlog.testing.capture_logs() as lines:
                order_id = await virtual.order()
                await service.until(order_id, "failed")
            (firing,) = (await call(service, "GET", f"/{added['id']}?wait=30")).body["fired"]
            assert (firing["order"], firing["terminal"], firing["operation"]) == (order_id, virtual.id, "payment")
            assert firing["key"] == f"PAY{order_id[3:]}"
            assert firing["answer"] == {
                "status": 200,
                "body": {"outcome": "declined", "detail": "high_risk", "origin": "acquirer"},
            }
            (logged,) = [line for line in lines if line["event"] == "fault_fired"]
            assert (logged["edge"], logged["kind"], logged["order"]) == ("acquirer", "decline:high_risk", order_id)
            (shown,) = (await (await operator(service)).did("GET", f"orders/{order_id}"))["faults"]
            assert (shown["kind"], shown["effect"]) == ("decline:high_risk", "The acquirer declined the request.")
            page = await (await console(service)).get(f"/console/orders/{order_id}")
            assert "Fault decline:high_risk" in page.html
            await service.until(await virtual.order(), "processed")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"request": "payments", "kind": "reset"}, "request"),
        ({"request": "*", "kind": "decline:high_risk"}, "request"),
        ({"request": "payment", "kind": "decline:poor"}, "kind"),
        ({"request": "payment", "kind": "busy"}, "kind"),
        ({"request": "refund", "kind": "reset", "match": {"card": "visa_approved"}}, "match.card"),
    ],
)
async def test_a_fault_that_the_acquirer_does_not_have_is_refused(
    database: Database, body: dict[str, Any], field: str
) -> None:
    """With the field; in the setting the start is refused."""
    async with playing(database) as service:
        reply = await call(service, "POST", "", {"edge": "acquirer", **body})
        assert (reply.status, reply.code) == (400, "property_value")
        assert f"$.{field}" in str(reply.body["errors"])
    match = "".join(f" {name}={value}" for name, value in body.get("match", {}).items())
    with pytest.raises(StartRefused, match="faults: "):
        composed(database, Settings(faults=f"acquirer '{body['request']}' {body['kind']}{match}"), development=True)


async def test_the_setting_has_faults_of_the_acquirer(database: Database) -> None:
    """For test orders and for live ones."""
    settings = Settings(acquirer="simulator", faults="acquirer payment decline:high_risk every=2 times=0")
    acquirers = composed(database, settings, development=True).shared.objects[Acquirers]
    assert acquirers.test is not None
    of_both = (acquirers.test, acquirers.live["simulator"]) * 2
    found = [type(await acquirer.authorize(new_payment(), card())) for acquirer in of_both]
    assert found == [Approved, Declined, Approved, Declined]
    settings = Settings(acquirer="simulator", faults="acquirer payment reset times=0 mode=test")
    acquirers = composed(database, settings, development=True).shared.objects[Acquirers]
    assert isinstance(await acquirers.live["simulator"].authorize(new_payment(), card()), Approved)
