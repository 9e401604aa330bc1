"""The development endpoints (demo inbox, demo callback, clock) on both databases."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from pydantic import ValidationError

from paydesk.core.clock import MovableClock, SystemClock
from paydesk.core.errors import Refusal
from paydesk.core.keys import Keys
from paydesk.engine.webhooks.signatures.signature import secret_of, standard_headers, x_signature
from paydesk.platform.operation import Answer, Call, Caller, Handler
from paydesk.platform.storage.database import Database, Transaction, Unavailable
from paydesk_dev.clock import handlers, next_due
from paydesk_dev.clock.clock import restore_clock
from paydesk_dev.inbox import page as inbox_page
from paydesk_dev.inbox import receiver as inbox
from paydesk_dev.inbox import store
from paydesk_dev.operations import OPERATIONS
from paydesk_dev.schemas import ClockMove
from shared_objects import make_shared

KEYS = Keys(1, {1: b"k" * 32})
OPERATION_OF = {operation.handler: operation for operation in OPERATIONS}

BODY = msgspec.json.encode(
    {"id": "n1", "action": "order.processed", "data": {"id": "ORD1", "status": "processed", "version": 3}}
)


async def _call(database: Database, handler: Handler, clock: MovableClock | None = None, **given: Any) -> Any:
    """Call the handler in the transaction of its operation; return the body of the answer."""
    operation = OPERATION_OF[handler]
    call = Call(
        shared=make_shared(database, clock=clock or MovableClock()),
        caller=Caller(0),
        now_ms=given.pop("now_ms", 1_769_869_602_109),
        request_id="r",
        **given,
    )

    async def work(tx: Transaction) -> Any:
        call.begin(tx)
        return await handler(call)

    if operation.transaction == "none":
        answer = await handler(call)
    else:
        answer = await (database.read if operation.transaction == "read" else database.write)(work)
    assert isinstance(answer, Answer)
    assert answer.status == operation.status
    return msgspec.json.decode(msgspec.json.encode(answer.body))


async def _subscribe(database: Database, url: str, subscription_id: str = "S1") -> None:
    async def work(tx: Transaction) -> None:
        await tx.run(
            "INSERT INTO subscriptions (subscription_id, application_id, live, topic, url, actions, secret_generation,"
            " created_ms) VALUES ($1, 1, 0, 'orders', $2, '[]', 1, 0)",
            subscription_id,
            url,
        )
        await tx.run(
            "INSERT INTO subscription_secrets (subscription_id, generation, key_version, created_ms)"
            " VALUES ($1, 1, 1, 0)",
            subscription_id,
        )

    await database.write(work)


def _headers(body: bytes = BODY, subscription_id: str = "S1") -> dict[str, str]:
    secret, seconds = secret_of(KEYS, 1, subscription_id, 1), int(time.time())
    return {
        "authorization": "Bearer secret",
        "x-request-id": "r1",
        "x-signature": x_signature(secret, data_id="ord1", request_id="r1", seconds=seconds),
        **standard_headers([secret], message_id="n1", seconds=seconds, body=body.decode()),
    }


async def _receive(database: Database, headers: Mapping[str, str], body: bytes = BODY) -> None:
    query = {"data.id": "ord1", "type": "order"}
    assert await _call(database, handlers.receive, headers=headers, body=body, query=query) == {}


async def _inbox(database: Database) -> list[dict[str, Any]]:
    body: dict[str, list[dict[str, Any]]] = await _call(database, handlers.show_inbox)
    return body["data"]


async def _inbox_page(database: Database) -> str:
    page: str = await _call(database, handlers.show_inbox, headers={"accept": "text/html", "host": "127.0.0.1:8377"})
    return page


async def test_signed_notification_is_stored_and_returned(database: Database) -> None:
    """It is valid, and returned without credentials."""
    await _subscribe(database, "https://other.example/hook", "S0")
    await _subscribe(database, "http://127.0.0.1:8377/demo/inbox?till=1")
    await _receive(database, _headers())
    (entry,) = await _inbox(database)
    assert entry.pop("headers").keys() == _headers().keys() - {"authorization"}
    assert entry == {
        "received_date": "2026-01-31T14:26:42.109Z",
        "action": "order.processed",
        "order_id": "ORD1",
        "version": 3,
        "signature_valid": True,
        "body": msgspec.json.decode(BODY),
    }


@pytest.mark.parametrize(
    ("broken", "fault"),
    [
        ("x-signature", "X-Request-Id or ts is not the one that was signed"),
        ("webhook-signature", "webhook-id or webhook-timestamp is not the one that was signed"),
        ("x-request-id", "X-Request-Id or ts is not the one that was signed"),
        ("webhook-timestamp", "webhook-id or webhook-timestamp is not the one that was signed"),
        ("none", "No webhook subscription has this inbox as its URL"),
    ],
)
async def test_invalid_signature_is_marked(database: Database, broken: str, fault: str) -> None:
    """Both signatures must be valid, and of a subscription to this inbox; the page says why one is not."""
    await _subscribe(database, "http://127.0.0.1:8377/demo/" + ("another" if broken == "none" else "inbox"))
    headers = _headers()
    if broken != "none":
        headers[broken] = headers[broken][:-1] + ("1" if headers[broken][-1] != "1" else "2")
    if broken == "webhook-timestamp":
        headers[broken] = "1"
    await _receive(database, headers)
    assert [entry["signature_valid"] for entry in await _inbox(database)] == [False]
    page = await _inbox_page(database)
    assert fault in page
    assert "Signature not valid" in page


@pytest.mark.parametrize("name", ["X-Signature", "webhook-id", "webhook-timestamp", "webhook-signature"])
async def test_missing_header_is_named(database: Database, name: str) -> None:
    """A notification without one of the signed headers is not valid."""
    await _subscribe(database, "http://127.0.0.1:8377/demo/inbox")
    headers = _headers()
    del headers[name.lower()]
    await _receive(database, headers)
    assert f"The header {name} is missing." in await _inbox_page(database)


def test_page_is_for_clients_that_name_html() -> None:
    """Others get JSON."""
    html = {"text/html,application/xhtml+xml,*/*;q=0.8", "application/json, TEXT/HTML;q=0.5"}
    assert {one for one in html | {"", "*/*", "application/json", "text/htmlx"} if inbox_page.is_wanted(one)} == html


NO_NOTIFICATIONS = (
    b"",
    b"no json \0 \xff",
    b"[1]",
    b'{"data": 7, "action": null}',
    b'{"action": {"deep": 1}}',
    b"[" * 4_000 + b"]" * 4_000,
    b"1" * 5_000,
)


async def test_any_body_is_stored(database: Database) -> None:
    """A body that is not a notification has no action."""
    for number, body in enumerate(NO_NOTIFICATIONS, 1):
        await _receive(database, {}, body)
        stored = await _inbox(database)
        assert len(stored) == number, body[:60]
        assert not any(entry["signature_valid"] or "action" in entry for entry in stored), body[:60]
        assert (await _inbox_page(database)).count("No action") == number, body[:60]


async def test_long_body_is_truncated(database: Database) -> None:
    """Its first 8,192 characters are stored, and returned as text because they are not JSON."""
    await _receive(database, {}, msgspec.json.encode({"text": "x" * 60_000}))
    (entry,) = await _inbox(database)
    assert entry["body"] == '{"text":"' + "x" * (8_192 - 9)


@pytest.mark.parametrize("body", [b"null", b"[1]", b'"text"'])
async def test_json_body_is_returned_as_json(database: Database, body: bytes) -> None:
    """JSON `null` is returned as null, not as text."""
    await _receive(database, {}, body)
    (entry,) = await _inbox(database)
    assert entry["body"] == msgspec.json.decode(body)


@pytest.mark.parametrize("count", [1, 600])
async def test_card_number_at_the_truncation_is_masked(database: Database, count: int) -> None:
    """Also if masking shortens the text, so that more of it is stored."""
    number = b"4111111111111111 card "
    start = b"x " * ((8_192 - 8) // 2 if count == 1 else 3)
    await _receive(database, {}, start + number * count + b"y " * 500)
    (entry,) = await _inbox(database)
    assert "4111" not in entry["body"]
    assert len(entry["body"]) > 1_000


def test_stored_texts_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Returning an entry parses its headers and its body once each."""
    decoded, decode = [], inbox.parsed

    def counted(text: str) -> Any:
        decoded.append(text)
        return decode(text)

    monkeypatch.setattr(inbox, "parsed", counted)
    assert inbox.received(store.InboxEntry(0, 1, "{}", BODY.decode())).order_id == "ORD1"
    assert sorted(decoded) == sorted(["{}", BODY.decode()])


