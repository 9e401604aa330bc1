"""Concurrent requests of a browser: a consent has one code, and an ended session stays ended."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial

from oauth_scene import ALL_SCOPES, REDIRECT_URI, SECOND_MS, Scene, make_scene
from paydesk.core.errors import Refusal
from paydesk.engine.oauth.consent import authorization, requests
from paydesk.engine.oauth.consent.requests import Decision
from paydesk.engine.sellers.sessions import SELLERS, Session
from paydesk.platform.storage.database import Database, Transaction

ROUNDS = 20
AT_ONCE = 64
IDLE_MS = 1800 * SECOND_MS


async def _begin(tx: Transaction, scene: Scene, password_hash: str) -> str | None:
    now_ms = scene.clock.now_ms()
    expires_ms = now_ms + 3600 * SECOND_MS
    seller_id = scene.seller.seller_id
    cookie = await SELLERS.begin(tx, seller_id, password_hash=password_hash, now_ms=now_ms, expires_ms=expires_ms)
    return None if cookie is None else cookie.reveal()


async def _reset(tx: Transaction, scene: Scene, password_hash: str) -> int:
    return await SELLERS.set_password(tx, scene.seller.seller_id, password_hash, scene.clock.now_ms())


async def _good(tx: Transaction, scene: Scene, cookie: str) -> Session | None:
    return await SELLERS.current(tx, cookie, scene.clock.now_ms(), idle_ms=IDLE_MS)


async def test_a_new_password_ends_concurrent_sign_ins(database: Database) -> None:
    """A concurrent sign-in with the old one is signed out too, or refused."""
    scene, password_hash = await make_scene(database), "none"
    seen: Counter[str] = Counter()
    for number in range(ROUNDS):
        new = f"another {number}"
        *cookies, _ = await asyncio.gather(
            *(database.write(partial(_begin, scene=scene, password_hash=password_hash)) for _ in range(4)),
            database.write(partial(_reset, scene=scene, password_hash=new)),
            *(database.write(partial(_begin, scene=scene, password_hash=password_hash)) for _ in range(4)),
        )
        password_hash = new
        for cookie in (one for one in cookies if isinstance(one, str)):
            assert await database.write(partial(_good, scene=scene, cookie=cookie)) is None
            seen["in"] += 1
        assert await database.write(partial(_begin, scene=scene, password_hash=new))
    assert seen["in"], "no sign-in came first in any round: nothing was tested"


async def test_one_page_is_answered_once(database: Database) -> None:
    """Of concurrent decisions one counts, and equal ones get its result; there is one code at most."""
    scene = await make_scene(database)
    cookie = await database.write(partial(_begin, scene=scene, password_hash="none"))
    assert cookie is not None
    session = await database.write(partial(_good, scene=scene, cookie=cookie))
    assert session is not None
    request = authorization.AuthorizationRequest(
        client_id=str(scene.application.application_id), redirect_uri=REDIRECT_URI
    )
    now_ms = scene.clock.now_ms()
    for number in range(4):
        create = partial(
            requests.create,
            session=session,
            request=request,
            scope=ALL_SCOPES,
            now_ms=now_ms,
            expires_ms=now_ms + SECOND_MS,
        )
        token = await database.write(create)
        before = await scene.value("SELECT count(*) FROM codes")
        decide = partial(
            requests.decide,
            keys=scene.keys,
            session=session,
            request_token=token,
            now_ms=now_ms,
            code_expires_ms=now_ms + 600 * SECOND_MS,
        )
        outcomes = await asyncio.gather(
            *(database.write(partial(decide, agreed=(place + number) % 2 == 0)) for place in range(AT_ONCE))
        )
        decided = [one for one in outcomes if isinstance(one, Decision)]
        assert len(decided) == AT_ONCE // 2
        assert len({one.code for one in decided}) == 1
        assert {one.kind.code for one in outcomes if isinstance(one, Refusal)} == {"request_decided"}
        codes = await scene.value("SELECT count(*) FROM codes") - before
        assert codes == (1 if decided[0].code else 0)
        assert await scene.value("SELECT count(*) FROM authorizations") == await scene.value(
            "SELECT count(*) FROM codes"
        )
