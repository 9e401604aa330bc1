"""A caller retries until the outcome is known, and reports responses that must not occur."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from faults.caller import Addresses, Answer, Caller, GaveUp, Tally, share_after_one_repeat
from free_port import free_port

UNUSED = f"http://127.0.0.1:{free_port()}"


@asynccontextmanager
async def answering(statuses: Iterator[int]) -> AsyncIterator[str]:
    """A node that answers with one status after the other; 0 is a connection that breaks."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        status = next(statuses)
        if not status:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({"error": "busy"}, status=status or 200)

    runner = web.ServerRunner(web.Server(handle), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def calling(*addresses: str, give_up: bool = False) -> AsyncIterator[Caller]:
    """A client that knows these addresses."""
    over = asyncio.Event()
    if give_up:
        over.set()
    async with aiohttp.ClientSession() as session:
        session._retry_connection = False
        yield Caller(session, Addresses(list(addresses), random.Random(1)), Tally(), random.Random(1), over)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, "ok"),
        (202, "ok"),
        (404, "no"),
        (409, "no"),
        (423, "unknown"),
        (500, "unknown"),
        (503, "unknown"),
        (0, "unknown"),
    ],
)
def test_a_response_decides_the_outcome(status: int, outcome: str) -> None:
    """2xx is ok, 4xx but 423 is no, and everything else is unknown."""
    assert Answer(status).outcome == outcome


async def test_an_unknown_outcome_is_retried_until_known() -> None:
    """503, 423 and a broken connection say nothing: three repeats, each counted."""
    async with answering(iter((503, 423, 0, 201))) as node, calling(node) as caller:
        answer = await caller.known("POST", "/v1/orders", {})
        assert (answer.status, answer.attempts) == (201, 4)
        assert (caller.tally.repeats, caller.tally.known, caller.tally.attempts) == (3, 1, 4)
        assert caller.tally.unknowns.total() == 3
        assert caller.tally.faults == []


async def test_an_unreachable_node_costs_one_retry() -> None:
    """A refused connection counts as an attempt; the retry and later calls go to another node."""
    async with answering(iter([200] * 20)) as node, calling(UNUSED, node) as caller:
        for _ in range(20):
            await caller.known("GET", "/v1/orders")
        assert caller.tally.requests[1] >= 19
        assert share_after_one_repeat(caller.tally.requests) == 1.0


async def test_an_unexpected_response_is_reported() -> None:
    """A 500 is a violation although it is repeated, and so is a refusal that was not to be expected."""
    async with answering(iter((500, 409, 409))) as node, calling(node) as caller:
        await caller.known("POST", "/v1/orders", {})
        assert [fault.partition(" at ")[0] for fault in caller.tally.faults[:1]] == ["POST /v1/orders"]
        assert caller.tally.faults[1] == "POST /v1/orders was refused with 409 busy after 2 attempts"
        await caller.known("POST", "/v1/orders", {}, expected=("busy",))
        assert len(caller.tally.faults) == 2


async def test_an_outcome_that_stays_unknown_is_reported() -> None:
    """Without faults, a caller gives up instead of retrying without end."""
    async with calling(UNUSED, give_up=True) as caller:
        with pytest.raises(GaveUp):
            await caller.known("GET", "/v1/orders")
        assert caller.tally.faults == [f"GET /v1/orders at {UNUSED} never became known: 0"]