async def test_inbox_stores_the_newest_entries_in_order(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest ones are deleted."""
    monkeypatch.setattr(store, "ENTRIES_MAX", 3)
    for number in range(5):
        await _receive(database, {}, str(number).encode())
    assert [entry["body"] for entry in await _inbox(database)] == [2, 3, 4]
    await _call(database, handlers.empty_inbox)
    assert await _inbox(database) == []


async def test_concurrent_notifications_are_all_stored(database: Database) -> None:
    """None takes another's number."""
    await asyncio.gather(*(_receive(database, {}, str(number).encode()) for number in range(20)))
    assert sorted(entry["body"] for entry in await _inbox(database)) == list(range(20))


async def test_callback_displays_the_code(database: Database) -> None:
    """Its parameters are escaped; others are not displayed."""
    page = await _call(database, handlers.show_callback, query={"code": "TG-1", "state": "<script>", "other": "no"})
    assert "TG-1" in page
    assert "&lt;script&gt;" in page
    assert "<script>" not in page
    assert "other" not in page


async def test_callback_displays_an_error(database: Database) -> None:
    """The error code and a heading."""
    page = await _call(database, handlers.show_callback, query={"error": "access_denied"})
    assert "access_denied" in page
    assert "did not agree" in page


async def _move(database: Database, clock: MovableClock, **move: Any) -> dict[str, Any]:
    answer: dict[str, Any] = await _call(database, handlers.move_clock, clock, body=ClockMove(**move))
    return answer


async def test_clock_advances_by_the_given_time(database: Database) -> None:
    """In every notation, and a restart restores it."""
    clock, offset_ms = MovableClock(), 0
    for text, seconds in (("PT61S", 61), ("61s", 61), ("15m", 900), ("3h", 10_800), ("181d", 181 * 86_400)):
        moved = await _move(database, clock, advance=text)
        offset_ms += seconds * 1000
        found = moved["frozen"], clock.offset_ms, (await restore_clock(database)).offset_ms
        assert found == (False, offset_ms, offset_ms), text


async def test_frozen_clock_moves_only_when_advanced(database: Database) -> None:
    """After a resume it continues from there; it never goes back, also across restarts."""
    clock = MovableClock()
    before = clock.now_ms()
    await _move(database, clock, freeze=True)
    frozen = clock.now_ms()
    assert frozen >= before
    assert (await restore_clock(database)).now_ms() == frozen
    moved = await _move(database, clock, advance="3h")
    assert (moved["frozen"], clock.now_ms()) == (True, frozen + 10_800_000)
    assert (await restore_clock(database)).now_ms() == frozen + 10_800_000
    moved = await _move(database, clock, resume=True)
    assert moved["frozen"] is False
    assert clock.now_ms() >= frozen + 10_800_000
    assert (await restore_clock(database)).now_ms() >= frozen + 10_800_000
    # Less the time for which it was frozen.
    assert frozen + 10_800_000 - SystemClock().now_ms() <= (moved["offset_seconds"] + 1) * 1000 <= 10_802_000


async def test_clock_without_a_row_is_the_clock_of_the_machine(database: Database) -> None:
    """Its offset is 0."""
    clock = await restore_clock(database)
    assert (clock.offset_ms, clock.frozen_ms) == (0, None)
    answer = await _call(database, handlers.show_clock, clock)
    assert (answer["frozen"], answer["offset_seconds"]) == (False, pytest.approx(0, abs=1))


async def test_concurrent_moves_add_up(database: Database) -> None:
    """In the clock and in its row."""
    clock = MovableClock()
    await asyncio.gather(*(_move(database, clock, advance="1m") for _ in range(10)))
    assert clock.offset_ms == (await restore_clock(database)).offset_ms == 600_000


async def test_workers_are_notified_of_a_move(database: Database) -> None:
    """Those that wait for a time by this clock look again."""
    with database.signals.subscribe("clock") as waiter:
        await _move(database, MovableClock(), advance="1m")
        assert await waiter.wait(1)


async def test_clock_advances_only_after_the_commit(database: Database) -> None:
    """An advance that fails to commit has no effect."""
    clock = MovableClock()
    await database.close()
    with pytest.raises(Unavailable):
        await _move(database, clock, advance="1m")
    assert clock.offset_ms == 0


async def test_clock_cannot_advance_beyond_2099(database: Database) -> None:
    """The limit of representable times."""
    clock = MovableClock(next_due.CLOCK_MS_MAX - SystemClock().now_ms() - 1000)
    with pytest.raises(Refusal, match="clock after 2099"):
        await _move(database, clock, advance="1m")


INVALID_MOVES: tuple[dict[str, Any], ...] = (
    {},
    {"freeze": True, "resume": True},
    {"freeze": False},
    {"freeze": 1},
    {"advance": "-5m"},
    {"advance": "5 minutes"},
    {"advance": "99999d"},
    {"rewind": True},
    {"to_next": False},
    {"to_next": True, "advance": "1m"},
)


def test_clock_move_needs_exactly_one_valid_field() -> None:
    """No field, two fields, an unknown one or a negative time are refused."""
    for move in INVALID_MOVES:
        with pytest.raises(ValidationError):
            pytest.fail(f"{move} is taken as {ClockMove.model_validate(move)}")
