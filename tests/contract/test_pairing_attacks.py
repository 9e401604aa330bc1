"""Attacks on pairing: guessed, reused and stolen codes, and floods of requests. All are refused, and nothing grows."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from conftest import short_and_long
from moved_time import advance
from operator_calls import operator
from pairing_scene import ask_to_pair, new_terminal, pair, poll, send
from paydesk.core.clock import MovableClock
from paydesk.core.text.redaction import carries_secret, redacted
from paydesk.engine.terminals.pairing import rates as pairing_rates
from paydesk.engine.terminals.pairing import store as pairing_store
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from recording_database import RecordingDatabase
from service import Service, running

OPEN = "SELECT COUNT(*) FROM pairings"
CONCURRENT = 50


async def guesses(service: Service, count: int) -> Counter[tuple[int, str]]:
    """Poll with guessed device codes and return the answers."""
    answers: Counter[tuple[int, str]] = Counter()
    for number in range(count):
        reply = await poll(service, {"device_code": f"{number:040x}"})
        answers[reply.status, reply.code] += 1
    return answers


async def test_guessed_user_codes_are_refused(database: Database) -> None:
    """After five wrong ones a minute a right one is refused too; another operator is not affected."""
    async with running(database, settings=Settings(pairing_failures_per_minute=5), workers=False) as service:
        guesser, other = await operator(service), await operator(service)
        codes = await ask_to_pair(service)
        right, body = f"pairings/{codes['user_code']}", {"seller_id": service.seller_id}
        for number in range(5):
            method = ("GET", "POST", "DELETE")[number % 3]
            sent = body if method == "POST" else None
            assert await guesser.refused(method, f"pairings/BBBB-BBB{'BCDFG'[number]}", sent) == (
                404,
                "pairing_not_found",
            )
        for method, sent in (("GET", None), ("POST", body), ("DELETE", None)):
            reply = await guesser.ask(method, right, sent)
            assert (reply.status, reply.code) == (429, "too_many_requests")
            assert 1 <= int(reply.headers["Retry-After"]) <= 12
        assert (await poll(service, codes)).code == "authorization_pending"
        assert (await other.ask("POST", right, body)).status == 201


async def test_codes_guessed_at_once_are_counted(database: Database) -> None:
    """Five of fifty are looked up."""
    async with running(database, settings=Settings(pairing_failures_per_minute=5), workers=False) as service:
        guesser = await operator(service)
        guessed = [f"BBBB-BB{first}{second}" for first in "BCDFG" for second in "BCDFGHJKLM"]
        replies = await asyncio.gather(*[guesser.ask("GET", f"pairings/{code}") for code in guessed])
        assert Counter(reply.status for reply in replies) == {404: 5, 429: 45}


async def test_right_codes_are_not_counted(database: Database) -> None:
    """Nor malformed ones, which can't be any terminal's."""
    async with running(database, settings=Settings(pairing_failures_per_minute=5), workers=False) as service:
        one = await operator(service)
        for _ in range(7):
            await pair(service, one)
            assert await one.refused("GET", "pairings/BBBB-BBBA") == (400, "invalid_path_param")


async def test_guessed_device_codes_are_refused(database: Database) -> None:
    """Each as an expired one, whatever it looks like, until the address is throttled."""
    settings = Settings(pairing_polls_per_minute_address=60)
    async with running(database, settings=settings, workers=False) as service:
        codes = await ask_to_pair(service)
        for guess in ("0" * 40, codes["device_code"][:-1], codes["device_code"].upper() + "X", codes["user_code"]):
            reply = await poll(service, {"device_code": guess})
            assert (reply.status, reply.code) == (400, "expired_token")
        answers = await guesses(service, 80)
        assert set(answers) == {(400, "expired_token"), (429, "too_many_requests")}
        assert answers[429, "too_many_requests"] > 10


async def test_reused_codes_are_refused(service: Service) -> None:
    """A code that was approved or denied pairs no second terminal."""
    one = await operator(service)
    codes = await ask_to_pair(service)
    path, body = f"pairings/{codes['user_code']}", {"seller_id": service.seller_id}
    await one.did("POST", path, body)
    for sent in (body, {**body, "replace": True}):
        assert await one.refused("POST", path, sent) == (404, "pairing_not_found")
    assert await service.scene.value("SELECT COUNT(*) FROM device_tokens") == 1


@pytest.mark.on_postgres
async def test_stolen_device_code_is_refused_after_use(service: Service) -> None:
    """The token is answered until the terminal's first hello, and not after a revocation or deletion."""
    one = await operator(service)
    for end in ("hello", "revoke", "delete"):
        codes = await ask_to_pair(service)
        made = await one.did("POST", f"pairings/{codes['user_code']}", {"seller_id": service.seller_id})
        token = (await poll(service, codes)).body["device_token"]
        assert (await poll(service, codes)).body["device_token"] == token
        if end == "hello":
            hello = {"boot_id": "0b5cf9b0-6c6e-4ff4-9b0e-0f3a3f3c6a51"}
            assert (await service.request("POST", "/device/v1/hello", hello, token=token, key=None)).status == 200
        elif end == "revoke":
            await one.did("POST", f"terminals/{made['id']}/revoke")
        else:
            assert (await one.ask("DELETE", f"terminals/{made['id']}")).status == 204
        reply = await poll(service, codes)
        assert (reply.status, reply.code, token in str(reply.body)) == (400, "expired_token", False), end


