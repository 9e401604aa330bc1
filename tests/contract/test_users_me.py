"""GET /users/me: the seller of an access token."""

from __future__ import annotations

import asyncio

import mercadopago
import pytest
from mercadopago.config.config import Config

from accounts import other_seller, with_scope
from service import Service
from tables import each

COUNTRIES = (
    ("BRA", "BR", "MLB"),
    ("ARG", "AR", "MLA"),
    ("MEX", "MX", "MLM"),
    ("CHL", "CL", "MLC"),
    ("COL", "CO", "MCO"),
    ("URY", "UY", "MLU"),
    ("PER", "PE", "MPE"),
)


async def test_the_seller_of_the_token_is_returned(service: Service) -> None:
    """With the number that the token response has as `user_id`, and without the e-mail address."""
    seller = service.scene.seller
    expected = {"id": seller.seller_id, "nickname": seller.name, "country_id": "BR", "site_id": "MLB"}
    for token, tags in ((service.access_token, ["test_user"]), (service.live_access_token, [])):
        reply = await service.request("GET", "/users/me", token=token)
        assert (reply.status, reply.body) == (200, {**expected, "tags": tags})
        assert list(reply.body) == ["id", "nickname", "country_id", "site_id", "tags"]
    assert seller.email not in reply.raw.decode()


async def test_another_seller_gets_its_own(service: Service) -> None:
    """The token decides, nothing else."""
    other = await other_seller(service)
    reply = await service.request("GET", f"/users/me?id={service.seller_id}", token=other.access_token)
    assert reply.body["id"] == other.seller_id != service.seller_id


@each("stored, country, site", COUNTRIES)
async def test_the_country_has_two_letters_and_a_site(service: Service, stored: str, country: str, site: str) -> None:
    """Sellers are stored with three letters."""
    await service.scene.run("UPDATE sellers SET country = $2 WHERE seller_id = $1", service.seller_id, stored)
    body = (await service.request("GET", "/users/me")).body
    assert (body["country_id"], body["site_id"]) == (country, site)


async def test_a_country_without_a_site_is_omitted(service: Service) -> None:
    """Instead of null."""
    await service.scene.run("UPDATE sellers SET country = 'USA' WHERE seller_id = $1", service.seller_id)
    assert set((await service.request("GET", "/users/me")).body) == {"id", "nickname", "tags"}


async def test_a_changed_name_is_returned_at_once(service: Service) -> None:
    """Nothing of the seller is cached with the token."""
    await service.request("GET", "/users/me")
    await service.scene.run("UPDATE sellers SET name = 'Mercearia Ção' WHERE seller_id = $1", service.seller_id)
    assert (await service.request("GET", "/users/me")).body["nickname"] == "Mercearia Ção"


async def test_the_scope_read_is_required(service: Service) -> None:
    """A token with `write` alone is refused, and so is none."""
    reply = await service.request("GET", "/users/me", token=await with_scope(service, "write"))
    assert (reply.status, reply.code) == (403, "insufficient_scope")
    assert (await service.request("GET", "/users/me", token=None)).status == 401


@pytest.mark.on_postgres
async def test_a_deleted_seller_has_no_valid_token(service: Service) -> None:
    """Even while this node still remembers the token."""
    assert (await service.request("GET", "/users/me")).status == 200
    await service.scene.run("DELETE FROM sellers WHERE seller_id = $1", service.seller_id)
    reply = await service.request("GET", "/users/me")
    assert (reply.status, reply.code) == (401, "unauthorized")


async def test_the_official_client_gets_the_user(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Python: its connection test."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(Config, "_Config__api_base_url", service.base_url)
    answer = await asyncio.to_thread(mercadopago.SDK(service.access_token).user().get)
    assert (answer["status"], answer["response"]["id"]) == (200, service.seller_id)
