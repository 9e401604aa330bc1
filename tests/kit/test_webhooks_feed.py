"""The event feed of `paydesk webhooks listen`, with a service that fails in every way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from paydesk.commands.client.failure import Failure, Unreachable, WrongUsage
from paydesk.commands.local.secret import signing_secret
from paydesk_dev import http_client
from paydesk_dev.forwarding import feed as webhook_feed
from paydesk_dev.forwarding.feed import EventFeed
from skipped_waits import skipped_waits
from waiting import HANGS_SECONDS, timer
from webhooks_scene import receiver


def event(number: int) -> dict[str, Any]:
    """Return an event."""
    return {"id": f"event-{number}", "action": "order.created", "user_id": "42", "data": {"id": f"ORD{number}"}}


def page(*numbers: int, cursor: str = "") -> web.StreamResponse:
    """Return a page with these events; its cursor is the last number."""
    document = {"data": [event(number) for number in numbers], "next": cursor or str(max(numbers, default=0))}
    return web.json_response(document)


def refusal(status: int, code: str, message: str = "no") -> web.StreamResponse:
    """Return a refusal as the service makes it."""
    return web.json_response({"errors": [{"code": code, "message": message, "details": ["x"]}]}, status=status)


class Script:
    """A service that gives scripted answers, and keeps what it was asked: cursor and token."""

    def __init__(self, answers: Sequence[web.StreamResponse | bytes]) -> None:
        self._answers: Iterator[web.StreamResponse | bytes] = iter(answers)
        self.cursors: list[str | None] = []
        self.tokens: list[str] = []

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Give the next answer; after the last one, wait."""
        self.cursors.append(request.query.get("after"))
        self.tokens.append(request.headers["Authorization"])
        answer = next(self._answers, None)
        if isinstance(answer, web.StreamResponse):
            return answer
        if isinstance(answer, bytes):
            # An answer that ends early.
            assert request.transport is not None
            request.transport.write(answer)
            request.transport.close()
        await asyncio.Event().wait()
        raise AssertionError


def write_credentials(file: Path, base_url: str, token: str = "one") -> None:
    """Write a credentials file."""
    file.write_text(json.dumps({"base_url": base_url, "test": {"access_token": token}}))


@asynccontextmanager
async def feed_of(file: Path, answers: Sequence[web.StreamResponse | bytes]) -> AsyncIterator[tuple[EventFeed, Script]]:
    """Yield a feed of a service with these answers."""
    script = Script(answers)
    async with receiver(script) as service, aiohttp.ClientSession() as http:
        write_credentials(file, service.url.partition("/hooks")[0])
        yield EventFeed(http, file, live=False), script


async def read(feed: EventFeed, count: int) -> list[str]:
    """Return the ids of the first events, and make sure that no other one follows at once."""
    ids: list[str] = []
    async with asyncio.timeout(HANGS_SECONDS):
        async for one in feed.events():
            ids.append(one.event_id)
            if len(ids) == count:
                return ids
    return ids


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_feed, "PAUSE_SECONDS", (0.01, 0.05))


CUT = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"


