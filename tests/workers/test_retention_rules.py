"""What is kept and what is forgotten, kind by kind, on either side of the day on which it goes."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from oauth_scene import DAY_MS, Scene, authorizations_of, frozen_clock, make_scene
from paydesk.core import ids
from paydesk.core.clock import MovableClock
from paydesk.engine.events import relay
from paydesk.engine.invariants import check
from paydesk.engine.oauth import authorizations
from paydesk.engine.webhooks.subscriptions import store as subscriptions
from paydesk.platform.settings import Settings, SettingsError, load
from paydesk.platform.storage.database import Database, Transaction
from retention_scene import SELLER, add_delivery, add_key, add_seller, ago, context_of, count, insert, names_of, sweep
from service import running
from shared_objects import KEYS


async def _keys(tx: Transaction) -> None:
    for operation, kept, gone in (
        ("create_order", 29.9, 30.1),
        ("cancel_order", 29.9, 30.1),
        ("refund_order", 119, 121),
        ("create_action", 29.9, 30.1),
        ("cancel_action", 29.9, 30.1),
    ):
        await add_key(tx, f"kept {operation}", kept, operation)
        await add_key(tx, f"gone {operation}", gone, operation)


async def _deliveries(tx: Transaction) -> None:
    for status in ("delivered", "exhausted", "superseded", "withdrawn"):
        await add_delivery(tx, f"kept {status}", 29.9, status)
        await add_delivery(tx, f"gone {status}", 30.1, status)
    await add_delivery(tx, "kept pending", None, "pending")
    await add_delivery(tx, "kept untried", None, "pending", attempts=0)
    await add_delivery(tx, "gone untried", 30.1, "withdrawn", attempts=0)


async def _codes(tx: Transaction) -> None:
    for name, expires_ms in (("kept", ago(29.9)), ("gone", ago(30.1))):
        said = {"authorization_id": name, "application_id": 7, "redirect_uri": "", "scope": "read", "created_ms": 0}
        await insert(tx, "codes", seller_id=SELLER, digest=name.encode(), expires_ms=expires_ms, **said)


async def _device_tokens(tx: Transaction) -> None:
    for name, revoked_ms in (("kept", ago(29.9)), ("gone", ago(30.1)), ("kept, good", None)):
        said = {"terminal_id": name, "created_ms": 0, "revoked_ms": revoked_ms}
        await insert(tx, "device_tokens", seller_id=SELLER, digest=name.encode(), **said)


async def _sessions(tx: Transaction) -> None:
    """One that was taken over long ago; one that was taken over yesterday; one that still goes on."""
    began = {"gone": 90.0, "kept, taken over lately": 60.0, "kept, the newest": 1.0}
    for session, (name, days) in enumerate(began.items(), start=1):
        said = {"terminal_id": "A__1", "session": session, "app_version": "1", "created_ms": ago(days)}
        await insert(tx, "terminal_sessions", seller_id=SELLER, boot_id=name, **said)
    said = {"terminal_id": "A__2", "session": 1, "app_version": "1", "created_ms": ago(90)}
    await insert(tx, "terminal_sessions", seller_id=SELLER, boot_id="kept, the only one", **said)


async def _consent_requests(tx: Transaction) -> None:
    for name, expires_ms in (("kept", ago(29.9)), ("gone", ago(30.1))):
        await _consent_request(tx, name, expires_ms, decided_ms=expires_ms - 1)


async def _consent_request(tx: Transaction, name: str, expires_ms: int, decided_ms: int | None) -> None:
    said = {"session_digest": b"", "application_id": 7, "redirect_uri": name, "scope": "read", "created_ms": 0}
    times = {"expires_ms": expires_ms, "decided_ms": decided_ms}
    await insert(tx, "consent_requests", seller_id=SELLER, digest=name.encode(), **said, **times)


async def _print_actions(tx: Transaction) -> None:
    """An open one is never deleted: its terminal's row names it."""
    for name, days, status in (
        ("kept", 29.9, "processed"),
        ("gone", 30.1, "canceled"),
        ("gone, failed", 90.0, "failed"),
        ("kept, open", 90.0, "on_terminal"),
    ):
        said = {"application_id": 7, "live": 0, "terminal_id": name, "external_reference": "", "subtype": "custom"}
        times = {"created_ms": 0, "updated_ms": ago(days), "expires_ms": 0}
        content = "x" if status == "on_terminal" else None
        keys = {"seller_id": SELLER, "action_id": name}
        await insert(tx, "print_actions", **keys, **said, **times, status=status, content=content)


