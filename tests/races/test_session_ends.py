"""Promise: once a seller's sessions are ended on one node, no action in them is accepted on any node.

| Concurrent with the end of the sessions | Possible results | Afterwards |
|---|---|---|
| a consent | given before the end, or refused | none is given after the response that ended the sessions |
| a withdrawal of everything, with another password | the same | no authorization is left |
| another end of all sessions | both answer | every session has ended |
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from nodes import two_nodes
from operator_calls import operator
from page_scene import Browser, authorization, session_of
from paydesk.invariants import check
from paydesk.storage.database import Database
from service import Service

ROUNDS, AT_ONCE = 8, 4
STANDING = "SELECT count(*) FROM authorizations WHERE seller_id = $1 AND withdrawn_ms IS NULL"
OPEN = "SELECT count(*) FROM seller_sessions WHERE seller_id = $1 AND ended_ms IS NULL"

Nodes = tuple[Service, Service]


@pytest.fixture
async def nodes(database: Database, database_url: str) -> AsyncIterator[Nodes]:
    """Return the service at two nodes; on SQLite the same one twice."""
    async with two_nodes(database, database_url) as nodes:
        yield nodes


async def signed_in(service: Service) -> Browser:
    """Return a browser with a new session."""
    return Browser(service, cookies={"paydesk_session": await session_of(service)})


async def agree(seller: Browser) -> int:
    """Agree repeatedly, a few at once, until the session has ended; return the number of consents."""
    # The answer to a form that came too late takes the cookie away, and the others are still to be sent with it.
    cookies = dict(seller.cookies)

    async def some() -> int:
        given = 0
        while True:
            browser = Browser(seller.service, cookies=dict(cookies))
            asked = (await browser.get(authorization(seller.service))).forms[-1]
            if asked.action != "/authorization":
                return given
            answer = await browser.submit(asked, decision="agree")
            if answer.status != 303:
                assert answer.forms[0].action == "/sign-in"
                return given
            given += 1

    return sum(await asyncio.gather(*(some() for _ in range(AT_ONCE))))


async def test_no_consent_is_given_after_all_sessions_ended(nodes: Nodes) -> None:
    """On any node, consents given before the response count, and there are none after it."""
    here, there = nodes
    given = 0
    for number in range(ROUNDS):
        seller, elsewhere = await signed_in(here), await signed_in(there)
        form = (await seller.get("/applications")).form("/sign-out")
        agreeing = asyncio.create_task(agree(elsewhere))
        await asyncio.sleep(0.05 + number / 500)
        assert (await seller.submit(form, everywhere="yes")).status == 303
        standing = await here.scene.value(STANDING, here.seller_id)
        assert (await elsewhere.get("/applications")).form("/sign-in")
        given += await agreeing
        assert await here.scene.value(STANDING, here.seller_id) == standing
    assert given, "none was given before the end: nothing was tried"


async def test_no_authorization_is_left_when_everything_is_withdrawn(nodes: Nodes) -> None:
    """Neither an existing nor a concurrent one, and each withdrawal was notified."""
    here, there = nodes
    owner = await operator(here)
    given = 0
    for number in range(ROUNDS):
        agreeing = asyncio.create_task(agree(await signed_in(there)))
        await asyncio.sleep(number / 50)
        ended = await owner.did("POST", f"sellers/{here.seller_id}/password", {"withdraw_all": True})
        given += await agreeing
        assert ended["authorizations"] == 0
        assert await here.scene.value(STANDING, here.seller_id) == 0
    assert given, "none was given before the end: nothing was tried"
    assert await check.check(here.database, here.clock.now_ms()) == []


async def test_two_concurrent_sign_outs_everywhere(nodes: Nodes) -> None:
    """Both are answered, one perhaps with an ended session; no session is left."""
    here, there = nodes
    for _ in range(ROUNDS):
        sellers = [await signed_in(service) for service in (here, there, here, there)]
        forms = [(await seller.get("/applications")).form("/sign-out") for seller in sellers]
        pages = await asyncio.gather(
            *(seller.submit(form, everywhere="yes") for seller, form in zip(sellers, forms, strict=True))
        )
        assert min(page.status for page in pages) == 303
        assert {page.status for page in pages} <= {303, 403}
        assert await here.scene.value(OPEN, here.seller_id) == 0
