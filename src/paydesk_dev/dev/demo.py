"""The demo data of `paydesk dev`: two applications with a subscription each, a seller with a store and four terminals.

It is created in one transaction and found by its names at later starts.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

import msgspec

from paydesk.core.keys import Keys
from paydesk.engine.oauth.clients import applications
from paydesk.engine.oauth.clients.authentication import Application
from paydesk.engine.sellers import store as sellers
from paydesk.engine.sellers.sessions import SELLERS
from paydesk.engine.sellers.store import Seller
from paydesk.engine.terminals import store as terminals
from paydesk.engine.terminals import stores
from paydesk.engine.terminals.store import Terminal
from paydesk.engine.webhooks.schemas import TOPIC
from paydesk.engine.webhooks.subscriptions import store as subscriptions
from paydesk.engine.webhooks.subscriptions.store import Subscription
from paydesk.platform.storage.database import Transaction
from paydesk_dev.inbox.receiver import PATH as INBOX
from paydesk_dev.scenes import CALLBACK, NO_PASSWORD, SCOPES
from paydesk_dev.virtual.scripts.scripts import MANUAL

APPLICATION, TEST_APPLICATION = "Demo POS", "Demo POS (test tokens)"
"""The second is for clients that cannot send `test_token`: it gets test tokens without it."""
EMAIL = "seller@demo.example"
OPERATOR_EMAIL = "operator@demo.example"
SELLER, COUNTRY, CURRENCY = "Demo seller", "BRA", "BRL"
STORE = "Demo store"
POS_COUNT = 3
SCRIPT = "approve"
COUNTER_POS = "DEMOCOUNTER"
"""The point of sale of the terminal that a person or a test plays."""

UPDATE_URL = "UPDATE subscriptions SET url = $2 WHERE subscription_id = $1 AND url <> $2"


@dataclass(frozen=True, slots=True)
class Demo:
    """The demo data."""

    application: Application
    test_application: Application
    seller: Seller
    terminals: tuple[Terminal, ...]
    subscription: Subscription


async def find_or_create(tx: Transaction, base_url: str, keys: Keys, now_ms: int) -> Demo:
    """Return the demo data, creating what is missing and updating its URLs to `base_url`.

    Its secrets are created when the credentials file is written.
    """
    application = await _application(tx, APPLICATION, base_url, now_ms)
    test_application = await _application(tx, TEST_APPLICATION, base_url, now_ms)
    account = await SELLERS.find(tx, EMAIL)
    seller = await sellers.get(tx, account.account_id) if account is not None else None
    if seller is None:
        names = {"email": EMAIL, "name": SELLER, "country": COUNTRY, "currency": CURRENCY}
        seller = await sellers.create(tx, **names, password_hash=NO_PASSWORD, now_ms=now_ms)
        assert seller is not None, "the e-mail address was free in this transaction"
    subscription = await _subscription(tx, application, base_url, keys, now_ms)
    await _subscription(tx, test_application, base_url, keys, now_ms)
    # The terminal at the counter is created if none is there, the three with a script if no other virtual one is left.
    counter = await stores.by_external_id(tx, seller.seller_id, COUNTER_POS)
    existing = await _virtual(tx, seller.seller_id)
    if all(counter is not None and terminal.pos_id == counter.pos_id for terminal in existing):
        for number in range(1, POS_COUNT + 1):
            await _fill_pos(tx, seller.seller_id, f"DEMOPOS{number}", f"Demo POS {number}", SCRIPT, now_ms)
    await _fill_pos(tx, seller.seller_id, COUNTER_POS, "Counter", MANUAL, now_ms)
    # Those played by hand are the last.
    terminals_now = sorted(
        await _virtual(tx, seller.seller_id), key=lambda one: (one.script == MANUAL, one.created_ms, one.terminal_id)
    )
    return Demo(application, test_application, seller, tuple(terminals_now), subscription)


async def find_seller_id(tx: Transaction) -> int:
    """Return the id of the demo seller, 0 without one."""
    account = await SELLERS.find(tx, EMAIL)
    return account.account_id if account is not None else 0


async def _application(tx: Transaction, name: str, base_url: str, now_ms: int) -> Application:
    """Return the application, created if it is missing, with the demo callback as its first redirect URI."""
    redirect_uri, is_for_tests = base_url + CALLBACK, name == TEST_APPLICATION
    application = next((one for one in await applications.find_all(tx) if one.name == name), None)
    if application is None:
        application, _ = await applications.create(
            tx, name=name, redirect_uris=(redirect_uri,), scopes=SCOPES, now_ms=now_ms, test_tokens=is_for_tests
        )
        return application
    uris = application.redirect_uris
    if uris[0] != redirect_uri:
        uris = (redirect_uri, *(uri for uri in uris if not uri.endswith(CALLBACK)))
    test_tokens = is_for_tests or application.test_tokens
    changed = msgspec.structs.replace(application, redirect_uris=uris, test_tokens=test_tokens)
    if changed == application:
        return application
    await applications.change(
        tx,
        application.application_id,
        name=changed.name,
        redirect_uris=changed.redirect_uris,
        scopes=changed.scopes,
        pkce_required=changed.pkce_required,
        on_replay=changed.on_replay,
        test_tokens=changed.test_tokens,
    )
    return changed


async def _subscription(
    tx: Transaction, application: Application, base_url: str, keys: Keys, now_ms: int
) -> Subscription:
    """Return the subscription to the demo inbox, created if it is missing, with its current URL."""
    url = base_url + INBOX
    for one in await subscriptions.listed(tx, "", sys.maxsize):
        if (one.application_id, one.topic) == (application.application_id, TOPIC) and one.url.endswith(INBOX):
            await tx.run(UPDATE_URL, one.subscription_id, url)
            return replace(one, url=url)
    created, _ = await subscriptions.create(
        tx, keys, application_id=application.application_id, live=False, url=url, actions=(), now_ms=now_ms
    )
    return created


async def _virtual(tx: Transaction, seller_id: int) -> list[Terminal]:
    return [terminal for terminal in await terminals.of_seller(tx, seller_id) if terminal.is_virtual]


async def _fill_pos(tx: Transaction, seller_id: int, external_pos_id: str, name: str, script: str, now_ms: int) -> None:
    """Create a virtual terminal at the point of sale, which is created if needed, unless it has a terminal."""
    pos = await stores.by_external_id(tx, seller_id, external_pos_id)
    if pos is None:
        existing = await stores.stores(tx, seller_id)
        store = existing[0] if existing else await stores.create_store(tx, seller_id, STORE, now_ms)
        pos = await stores.create_pos(tx, seller_id, store.store_id, external_pos_id, name, now_ms)
    assert pos is not None, "the external id is free"
    if await stores.terminals_on(tx, seller_id, pos.pos_id):
        return
    await terminals.create(
        tx,
        seller_id=seller_id,
        pos_id=pos.pos_id,
        # This id comes last in lists: who takes the first terminal gets one that plays by itself.
        terminal_id=terminals.virtual_id("MANUAL" if script == MANUAL else ""),
        live=False,
        now_ms=now_ms,
        is_virtual=True,
        operating_mode="PDV",
        script=script,
    )