KINDS = {
    "print actions": (_print_actions, "print_actions", "action_id"),
    "keys": (_keys, "idempotency_keys", "idempotency_key"),
    "deliveries": (_deliveries, "deliveries", "delivery_id"),
    "attempts": (_deliveries, "attempts", "delivery_id"),
    "codes": (_codes, "codes", "authorization_id"),
    "device tokens": (_device_tokens, "device_tokens", "terminal_id"),
    "sessions": (_sessions, "terminal_sessions", "boot_id"),
    "what sellers were asked": (_consent_requests, "consent_requests", "redirect_uri"),
}


async def test_only_old_rows_are_deleted(database: Database) -> None:
    """Rows of each kind are deleted after their time; longer times can be configured."""
    await database.write(add_seller)
    before = {}
    for kind, (fill, table, column) in KINDS.items():
        if kind != "attempts":
            await database.write(fill)
        before[kind] = await names_of(database, table, column)
    longer = Settings(idempotency_keep_days=365, deliveries_keep_days=365, tokens_keep_days=365)
    assert await sweep(database, settings=longer) == 0
    assert await sweep(database) > 0
    for kind, (_, table, column) in KINDS.items():
        left = await names_of(database, table, column)
        assert left == [name for name in before[kind] if name.startswith("kept")], kind
        assert 0 < len(left) < len(before[kind]), kind
    assert await sweep(database) == 0


async def test_unused_consent_requests_are_deleted_after_an_hour(database: Database) -> None:
    """They are valid for 30 min; one whose page was answered too late is unused too."""
    minute, rows = 1 / (24 * 60), {"kept": 29, "gone": 31, "gone, answered late": 31, "kept, decided": 31}
    await database.write(add_seller)
    for name, minutes in rows.items():
        expires_ms = ago(minutes * minute)
        decided_ms = {"gone, answered late": expires_ms, "kept, decided": expires_ms - 1}.get(name)
        await database.write(partial(_consent_request, name=name, expires_ms=expires_ms, decided_ms=decided_ms))
    assert await sweep(database, settings=Settings(consent_minutes=30)) == 2
    assert await names_of(database, "consent_requests", "redirect_uri") == ["kept", "kept, decided"]
    assert await sweep(database, settings=Settings(consent_minutes=60)) == 1


async def _book(tx: Transaction) -> None:
    """Payments of which something went back, and the requests for it; the last request stays, however old."""
    decided = {"outcome": "approved", "reference_id": "1", "visible_ms": 0, "amount_minor": 100}
    for ordinal, (name, days) in enumerate({"gone": 180.1, "kept": 179.9}.items(), start=1):
        payment_id, created_ms = f"PAY{ids.first_ulid(ago(days))}", ago(days)
        said = {"terminal_id": name, "live": 0, "currency": "BRL", "installments": 1, "refunded_minor": 100, **decided}
        await insert(tx, "simulator_payments", seller_id=SELLER, payment_id=payment_id, created_ms=created_ms, **said)
        moved = {"seller_id": SELLER, "kind": "refund", "payment_id": payment_id, **decided}
        await insert(tx, "simulator_movements", movement_key=name, created_ms=ago(1), **moved)
        confirmed = {**moved, "kind": "confirmation"}
        await insert(tx, "simulator_confirmation_movements", movement_key=name, created_ms=ago(1), **confirmed)
        asked = {"seller_id": SELLER, "ordinal": ordinal, "requests": 1, "created_ms": created_ms}
        await insert(tx, "simulator_requests", operation="payment", request_key=name, **asked)
        table = "simulator_confirmation_requests"
        await insert(tx, table, operation="confirmation", request_key=name, **asked)
        if name == "gone":
            await insert(tx, "simulator_requests", operation="refund", request_key="kept, the last", **asked)


@pytest.mark.parametrize("step_rows_max", [1, 100])
async def test_old_entries_of_the_simulator_ledger_are_deleted(database: Database, step_rows_max: int) -> None:
    """A payment with what went back of it, half a year after its order was made, step by step; numbers go on."""
    await database.write(add_seller)
    await database.write(_book)
    assert await sweep(database, step_rows_max=step_rows_max) == 5
    assert await names_of(database, "simulator_payments", "terminal_id") == ["kept"]
    assert await names_of(database, "simulator_movements", "movement_key") == ["kept"]
    assert await names_of(database, "simulator_confirmation_movements", "movement_key") == ["kept"]
    assert await names_of(database, "simulator_confirmation_requests", "request_key") == ["kept"]
    assert await names_of(database, "simulator_requests", "request_key") == ["kept", "kept, the last"]


