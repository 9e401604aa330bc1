"""Sellers and operators sign in by the same rules: limits of guesses, the queue of hashes, and whose session ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from operator_calls import Operator, operator
from operator_people import PASSWORD, SIGN_IN, begin_session, make_person, sign_in_page, signed_in
from page_scene import PASSWORD as SELLERS_PASSWORD
from page_scene import Browser, Page, browser
from paydesk.console.sessions import OPERATORS
from paydesk.engine.sellers import passwords
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from service import Service, running

EMAIL = "eva@shop.example"
AT_ONCE = 8
KINDS = ["seller", "operator"]


@pytest.fixture
async def service(database: Database) -> AsyncIterator[Service]:
    """A service that allows two failures of an account from one address, with a seller and an operator."""
    async with running(database, settings=Settings(sign_in_failures_per_hour=2), workers=False) as service:
        await browser(service)
        await make_person(service, email=EMAIL)
        yield service


async def _tries(service: Service, kind: str, password: str, count: int) -> list[Page]:
    """Send a sign-in form so many times at once."""
    opened, path = Browser(service), "/sign-in" if kind == "seller" else SIGN_IN
    form = (await opened.get(path)).form(path)
    email = service.scene.seller.email if kind == "seller" else EMAIL
    return await asyncio.gather(*(opened.submit(form, email=email, password=password) for _ in range(count)))


def _right(kind: str) -> str:
    return SELLERS_PASSWORD if kind == "seller" else PASSWORD


@pytest.mark.parametrize("kind", KINDS)
async def test_guesses_at_the_same_time_can_not_pass_a_limit_together(service: Service, kind: str) -> None:
    """Each counts from its beginning, not when its password was found to be wrong."""
    pages = await _tries(service, kind, "wrong", AT_ONCE)
    assert Counter(page.status for page in pages) == {403: 2, 429: AT_ONCE - 2}
    assert [page.status for page in await _tries(service, kind, _right(kind), 1)] == [429]


async def test_guesses_of_the_own_password_can_not_pass_the_limit_together(service: Service) -> None:
    """A stolen session gets no more of them than a sign-in; the right password takes its count back."""
    eva = await make_person(service, email="eva-2@shop.example")
    session = Operator(service, eva.operator_id, await begin_session(service, eva.operator_id))
    for password in ("short", PASSWORD, "eva-2@shop.example"):
        body = {"current_password": PASSWORD, "password": password}
        assert await session.refused("POST", "password", body) == (400, "property_value")
    body = {"current_password": "x", "password": "quite different words in a row"}
    replies = await asyncio.gather(*(session.ask("POST", "password", body) for _ in range(AT_ONCE)))
    assert Counter(reply.status for reply in replies) == {403: 2, 429: AT_ONCE - 2}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_sign_in_that_finds_the_queue_full_is_not_counted(
    service: Service, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Its password was not compared: whatever an attacker queues, the limit is left for the account."""
    monkeypatch.setattr(passwords, "UNKNOWN_ORIGIN_QUEUE_MAX", -OPERATORS.reserved)
    for _ in range(2):
        assert {page.status for page in await _tries(service, kind, _right(kind), 2)} == {503}
    monkeypatch.undo()
    assert [page.status for page in await _tries(service, kind, _right(kind), 1)] == [303]


async def test_operators_sign_in_while_sellers_fill_the_queue(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also at a new address: a flood of the public page is the time at which they are needed."""
    monkeypatch.setattr(passwords, "UNKNOWN_ORIGIN_QUEUE_MAX", 0)
    assert [page.status for page in await _tries(service, "seller", SELLERS_PASSWORD, 1)] == [503]
    assert [page.status for page in await _tries(service, "operator", PASSWORD, 1)] == [303]


@pytest.mark.on_postgres
async def test_a_new_password_by_link_ends_the_browsers_session_of_another_operator(service: Service) -> None:
    """The browser goes on as the operator of the link, with a new session; of the earlier one nothing is left."""
    owner, ana = await operator(service), await make_person(service, email="ana@shop.example")
    opened = Browser(service)
    await sign_in_page(opened, ana.email)
    earlier = dict(opened.cookies)
    eva = await owner.did("POST", "operators", {"name": "Evaline", "role": "viewer", "email": "evaline@shop.example"})
    path = eva["password_url"][eva["password_url"].index("/console/") :]
    assert (await opened.submit((await opened.get(path)).form(path), password=PASSWORD)).status == 303
    assert "evaline@shop.example" in (await opened.get("/console/account")).text
    assert not await signed_in(Browser(service, cookies=earlier))
