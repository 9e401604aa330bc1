"""A seller allows an application to act for them: signs in, agrees or refuses, and the browser goes back to it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from oauth_scene import CHALLENGE, REDIRECT_URI, VERIFIER
from page_scene import STATE, authorization, browser
from paydesk.settings import Settings
from paydesk.storage.database import Database
from service import Service, running

ISSUER = "http://127.0.0.1"


@pytest.fixture
async def service(database: Database) -> AsyncIterator[Service]:
    """A service that knows its own address."""
    async with running(database, settings=Settings(public_url=ISSUER), workers=False) as service:
        yield service


async def test_a_seller_agrees(service: Service) -> None:
    """Signed in and asked, they agree; the application is given a code with state and iss, and its tokens for it."""
    seller = await browser(service)
    path = authorization(service, code_challenge=CHALLENGE, code_challenge_method="s256", scope="write read")
    answer = await seller.sign_in(path)
    assert answer.location == "/authorization?" + answer.location.partition("?")[2]
    page = await seller.get(answer.location)
    assert page.status == 200
    assert "Till" in page.text
    assert "till.example" in page.text
    agreed = await seller.submit(page.form("/authorization"), decision="agree")
    assert agreed.location.startswith(f"{REDIRECT_URI}?code=TG-")
    assert (agreed.query["state"], agreed.query["iss"]) == (STATE, ISSUER)
    body = service.scene.exchange(agreed.query["code"], code_verifier=VERIFIER)
    reply = await service.request("POST", "/oauth/token", body, token=None, key=None)
    assert (reply.status, reply.body["scope"], reply.body["user_id"]) == (200, "read write", service.seller_id)


async def test_a_seller_refuses(service: Service) -> None:
    """The application is told so, with its state, and is allowed nothing."""
    seller = await browser(service)
    refused = await seller.submit(await seller.consent(), decision="refuse")
    assert refused.query == {
        "error": "access_denied",
        "error_description": "The seller refused.",
        "state": STATE,
        "iss": ISSUER,
    }
    assert await service.scene.value("SELECT count(*) FROM codes WHERE seller_id = $1", service.seller_id) == 0