async def test_expired_seller_sessions_are_deleted(database: Database) -> None:
    """It is known as over for as long as a token would be, and then it is unknown."""
    await database.write(add_seller)

    async def fill(tx: Transaction) -> None:
        for name, expires_ms in ((b"kept", ago(29.9)), (b"gone", ago(30.1)), (b"good", ago(-1))):
            await insert(
                tx, "seller_sessions", seller_id=SELLER, digest=name, created_ms=ago(90), expires_ms=expires_ms
            )

    await database.write(fill)
    assert await sweep(database) == 1
    assert [bytes(one) for one in await names_of(database, "seller_sessions", "digest")] == [b"good", b"kept"]


@pytest.mark.parametrize("name", ["idempotency_keep_days", "tokens_keep_days", "deliveries_keep_days"])
def test_retention_below_30_days_is_refused(name: str) -> None:
    """What the interface promises to remember can't be set below that."""
    with pytest.raises(SettingsError, match="greater than or equal to 30"):
        load({f"PAYDESK_{name.upper()}": "29"})


async def test_an_idempotency_key_is_free_after_its_days(database: Database) -> None:
    """A create is answered from its key for 30 days, whatever is swept; then the key makes an order of its own."""
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        terminal, other = await service.terminal(), await service.terminal()
        first = await service.create(terminal, key="till-1")
        clock.advance(29 * DAY_MS)
        await sweep(database, clock)
        again = await service.create(terminal, key="till-1")
        assert (again.status, again.body) == (201, first.body)
        assert again.headers["x-idempotent-replayed"] == "true"
        clock.advance(2 * DAY_MS)
        await sweep(database, clock)
        new = await service.create(other, key="till-1")
        assert new.status == 201
        assert new.body["id"] != first.body["id"]
        assert "x-idempotent-replayed" not in new.headers


@pytest.fixture
async def scene(database: Database) -> Scene:
    """An application, a seller and a clock that stands still."""
    return await make_scene(database)


async def test_reuse_is_detected_until_the_token_would_have_expired(scene: Scene) -> None:
    """An old refresh token that was used ends its family when it comes again, also after many sweeps."""
    first = await scene.tokens()
    second = await scene.answer(scene.refresh(first["refresh_token"]))
    for _ in range(6):
        scene.clock.advance(34 * DAY_MS)
        last = second
        second = await scene.answer(scene.refresh(second["refresh_token"]))
        await sweep(scene.database, scene.clock)
    # 204 days: it would have expired 24 days ago.
    code, reason = await scene.refusal(scene.refresh(first["refresh_token"]))
    assert (code, reason) == ("invalid_grant", "refresh token replayed")
    for token in (last, second):
        assert (await scene.refusal(scene.refresh(token["refresh_token"])))[1].startswith("refresh token revoked")


async def test_reuse_after_pruning_is_an_unknown_token(scene: Scene) -> None:
    """A refresh token that would have expired 30 days ago is as good as any unknown one, and ends nothing."""
    tokens = [await scene.tokens()]
    for _ in range(7):
        scene.clock.advance(31 * DAY_MS)
        tokens.append(await scene.answer(scene.refresh(tokens[-1]["refresh_token"])))
        await sweep(scene.database, scene.clock)
    assert await scene.refusal(scene.refresh(tokens[0]["refresh_token"])) == ("invalid_grant", "unknown refresh token")
    assert await count(scene.database, "refresh_tokens") == await count(scene.database, "access_tokens") == 7
    assert await scene.answer(scene.refresh(tokens[-1]["refresh_token"]))
    assert await check.check(scene.database, scene.clock.now_ms()) == []
    # The one after it expired six days ago: it is known as what it is.
    assert (await scene.refusal(scene.refresh(tokens[1]["refresh_token"])))[1] == "refresh token replayed"


@pytest.mark.on_postgres
async def test_a_retry_succeeds_while_the_family_is_active(scene: Scene) -> None:
    """A client that lost the response of a refresh gets it again, even after the used token would have expired."""
    first = await scene.tokens()
    scene.clock.advance(179 * DAY_MS)
    second = await scene.answer(scene.refresh(first["refresh_token"]))
    scene.clock.advance(100 * DAY_MS)
    assert await sweep(scene.database, scene.clock) == 1  # the code
    again = await scene.answer(scene.refresh(first["refresh_token"]))
    assert again["refresh_token"] == second["refresh_token"]
    assert again["access_token"] == second["access_token"]