async def test_failures_lose_and_repeat_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Errors, overload and cut answers: the same cursor is asked again until there is a page."""
    answers: list[web.StreamResponse | bytes] = [
        page(1, 2),
        web.Response(status=500),
        refusal(429, "x"),
        CUT,
        b"",
        page(3),
        page(cursor="3"),
        page(4),
    ]
    async with feed_of(tmp_path / "f", answers) as (feed, script):
        assert await read(feed, 4) == ["event-1", "event-2", "event-3", "event-4"]
    assert script.cursors[:7] == [None, "2", "2", "2", "2", "2", "3"]
    said = capsys.readouterr().err
    assert (said.count("is away"), said.count("is back at")) == (1, 1)


async def test_retry_after_is_respected(tmp_path: Path) -> None:
    """The service is asked again no sooner than it says."""
    answers = [page(1), web.Response(status=503, headers={"Retry-After": "10"}), page(2)]
    with skipped_waits():
        async with feed_of(tmp_path / "f", answers) as (feed, _):
            early = timer(9.9)
            await read(feed, 2)
            assert early.is_set()


@pytest.mark.parametrize("answer", [refusal(410, "events_no_longer_kept"), refusal(400, "property_value")])
async def test_a_refused_cursor_repeats_nothing(tmp_path: Path, answer: web.StreamResponse) -> None:
    """The feed is read from its beginning, and what was read is skipped."""
    async with feed_of(tmp_path / "f", [page(1, 2), answer, page(2, 3)]) as (feed, script):
        assert await read(feed, 3) == ["event-1", "event-2", "event-3"]
    assert script.cursors == [None, "2", None]


async def test_skipping_reads_to_the_end(tmp_path: Path) -> None:
    """Only later events are returned."""
    async with feed_of(tmp_path / "f", [page(1, 2), page(3), page(cursor="3"), page(4)]) as (feed, script):
        await feed.skip_to_end()
        assert await read(feed, 1) == ["event-4"]
    assert script.cursors == [None, "2", "3", "3"]


async def test_a_token_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    """As after a restart of `paydesk dev`; without a new one it ends, naming the file."""
    file = tmp_path / "f"
    async with feed_of(file, [page(1), refusal(401, "unauthorized"), page(2), refusal(401, "unauthorized")]) as (
        feed,
        script,
    ):
        events = feed.events()
        assert (await anext(events)).event_id == "event-1"
        write_credentials(file, feed.access.base_url, "two")
        assert (await anext(events)).event_id == "event-2"
        with pytest.raises(Failure, match=f"The tokens in {file} are not valid"):
            await anext(events)
    assert script.tokens == ["Bearer one", "Bearer one", "Bearer two", "Bearer two"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (refusal(403, "insufficient_scope", "The scope read is missing."), "The scope read is missing"),
        (web.Response(status=302, headers={"Location": "/"}), "answered 302. Check the address"),
        (web.Response(status=404, text="<html>"), "answered 404. Check the address"),
        (web.Response(text="<html>"), "is not from Paydesk"),
        (web.Response(text='{"data": [1], "next": "x"}'), "is not from Paydesk"),
        (web.Response(text='{"data": [], "next": 1}'), "is not from Paydesk"),
        (web.Response(body=b"[" * 100_000), "is not from Paydesk"),
        (web.json_response({"data": [{**event(1), "user_id": "one"}], "next": "x"}), "is not from Paydesk"),
        (web.Response(text='{"data": [{"id": "\\ud800"}], "next": "x"}'), "is not from Paydesk"),
    ],
)
async def test_what_is_no_feed_ends_it(tmp_path: Path, answer: web.StreamResponse, message: str) -> None:
    """With a message that says what it got."""
    async with feed_of(tmp_path / "f", [answer]) as (feed, _):
        with pytest.raises(Failure, match=message) as raised:
            await read(feed, 1)
        assert raised.value.exit_code == 1


async def test_a_long_answer_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paydesk sends no such answer."""
    monkeypatch.setattr(http_client, "BYTES_MAX", 2000)
    async with feed_of(tmp_path / "f", [page(*range(100))]) as (feed, _):
        with pytest.raises(Failure, match="is not from Paydesk"):
            await read(feed, 1)


async def test_a_service_that_is_away_at_first_ends_it(tmp_path: Path) -> None:
    """A wrong address is more likely then than a restart."""
    async with feed_of(tmp_path / "f", [web.Response(status=503)]) as (feed, _):
        with pytest.raises(Unreachable, match="Cannot read events from"):
            await read(feed, 1)


def test_two_commands_at_once_make_one_secret(tmp_path: Path) -> None:
    """Each signs with the secret that is kept."""
    for place in range(10):
        file = tmp_path / f"{place}.json"
        write_credentials(file, "http://127.0.0.1:1")
        with ThreadPoolExecutor(8) as threads:
            made = {secret.reveal() for secret in threads.map(signing_secret, [None] * 8, [file] * 8)}
        assert made == {json.loads(file.read_text())["listen_secret"]}


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And how to do without."""
    file = tmp_path / "f"
    write_credentials(file, "http://127.0.0.1:1")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("paydesk.core.atomic_file.replace", full)
    with pytest.raises(WrongUsage, match="No space left on device"):
        signing_secret(None, file)
