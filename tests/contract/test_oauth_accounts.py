"""Applications, their secrets, and sellers, as an operator manages them."""

from __future__ import annotations

import pytest

from oauth_scene import ALL_SCOPES, REDIRECT_URI, START_MS, Scene, authorizations_of, make_scene
from paydesk.engine.oauth import authorizations
from paydesk.engine.oauth.clients import applications
from paydesk.engine.sellers import store as sellers
from paydesk.engine.sellers.sessions import SELLERS
from paydesk.engine.sellers.store import Seller
from paydesk.platform.storage.database import Transaction


async def test_an_application_is_found_as_created(scene: Scene) -> None:
    """By its client_id, and in the list."""
    application_id = scene.application.application_id
    assert await scene.database.read(lambda tx: applications.get(tx, application_id)) == scene.application
    assert await scene.database.read(applications.find_all) == [scene.application]
    assert await scene.database.read(lambda tx: applications.get(tx, 1)) is None
    assert scene.application.redirect_uris == (REDIRECT_URI,)


async def test_an_application_changes(scene: Scene) -> None:
    """Every field that an operator may change; an unknown application is not changed."""

    async def work(tx: Transaction) -> list[bool]:
        return [
            await applications.change(
                tx,
                application_id,
                name="Other",
                redirect_uris=(REDIRECT_URI, "https://b.example/"),
                scopes="read",
                pkce_required=True,
                on_replay="refuse",
                test_tokens=True,
            )
            for application_id in (scene.application.application_id, 1)
        ]

    assert await scene.database.write(work) == [True, False]
    (changed,) = await scene.database.read(applications.find_all)
    assert (changed.name, changed.scopes, changed.pkce_required, changed.on_replay) == ("Other", "read", True, "refuse")
    assert changed.test_tokens is True
    assert changed.redirect_uris == (REDIRECT_URI, "https://b.example/")


async def test_two_secrets_are_valid_during_a_rotation(scene: Scene) -> None:
    """Until the older one expires."""
    application_id = scene.application.application_id
    refresh = scene.refresh((await scene.tokens())["refresh_token"])
    known, secret = await scene.database.write(lambda tx: applications.add_secret(tx, application_id, START_MS + 1))
    assert len(secret.reveal()) * 4 >= 160
    rotated = {**refresh, "client_secret": secret.reveal()}
    for body in (refresh, rotated):
        await scene.answer(body)
    older, newer = await scene.database.read(lambda tx: applications.find_secrets(tx, application_id))
    assert newer == known
    ends_ms = scene.clock.now_ms()
    expire = [
        await scene.database.write(lambda tx: applications.expire_secret(tx, application_id, older.secret_id, ends_ms))
        for _ in range(2)
    ]
    assert expire == [True, False]
    assert await scene.refusal(refresh) == ("invalid_client", "secret expired")
    await scene.answer(rotated)


@pytest.mark.on_postgres
async def test_an_email_address_is_unique(scene: Scene) -> None:
    """Case-insensitively; the seller signs in with it."""

    async def create(tx: Transaction, email: str) -> Seller | None:
        return await sellers.create(
            tx, email=email, name="Two", country="CHL", currency="CLP", password_hash="hash", now_ms=START_MS
        )

    seller = await scene.database.write(lambda tx: create(tx, "Two@shop.example"))
    assert seller is not None
    assert await scene.database.write(lambda tx: create(tx, "two@SHOP.example")) is None
    found = await scene.database.read(lambda tx: SELLERS.find(tx, "TWO@shop.example"))
    assert found == (seller.seller_id, "hash", None)
    assert await scene.database.read(lambda tx: sellers.get(tx, seller.seller_id)) == seller
    assert {one.seller_id for one in await scene.database.read(sellers.find_all)} == {
        seller.seller_id,
        scene.seller.seller_id,
    }


@pytest.mark.on_postgres
async def test_a_seller_changes(scene: Scene) -> None:
    """Name and address; an address of another seller is refused."""
    other = await make_scene(scene.database)
    seller_id = scene.seller.seller_id

    async def change(tx: Transaction, email: str) -> bool:
        return await sellers.change(tx, seller_id, email=email, name="New")

    assert await scene.database.write(lambda tx: change(tx, other.seller.email)) is False
    assert await scene.database.write(lambda tx: change(tx, "new@shop.example")) is True
    changed = await scene.database.read(lambda tx: sellers.get(tx, seller_id))
    assert changed is not None
    assert (changed.name, changed.email) == ("New", "new@shop.example")


async def test_a_second_authorization_adds_to_the_first(scene: Scene) -> None:
    """The earlier tokens stay valid, and withdrawing one authorization leaves the other."""
    first, second = await scene.tokens(), await scene.tokens()
    seller_id = scene.seller.seller_id
    granted = await scene.database.read(lambda tx: authorizations_of(tx, seller_id))
    assert [authorization.scope for authorization in granted] == [ALL_SCOPES] * 2
    one = granted[0].authorization_id
    withdraw = [
        await scene.database.write(
            lambda tx: authorizations.withdraw(tx, seller_id=seller_id, authorization_id=one, now_ms=START_MS)
        )
        for _ in range(2)
    ]
    assert withdraw == [True, False]
    outcomes = [type(await scene.call(scene.refresh(tokens["refresh_token"]))).__name__ for tokens in (first, second)]
    assert sorted(outcomes) == ["Answer", "Refusal"]
    found = await scene.database.read(lambda tx: authorizations.get(tx, seller_id, one))
    assert found is not None
    assert found.withdrawn_ms == START_MS
