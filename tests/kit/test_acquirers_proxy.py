"""The proxy of the acquirers' kit, between the adapter and a switch that keeps connections open and does not say so."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from paydesk.engine.payments.acquirer import Approved, NotSent, Unknown
from paydesk.engine.payments.adapters.context import AdapterContext
from paydesk_dev.conformance.acquirers.engine import until_reachable
from paydesk_dev.conformance.acquirers.proxy import Fault, Proxy
from played_switch import APPROVED, CARD, PAYMENT, SECRET, PlayedSwitch, Reply, http_acquirer, listening
from tables import each

REQUEST = b"POST /paydesk/authorize HTTP/1.1\r\nHost: here\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCH_KEY", SECRET)


async def in_front_of(port: int) -> Proxy:
    """Return a proxy whose requests are authorizations."""
    proxy = Proxy(f"http://127.0.0.1:{port}/paydesk", None)
    proxy.running = ("authorize",)
    return proxy


@each(
    "fault, headers",
    [
        (None, ()),
        (None, ("Connection: keep-alive", "Keep-Alive: timeout=5")),
        ("half", ()),
        ("502", ()),
        ("404", ()),
    ],
)
async def test_every_answer_says_that_its_connection_is_closed(fault: Fault | None, headers: tuple[str, ...]) -> None:
    """Once, in its head, as the request to the switch does."""
    switch = PlayedSwitch(Reply(APPROVED, headers=headers))
    async with listening(switch) as port:
        proxy = await in_front_of(port)
        async with proxy.listening(), asyncio.timeout(5):
            with proxy.on(fault or "late", "authorize" if fault else "none"):
                reader, writer = await asyncio.open_connection("127.0.0.1", proxy._port)
                writer.write(REQUEST)
                answer = await reader.read()
                writer.close()
    assert re.findall(rb"(?i)\r\nconnection: ?([^\r]*)", answer.partition(b"\r\n\r\n")[0]) == [b"close"]
    assert switch.requests[0].headers["connection"] == "close"


async def test_an_adapter_never_meets_a_connection_that_is_about_to_close() -> None:
    """Each request has a connection of its own, also after a page of the proxy."""
    switch = PlayedSwitch()
    async with listening(switch) as port:
        proxy = await in_front_of(port)
        async with proxy.listening():
            acquirer = http_acquirer(proxy._port, AdapterContext())
            results: list[Any] = [await acquirer.authorize(PAYMENT, CARD) for _ in range(20)]
            with proxy.on("502", "authorize", times=1):
                results.append(await acquirer.authorize(PAYMENT, CARD))
            results.append(await acquirer.authorize(PAYMENT, CARD))
            await acquirer.close()
    assert [type(one) for one in results] == [*[Approved] * 20, Unknown, Approved]


async def test_a_case_begins_when_the_circuit_breaker_is_closed_again() -> None:
    """It waits for the echo of the breaker that the case before has opened."""
    may_echo, switch = asyncio.Event(), PlayedSwitch(Reply(cut=5))

    async def sleep(_seconds: float) -> None:
        await may_echo.wait()

    async with listening(switch) as port:
        acquirer = http_acquirer(port, AdapterContext(sleep=sleep))
        results: list[Any] = [await acquirer.authorize(PAYMENT, CARD) for _ in range(6)]
        assert isinstance(results[-1], NotSent)
        switch.replies = [Reply({"outcome": "not_found"}), Reply(APPROVED)]
        waiting = asyncio.create_task(until_reachable(acquirer, PAYMENT))
        may_echo.set()
        await waiting
        assert isinstance(await acquirer.authorize(PAYMENT, CARD), Approved)
        await acquirer.close()
