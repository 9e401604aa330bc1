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
from paydesk.engine.invariants import check
from paydesk.platform.storage.database import Database
from service import Service
from waiting import until

ROUNDS, AT_ONCE = 6, 4
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


class Agreeing:
    """Consents of a seller, a few at once, again and again until the session has ended; `given`: how many so far."""

    def __init__(self, seller: Browser) -> None:
        self.given = 0
        self._service = seller.service
        # The answer to a form that came too late takes the cookie away, and the others are still to be sent with it.
        self._cookies = dict(seller.cookies)
        self.ended = asyncio.gather(*(self._agree() for _ in range(AT_ONCE)))

    async def _agree(self) -> None:
        while True:
            browser = Browser(self._service, cookies=dict(self._cookies))
            asked = (await browser.get(authorization(self._service))).forms[-1]
            if asked.action != "/authorization":
                return
            answer = await browser.submit(asked, decision="agree")
            if answer.status != 303:
                assert answer.forms[0].action == "/sign-in"
                return
            self.given += 1


async def test_no_consent_is_given_after_all_sessions_ended(nodes: Nodes) -> None:
    """On any node, consents given before the response count, and there are none after it."""
    here, there = nodes
    for number in range(ROUNDS):
        seller, elsewhere = await signed_in(here), await signed_in(there)
        form = (await seller.get("/applications")).form("/sign-out")
        agreeing = Agreeing(elsewhere)
        await until(lambda: agreeing.given >= number)  # noqa: B023 - called in this round
        assert (await seller.submit(form, everywhere="yes")).status == 303
        standing = await here.scene.value(STANDING, here.seller_id)
        assert (await elsewhere.get("/applications")).form("/sign-in")
        await agreeing.ended
        assert await here.scene.value(STANDING, here.seller_id) == standing


async def test_no_authorization_is_left_when_everything_is_withdrawn(nodes: Nodes) -> None:
    """Neither an existing nor a concurrent one, and each withdrawal was notified."""
    here, there = nodes
    owner = await operator(here)
    for number in range(ROUNDS):
        agreeing = Agreeing(await signed_in(there))
        await until(lambda: agreeing.given >= number)  # noqa: B023 - called in this round
        ended = await owner.did("POST", f"sellers/{here.seller_id}/password", {"withdraw_all": True})
        await agreeing.ended
        assert ended["authorizations"] == 0
        assert await here.scene.value(STANDING, here.seller_id) == 0
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
