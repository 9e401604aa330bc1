"""`hello` and `next`: sessions, verdicts, and what a polling terminal is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from device_scene import APPROVED, Desk, answered, new_boot, open_desk, refused
from paydesk.device.gateway import Gateway
from paydesk.operation import Answer
from paydesk.orders import status, store
from paydesk.orders.order import Order
from paydesk.storage.database import Database


@pytest.fixture
async def desk(database: Database) -> Desk:
    """A seller with a terminal that has said hello."""
    desk = await open_desk(database)
    answered(await desk.hello())
    return desk


def nothing(outcome: Any) -> bool:
    """Whether the poll brought nothing."""
    return isinstance(outcome, Answer) and outcome.status == 204


async def restart(desk: Desk, order: Order, step: str, **more: Any) -> list[dict[str, str]]:
    """The verdicts that a new start is told on an order in its journal."""
    entry = {"lease_id": order.ulid, "last_step": step, **more}
    leases: list[dict[str, str]] = answered(await desk.hello(entry, boot_id=new_boot()))["leases"]
    return leases


async def expire(desk: Desk, order: Order) -> None:
    """The order's time runs out, and the worker has seen it."""
    desk.clock.advance(order.expires_ms - desk.clock.now_ms())
    await desk.database.write(lambda tx: store.expire_overdue(tx, order, desk.clock.now_ms()))


async def test_hello_tells_the_terminal_what_it_is(desk: Desk) -> None:
    """Repeated by the same start it is answered the same."""
    for _ in range(2):
        assert answered(await desk.hello()) == {
            "terminal_id": desk.terminal_id,
            "operating_mode": "PDV",
            "seller_name": "Corner shop",
            "currency": "BRL",
            "time": "2026-01-31T14:26:42.109Z",
            "leases": [],
        }


async def test_an_earlier_start_is_stale_for_ever(desk: Desk) -> None:
    """Hello included, even after the one that took over said hello again."""
    earlier, later = desk.boot_id, new_boot()
    order = await desk.order()
    answered(await desk.hello(boot_id=later))
    answered(await desk.hello())
    assert refused(await desk.hello(boot_id=earlier)) == "stale_session"
    assert refused(await desk.next(boot_id=earlier)) == "stale_session"
    assert refused(await desk.acknowledge(order, boot_id=earlier)) == "stale_session"
    assert answered(await desk.next(boot_id=later))["type"] == "order"


async def test_a_later_start_ends_the_poll_of_an_earlier(desk: Desk) -> None:
    """The open poll is answered at once."""
    poll = asyncio.create_task(desk.next(wait=55))
    await asyncio.sleep(0.1)
    await desk.hello(boot_id=new_boot())
    assert refused(await asyncio.wait_for(poll, 2)) == "stale_session"


async def test_a_poll_without_a_hello_is_stale(desk: Desk) -> None:
    """A boot id that never said hello has no session."""
    assert refused(await desk.next(boot_id=new_boot())) == "stale_session"


@pytest.mark.parametrize("wait", ["-1", "56", "x", "٣"])
async def test_next_refuses_a_wait_out_of_bounds(desk: Desk, wait: str) -> None:
    """From 0 to 55 seconds."""
    from paydesk.device.polling import next_message

    query = {"boot_id": desk.boot_id, "wait": wait}
    assert refused(await desk.handle(next_message, query=query, in_transaction=False)) == "property_value"


async def test_an_order_is_offered_as_the_terminal_needs_it(desk: Desk) -> None:
    """Being offered changes nothing."""
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


async def test_an_order_reaches_a_polling_terminal_within_100_ms(desk: Desk) -> None:
    """The poll is woken, not timed."""
    loop = asyncio.get_running_loop()
    delays = []
    for _ in range(5):
        poll = asyncio.create_task(desk.next(wait=55))
        await asyncio.sleep(0.1)
        order = await desk.order()
        made = loop.time()
        assert answered(await poll)["lease_id"] == order.ulid
        delays.append(loop.time() - made)
        await desk.move(status.CANCEL, order)
    # One slow turn of a busy machine proves nothing about the wake.
    assert sorted(delays)[2] < 0.1


async def test_an_order_not_acknowledged_is_offered_again(desk: Desk) -> None:
    """In the poll that is open when the time has come, under the same lease."""
    desk.settings = desk.settings.model_copy(update={"offer_again_seconds": 1})
    order = await desk.order()
    loop = asyncio.get_running_loop()
    first = answered(await desk.next())
    started = loop.time()
    assert answered(await desk.next(wait=10)) == first
    assert 0.9 < loop.time() - started < 5
    await desk.acknowledge(order)
    assert nothing(await desk.next(wait=2))


async def test_the_newest_poll_wins(desk: Desk) -> None:
    """The older one ends at once with nothing, the newer gets the order."""
    older = asyncio.create_task(desk.next(wait=55))
    await asyncio.sleep(0.1)
    newer = asyncio.create_task(desk.next(wait=55))
    assert nothing(await asyncio.wait_for(older, 2))
    order = await desk.order()
    assert answered(await asyncio.wait_for(newer, 2))["lease_id"] == order.ulid


async def test_a_stale_poll_does_not_end_the_good_one(desk: Desk) -> None:
    """Whoever has no session takes nothing away."""
    poll = asyncio.create_task(desk.next(wait=55))
    await asyncio.sleep(0.1)
    assert refused(await desk.next(boot_id=new_boot())) == "stale_session"
    await desk.order()
    assert answered(await asyncio.wait_for(poll, 2))["type"] == "order"


