"""`hello` and `next`: sessions, verdicts, and the messages of a long poll."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from device_scene import APPROVED, Desk, answered, new_boot, open_desk, refused
from moved_time import advance
from paydesk.engine.device.gateway import Gateway
from paydesk.engine.orders import status, store
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.status_labels import PLAIN
from paydesk.platform.operation import Answer
from paydesk.platform.storage.database import Database, T, Work
from recording_database import RecordingDatabase
from waiting import until


@pytest.fixture
async def desk(database: Database) -> Desk:
    """Return a desk whose terminal has sent a hello."""
    desk = await open_desk(database)
    answered(await desk.hello())
    return desk


class CountingReads(RecordingDatabase):
    """A database that counts its units of work that read."""

    reads = 0

    async def read(self, work: Work[T], **options: Any) -> T:
        """Count it once it has ended."""
        found = await super().read(work, **options)
        self.reads += 1
        return found


@dataclass
class OpenPoll:
    """A poll that waits, and the database that it asks."""

    outcome: asyncio.Task[Any]
    database: CountingReads


async def open_poll(desk: Desk, wait: int = 55) -> OpenPoll:
    """Begin a poll; return once it has found nothing and waits."""
    desk.database = database = CountingReads(desk.database)
    poll = OpenPoll(asyncio.create_task(desk.next(wait=wait)), database)
    await until(lambda: database.reads == 1)
    return poll


def nothing(outcome: Any) -> bool:
    """Return whether the poll was answered 204."""
    return isinstance(outcome, Answer) and outcome.status == 204


async def restart(desk: Desk, order: Order, step: str, **more: Any) -> list[dict[str, str]]:
    """Start a new session with the order in its journal and return the verdicts."""
    entry = {"lease_id": order.ulid, "last_step": step, **more}
    leases: list[dict[str, str]] = answered(await desk.hello(entry, boot_id=new_boot()))["leases"]
    return leases


async def expire(desk: Desk, order: Order) -> None:
    """Expire the order as the worker does."""
    desk.clock.advance(order.expires_ms - desk.clock.now_ms())
    await desk.database.write(lambda tx: store.expire_overdue(Change(tx, desk.clock.now_ms(), PLAIN), order))


async def test_hello_returns_the_terminals_configuration(desk: Desk) -> None:
    """A repeated hello of the same session gets the same answer."""
    for _ in range(2):
        assert answered(await desk.hello()) == {
            "terminal_id": desk.terminal_id,
            "operating_mode": "PDV",
            "seller_name": "Corner shop",
            "currency": "BRL",
            "time": "2026-01-31T14:26:42.109Z",
            "leases": [],
        }


async def test_an_earlier_session_stays_stale(desk: Desk) -> None:
    """Every call gets `stale_session`, also after a repeated hello of the newer session."""
    earlier, later = desk.boot_id, new_boot()
    order = await desk.order()
    answered(await desk.hello(boot_id=later))
    answered(await desk.hello())
    assert refused(await desk.hello(boot_id=earlier)) == "stale_session"
    assert refused(await desk.next(boot_id=earlier)) == "stale_session"
    assert refused(await desk.acknowledge(order, boot_id=earlier)) == "stale_session"
    assert answered(await desk.next(boot_id=later))["type"] == "order"


async def test_a_new_session_ends_the_open_poll_of_an_earlier_one(desk: Desk) -> None:
    """The open poll gets `stale_session` at once."""
    poll = await open_poll(desk)
    await desk.hello(boot_id=new_boot())
    assert refused(await poll.outcome) == "stale_session"


async def test_a_poll_without_a_hello_returns_stale_session(desk: Desk) -> None:
    """A boot id without a hello has no session."""
    assert refused(await desk.next(boot_id=new_boot())) == "stale_session"


@pytest.mark.parametrize("wait", ["-1", "56", "x", "٣"])
async def test_next_refuses_a_wait_out_of_bounds(desk: Desk, wait: str) -> None:
    """`wait` is from 0 to 55 seconds."""
    from paydesk.engine.device.polling.handlers import next_message

    query = {"boot_id": desk.boot_id, "wait": wait}
    assert refused(await desk.handle(next_message, query=query, in_transaction=False)) == "property_value"


async def test_next_offers_the_order(desk: Desk) -> None:
    """The offer does not change the order."""
    order = await desk.order()
    assert answered(await desk.next()) == {
        "type": "order",
        "lease_id": order.ulid,
        "expires_date": "2026-01-31T14:41:42.109Z",
        "time": "2026-01-31T14:26:42.109Z",
        "order": {
            "id": order.order_id,
            "payment_id": f"PAY{order.ulid}",
            "amount": "24.90",
            "currency": "BRL",
            "external_reference": "ext_ref_1234",
            "print_on_terminal": "seller_ticket",
        },
    }
    assert (await desk.now(order)).version == 1
    assert nothing(await desk.next())


async def test_an_order_reaches_a_polling_terminal_at_once(desk: Desk) -> None:
    """The new order notifies the poll, which asks the database once more."""
    poll = await open_poll(desk)
    order = await desk.order()
    assert answered(await poll.outcome)["lease_id"] == order.ulid
    assert poll.database.reads == 2


async def test_an_unacknowledged_order_is_offered_again(desk: Desk) -> None:
    """The open poll returns it again under the same lease after `offer_again_seconds`."""
    order = await desk.order()
    first = answered(await desk.next())
    poll = await open_poll(desk)
    advance(desk.settings.offer_again_seconds)
    assert answered(await poll.outcome) == first
    await desk.acknowledge(order)
    poll = await open_poll(desk)
    advance(55)
    assert nothing(await poll.outcome)


async def test_a_poll_without_news_asks_the_database_once(desk: Desk) -> None:
    """When it ends it needs no second query, because the next poll begins with the same one."""
    poll = await open_poll(desk)
    advance(55)
    assert nothing(await poll.outcome)
    assert poll.database.reads == 1


async def test_a_newer_poll_ends_the_older_one(desk: Desk) -> None:
    """The older one is answered 204 at once, the newer one gets the order."""
    older, newer = await open_poll(desk), await open_poll(desk)
    assert nothing(await older.outcome)
    order = await desk.order()
    assert answered(await newer.outcome)["lease_id"] == order.ulid


async def test_a_stale_poll_does_not_end_the_valid_one(desk: Desk) -> None:
    """A poll without a session has no effect on others."""
    poll = await open_poll(desk)
    assert refused(await desk.next(boot_id=new_boot())) == "stale_session"
    await desk.order()
    assert answered(await poll.outcome)["type"] == "order"


async def test_a_changed_mode_is_sent_once(desk: Desk) -> None:
    """The open poll returns it; a STANDALONE terminal gets no orders."""
    poll = await open_poll(desk)
    answered(await desk.setup((desk.terminal_id, "STANDALONE")))
    assert answered(await poll.outcome) == {"type": "mode", "operating_mode": "STANDALONE"}
    await desk.order()
    assert nothing(await desk.next())


async def test_another_node_sends_the_mode_again(desk: Desk) -> None:
    """The mode may have changed between a hello on one node and a poll on another."""
    desk.gateway = Gateway()
    assert answered(await desk.next()) == {"type": "mode", "operating_mode": "PDV"}
    assert nothing(await desk.next())


async def test_an_overdue_order_is_not_offered(desk: Desk) -> None:
    """Its time has run out, though the worker has not expired it yet."""
    await desk.order(seconds=30)
    desk.clock.advance(30_000)
    assert nothing(await desk.next())


async def test_a_cancel_request_reaches_the_terminal(desk: Desk) -> None:
    """The order is at the terminal and authorization is not permitted."""
    order = await desk.at_terminal()
    await desk.move(status.REQUEST_CANCEL, order)
    assert answered(await desk.next()) == {"type": "cancel", "lease_id": order.ulid}
    assert nothing(await desk.next())
    answered(await desk.answer_cancel(order, done=True))
    assert nothing(await desk.next())


async def test_the_expiry_of_a_lease_is_sent_once(desk: Desk) -> None:
    """Only for an acknowledged order, and before the next order is offered."""
    order = await desk.at_terminal()
    await expire(desk, order)
    following = await desk.order()
    assert answered(await desk.next()) == {"type": "expired", "lease_id": order.ulid}
    assert answered(await desk.next())["lease_id"] == following.ulid
    assert nothing(await desk.next())


async def test_a_created_order_is_offered_to_a_new_session(desk: Desk) -> None:
    """The verdict on its journal entry is `forget`."""
    order = await desk.order()
    answered(await desk.next())
    assert await restart(desk, order, "offered") == [{"lease_id": order.ulid, "verdict": "forget"}]
    assert answered(await desk.next())["lease_id"] == order.ulid


async def test_an_order_without_permit_is_resumed(desk: Desk) -> None:
    """The new session has the lease and may authorize."""
    order = await desk.at_terminal()
    assert await restart(desk, order, "acknowledged") == [{"lease_id": order.ulid, "verdict": "resume"}]
    assert nothing(await desk.next())
    assert answered(await desk.progress(order, "authorizing"))["go"] is True


@pytest.mark.on_postgres
async def test_an_order_missing_from_the_journal_is_offered_again(desk: Desk) -> None:
    """A reset terminal may acknowledge it again before authorization is permitted."""
    order = await desk.at_terminal()
    assert answered(await desk.hello(boot_id=new_boot()))["leases"] == []
    assert answered(await desk.next())["lease_id"] == order.ulid
    answered(await desk.acknowledge(order))
    assert nothing(await desk.next())


@pytest.mark.on_postgres
async def test_a_permitted_order_gets_verdict_hold(desk: Desk) -> None:
    """With or without a journal entry it is not charged again, and there is an inquiry."""
    order = await desk.granted()
    assert answered(await desk.hello(boot_id=new_boot()))["leases"] == [{"lease_id": order.ulid, "verdict": "hold"}]
    assert (await desk.now(order)).state == status.CHECK_ON_TERMINAL
    assert await restart(desk, order, "authorizing") == [{"lease_id": order.ulid, "verdict": "hold"}]
    assert nothing(await desk.next())
    assert len(await desk.rows("SELECT order_id FROM inquiries")) == 1
    answered(await desk.report(order, APPROVED))
    assert (await desk.now(order)).state == status.PROCESSED


async def test_authorizing_without_permit_is_aborted(desk: Desk) -> None:
    """There is an inquiry nevertheless."""
    order = await desk.at_terminal()
    assert await restart(desk, order, "authorizing") == [{"lease_id": order.ulid, "verdict": "abort"}]
    assert (await desk.now(order)).state == status.CHECK_ON_TERMINAL


async def test_a_canceled_or_overdue_order_is_aborted_at_hello(desk: Desk) -> None:
    """The order becomes canceled or expired."""
    order = await desk.at_terminal()
    await desk.move(status.REQUEST_CANCEL, order)
    assert await restart(desk, order, "card_requested") == [{"lease_id": order.ulid, "verdict": "abort"}]
    assert (await desk.now(order)).state == status.CANCELED_BY_API
    order = await desk.at_terminal()
    desk.clock.advance(900_000)
    assert await restart(desk, order, "acknowledged") == [{"lease_id": order.ulid, "verdict": "abort"}]
    assert (await desk.now(order)).state == status.EXPIRED


async def test_a_result_in_the_journal_gets_verdict_report(desk: Desk) -> None:
    """An order that has ended gets `forget`."""
    order = await desk.granted()
    assert await restart(desk, order, "authorizing", result=APPROVED) == [{"lease_id": order.ulid, "verdict": "report"}]
    answered(await desk.report(order, APPROVED))
    assert await restart(desk, order, "authorizing") == [{"lease_id": order.ulid, "verdict": "forget"}]