async def test_a_retry_after_a_late_refresh_succeeds(database: Database) -> None:
    """The tokens that a repeat is answered with outlive their expiry by what a repeat needs."""
    scene = await make_scene(database)
    scene.settings = Settings(access_token_lifetime_seconds=3600)
    first = await scene.tokens()
    second = await scene.answer(scene.refresh(first["refresh_token"]))
    scene.clock.advance(60 * DAY_MS)
    third = await scene.answer(scene.refresh(second["refresh_token"]))
    await scene.answer(scene.refresh(third["refresh_token"]))
    await sweep(scene.database, scene.clock, settings=scene.settings)
    again = await scene.answer(scene.refresh(first["refresh_token"]))
    assert again["refresh_token"] == second["refresh_token"]
    assert await check.check(scene.database, scene.clock.now_ms()) == []


async def _end(tx: Transaction, how: str, seller_id: int, now_ms: int) -> None:
    if how == "revoked":
        await tx.run("UPDATE token_families SET revoked_ms = $1, revoked_reason = 'test'", now_ms)
    elif how == "withdrawn":
        for found in await authorizations_of(tx, seller_id):
            await authorizations.withdraw(
                tx, seller_id=seller_id, authorization_id=found.authorization_id, now_ms=now_ms
            )


@pytest.mark.parametrize("how", ["expired", "revoked", "withdrawn"])
async def test_an_ended_family_is_deleted_completely(scene: Scene, how: str) -> None:
    """A family goes with all its tokens 30 days after it was revoked or withdrawn, or its last token expired."""
    first = await scene.tokens()
    await scene.answer(scene.refresh(first["refresh_token"]))
    if how == "expired":
        scene.clock.advance(180 * DAY_MS)
    ended_ms = scene.clock.now_ms()
    await scene.database.write(lambda tx: _end(tx, how, scene.seller.seller_id, ended_ms))
    scene.clock.advance(30 * DAY_MS)
    await sweep(scene.database, scene.clock)
    assert await count(scene.database, "token_families") == 1
    assert await count(scene.database, "access_tokens") == 2
    scene.clock.advance(DAY_MS)
    await sweep(scene.database, scene.clock, step_rows_max=1)
    for table in ("token_families", "access_tokens", "refresh_tokens", "codes"):
        assert await count(scene.database, table) == 0, table
    assert await count(scene.database, "authorizations") == 1
    assert await check.check(scene.database, scene.clock.now_ms()) == []


@pytest.mark.on_postgres
async def test_a_token_outlives_a_newer_one_with_a_shorter_lifetime(scene: Scene) -> None:
    """When lifetimes were shortened, an older token that is still good keeps its family."""
    scene.settings = Settings(access_token_lifetime_seconds=300 * 86_400)
    first = await scene.tokens()
    scene.settings = Settings(access_token_lifetime_seconds=60, refresh_token_lifetime_seconds=60)
    await scene.answer(scene.refresh(first["refresh_token"]))
    scene.clock.advance(290 * DAY_MS)
    await sweep(scene.database, scene.clock)
    assert await count(scene.database, "access_tokens") == 2
    assert await check.check(scene.database, scene.clock.now_ms()) == []
    scene.clock.advance(41 * DAY_MS)
    await sweep(scene.database, scene.clock)
    assert await count(scene.database, "token_families") == 0


async def test_pruning_keeps_history_and_invariants(database: Database) -> None:
    """Of paid orders everything about their deliveries goes, nothing of their history, and nothing is found wrong."""
    clock = frozen_clock()
    async with running(database, clock=clock, workers=False) as service:
        application_id = service.scene.application.application_id
        await database.write(
            lambda tx: subscriptions.create(
                tx,
                KEYS,
                application_id=application_id,
                live=False,
                url="https://shop.example",
                actions=(),
                now_ms=clock.now_ms() - 1,
            )
        )
        terminal = await service.terminal()
        device = await service.device(terminal)
        for _ in range(3):
            order = (await service.create(terminal)).body["id"]
            await device.ack(order[3:])
            await device.authorizing(order[3:])
            assert (await device.approve(order[3:])).status == 200
    ended = "UPDATE deliveries SET status = 'delivered', ended_ms = created_ms"
    await database.write(lambda tx: tx.run(ended))
    kept = {table: await count(database, table) for table in ("orders", "order_events", "leases", "results")}
    assert await check.check(database, clock.now_ms()) == []
    await relay.sweep(context_of(database, clock), asyncio.Event())
    clock.advance(31 * DAY_MS)
    await sweep(database, clock)
    assert await count(database, "deliveries") == await count(database, "idempotency_keys") == 0
    assert {table: await count(database, table) for table in kept} == kept
    assert kept["order_events"] >= 3 * 3
    assert await check.check(database, clock.now_ms()) == []