async def test_a_changed_mode_is_told_once(desk: Desk) -> None:
    """Within the poll that is open; a STANDALONE terminal gets no orders."""
    poll = asyncio.create_task(desk.next(wait=55))
    await asyncio.sleep(0.1)
    answered(await desk.setup((desk.terminal_id, "STANDALONE")))
    assert answered(await asyncio.wait_for(poll, 2)) == {"type": "mode", "operating_mode": "STANDALONE"}
    await desk.order()
    assert nothing(await desk.next())


async def test_another_node_tells_what_it_does_not_know_was_told(desk: Desk) -> None:
    """A mode may have changed between a hello there and a poll here."""
    desk.gateway = Gateway()
    assert answered(await desk.next()) == {"type": "mode", "operating_mode": "PDV"}
    assert nothing(await desk.next())


async def test_an_overdue_order_is_not_offered(desk: Desk) -> None:
    """Its time ran out, though nobody has written it down yet."""
    await desk.order(seconds=30)
    desk.clock.advance(30_000)
    assert nothing(await desk.next())


async def test_a_cancel_request_reaches_the_terminal(desk: Desk) -> None:
    """While the order is at the terminal and not granted."""
    order = await desk.at_terminal()
    await desk.move(status.REQUEST_CANCEL, order)
    assert answered(await desk.next()) == {"type": "cancel", "lease_id": order.ulid}
    assert nothing(await desk.next())
    answered(await desk.answer_cancel(order, done=True))
    assert nothing(await desk.next())


async def test_an_expired_lease_is_told_once(desk: Desk) -> None:
    """Of an acknowledged order only, and before the next one is offered."""
    order = await desk.at_terminal()
    await expire(desk, order)
    following = await desk.order()
    assert answered(await desk.next()) == {"type": "expired", "lease_id": order.ulid}
    assert answered(await desk.next())["lease_id"] == following.ulid
    assert nothing(await desk.next())


async def test_a_created_order_is_offered_to_a_new_start(desk: Desk) -> None:
    """The journal may forget it."""
    order = await desk.order()
    answered(await desk.next())
    assert await restart(desk, order, "offered") == [{"lease_id": order.ulid, "verdict": "forget"}]
    assert answered(await desk.next())["lease_id"] == order.ulid


async def test_an_order_before_the_grant_is_resumed(desk: Desk) -> None:
    """The new session holds the lease and may authorize."""
    order = await desk.at_terminal()
    assert await restart(desk, order, "acknowledged") == [{"lease_id": order.ulid, "verdict": "resume"}]
    assert nothing(await desk.next())
    assert answered(await desk.progress(order, "authorizing"))["go"] is True


async def test_an_order_the_journal_lost_is_offered_again(desk: Desk) -> None:
    """A reset terminal gets it before the grant, and may acknowledge it anew."""
    order = await desk.at_terminal()
    assert answered(await desk.hello(boot_id=new_boot()))["leases"] == []
    assert answered(await desk.next())["lease_id"] == order.ulid
    answered(await desk.acknowledge(order))
    assert nothing(await desk.next())


async def test_a_granted_order_is_held(desk: Desk) -> None:
    """Whether the journal knows it or not, it is never charged again and the acquirer is asked."""
    order = await desk.granted()
    assert answered(await desk.hello(boot_id=new_boot()))["leases"] == [{"lease_id": order.ulid, "verdict": "hold"}]
    assert (await desk.now(order)).state == status.CHECK_ON_TERMINAL
    assert await restart(desk, order, "authorizing") == [{"lease_id": order.ulid, "verdict": "hold"}]
    assert nothing(await desk.next())
    assert len(await desk.rows("SELECT order_id FROM inquiries")) == 1
    answered(await desk.report(order, APPROVED))
    assert (await desk.now(order)).state == status.PROCESSED


async def test_authorizing_asked_and_not_granted_is_aborted(desk: Desk) -> None:
    """And the acquirer is asked all the same."""
    order = await desk.at_terminal()
    assert await restart(desk, order, "authorizing") == [{"lease_id": order.ulid, "verdict": "abort"}]
    assert (await desk.now(order)).state == status.CHECK_ON_TERMINAL


async def test_a_cancel_request_or_expiry_aborts_at_the_start(desk: Desk) -> None:
    """The order becomes canceled or expired."""
    order = await desk.at_terminal()
    await desk.move(status.REQUEST_CANCEL, order)
    assert await restart(desk, order, "card_requested") == [{"lease_id": order.ulid, "verdict": "abort"}]
    assert (await desk.now(order)).state == status.CANCELED_BY_API
    order = await desk.at_terminal()
    desk.clock.advance(900_000)
    assert await restart(desk, order, "acknowledged") == [{"lease_id": order.ulid, "verdict": "abort"}]
    assert (await desk.now(order)).state == status.EXPIRED


async def test_a_result_in_the_journal_is_asked_for(desk: Desk) -> None:
    """And an order that has ended is forgotten."""
    order = await desk.granted()
    assert await restart(desk, order, "authorizing", result=APPROVED) == [{"lease_id": order.ulid, "verdict": "report"}]
    answered(await desk.report(order, APPROVED))
    assert await restart(desk, order, "authorizing") == [{"lease_id": order.ulid, "verdict": "forget"}]