async def test_revoked_token_reports_no_later_order(database: Database) -> None:
    """Neither one that waits for the terminal, nor one that the terminal has under its new token."""
    clock = MovableClock()
    async with running(database, clock=clock, workers=False) as service:
        one, terminal = await operator(service), await service.terminal()
        stolen = await service.device(terminal)
        await one.did("POST", f"terminals/{terminal.id}/revoke")
        clock.advance(61_000)
        waiting = (await service.create(terminal)).body["id"]
        reply = await stolen.approve(waiting[3:])
        assert (reply.status, reply.code) == (404, "lease_not_found")
        assert (await service.cancel(waiting)).status == 200
        renewed = await service.device(await pair(service, one, terminal.id, replace=True))
        await one.did("PATCH", f"terminals/{terminal.id}", {"operating_mode": "PDV"})
        order_id = (await service.create(terminal)).body["id"]
        assert (await renewed.ack(order_id[3:])).status == 200
        reply = await stolen.approve(order_id[3:])
        assert (reply.status, reply.code) == (404, "lease_not_found")
        assert (await service.get(order_id))["status"] == "at_terminal"
        assert (await renewed.approve(order_id[3:])).status == 200


async def test_address_is_throttled(database: Database) -> None:
    """With `Retry-After`; no row is inserted for what is refused."""
    async with running(database, settings=Settings(pairings_per_minute_address=5), workers=False) as service:
        replies = [await send(service, "", new_terminal()) for _ in range(8)]
        assert [reply.status for reply in replies] == [201] * 5 + [429] * 3
        assert 1 <= int(replies[-1].headers["Retry-After"]) <= 12
        assert await service.scene.value(OPEN) == 5


async def test_flood_is_refused_at_the_bound(database: Database) -> None:
    """Rows stay bounded; expired ones make room, and are deleted in small steps."""
    clock = MovableClock()
    async with running(database, settings=Settings(pairings_open_max=50), clock=clock, workers=False) as service:
        replies = [await send(service, "", new_terminal()) for _ in range(60)]
        assert Counter(reply.status for reply in replies) == {201: 50, 429: 10}
        assert replies[-1].headers["Retry-After"] == "30"
        clock.advance(301_000)
        advance(pairing_rates.FULL_SECONDS)
        await ask_to_pair(service)
        assert await service.scene.value(OPEN) == 51 - pairing_store.DELETED_MAX
        for _ in range(3):
            await ask_to_pair(service)
        assert await service.scene.value(OPEN) == 4


async def test_pending_poll_writes_nothing(database: Database) -> None:
    """It is one SELECT, also when the terminal polls too often."""
    recording = RecordingDatabase(database)
    async with running(recording, workers=False) as service:
        codes = await ask_to_pair(service)
        recording.asked.clear()
        for _ in range(5):
            await poll(service, codes)
        assert list(recording.asked) == [pairing_store.BY_DEVICE_CODE]


@pytest.mark.parametrize("count", short_and_long(500, 20_000))
async def test_concurrent_flood_is_refused_at_the_bound(database: Database, count: int) -> None:
    """Concurrent transactions may exceed the bound by their number; what is refused inserts nothing."""
    open_max = count // 5
    settings, clock = Settings(pairings_open_max=open_max), MovableClock()
    clock.freeze()
    async with running(database, settings=settings, clock=clock, workers=False) as service:
        statuses = await _flood(service, open_max + CONCURRENT)
        made = statuses[201]
        assert open_max <= made <= open_max + settings.database_connections_max
        rest = count - open_max - CONCURRENT
        assert await _flood(service, rest) == {429: rest}
        assert await service.scene.value(OPEN) == made


async def _flood(service: Service, count: int) -> Counter[int]:
    """Ask to be paired `count` times, `CONCURRENT` at once, and return the statuses."""
    statuses: Counter[int] = Counter()

    async def ask(number: int) -> None:
        for _ in range(number):
            statuses[(await send(service, "", new_terminal())).status] += 1

    share, rest = divmod(count, CONCURRENT)
    await asyncio.gather(*[ask(share + (place < rest)) for place in range(CONCURRENT)])
    return statuses


def test_user_codes_are_masked_in_logged_paths() -> None:
    """However they are typed; the rest of the path stays."""
    for typed in ("BCDF-GHJK", "BCDFGHJK", "bcdfghjk", "bcdf ghjk"):
        assert redacted(f"/operator/v1/pairings/{typed}", "path").startswith("/operator/v1/pairings/***")
        assert carries_secret(f"/operator/v1/pairings/{typed}")
    assert redacted("/device/v1/pairings/token", "path") == "/device/v1/pairings/token"
