"""With concurrent requests a code is exchanged once, a refresh token has one successor, a revoked family none."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from test_operators_races import while_it_is_committed

from oauth_scene import SECOND_MS, Scene, make_scene
from paydesk.core.errors import Refusal
from paydesk.core.secrets import digest
from paydesk.engine.oauth import store, tokens
from paydesk.engine.oauth.bearer import Bearers
from paydesk.platform.operation import Answer
from paydesk.platform.storage.database import Database, Transaction

pytestmark = pytest.mark.usefixtures("batching")

MANY = 64


@pytest.fixture
async def scene(database: Database) -> Scene:
    """One application that acts for one seller."""
    return await make_scene(database)


async def revoke(scene: Scene, refresh_token: str) -> None:
    """End the family of a refresh token, as an operator or a replay does."""

    async def work(tx: Transaction) -> None:
        token = await store.find_refresh_token(tx, refresh_token)
        assert token is not None
        await store.revoke_family(
            tx, token.family.seller_id, token.family.family_id, scene.clock.now_ms(), "by the test"
        )

    await scene.database.write(work)


async def test_a_refresh_that_waits_for_a_revocation_has_no_successor(scene: Scene) -> None:
    """The UPDATE that claims the successor checks again when it gets the lock of the family."""
    refresh_token = (await scene.tokens())["refresh_token"]
    token = await scene.database.read(lambda tx: store.find_refresh_token(tx, refresh_token))
    assert token is not None
    family = token.family
    outcome = await while_it_is_committed(
        scene.database,
        lambda tx: store.revoke_family(tx, family.seller_id, family.family_id, scene.clock.now_ms(), "by the test"),
        scene.call(scene.refresh(refresh_token)),
    )
    assert isinstance(outcome, Refusal)
    assert outcome.reason == "refresh token revoked: by the test"
    assert await scene.value("SELECT generation FROM token_families") == 1


async def test_a_refresh_that_waits_for_another_nodes_refusal_is_refused(scene: Scene) -> None:
    """An expiry that another node records applies here, although this node's clock is behind."""
    refresh_token = (await scene.tokens())["refresh_token"]
    token = await scene.database.read(lambda tx: store.find_refresh_token(tx, refresh_token))
    assert token is not None
    family = token.family
    outcome = await while_it_is_committed(
        scene.database,
        lambda tx: store.expire_family(tx, family, 1, scene.clock.now_ms()),
        scene.call(scene.refresh(refresh_token)),
    )
    assert isinstance(outcome, Refusal)
    assert outcome.reason == "refresh token expired"
    assert await scene.value("SELECT generation FROM token_families") == 1


async def test_a_code_mints_once(scene: Scene) -> None:
    """Of 64 concurrent exchanges of one code exactly one returns tokens, and these are valid."""
    code = await scene.code()
    outcomes = await asyncio.gather(*(scene.call(scene.exchange(code)) for _ in range(MANY)))
    answers = [outcome for outcome in outcomes if isinstance(outcome, Answer)]
    reasons = Counter(outcome.reason for outcome in outcomes if isinstance(outcome, Refusal))
    assert len(answers) == 1
    assert reasons == {"code exchanged already": MANY - 1}
    assert await scene.value("SELECT count(*) FROM token_families") == 1
    caller = await Bearers(scene.database, 0).caller(answers[0].body["access_token"], scene.clock.now_ms())
    assert caller.seller_id == scene.seller.seller_id
    await scene.answer(scene.refresh(answers[0].body["refresh_token"]))


async def test_a_refresh_token_has_one_successor(scene: Scene) -> None:
    """64 concurrent refreshes of one token return the same tokens 64 times."""
    refresh = scene.refresh((await scene.tokens())["refresh_token"])
    answers = await asyncio.gather(*(scene.answer(refresh) for _ in range(MANY)))
    assert all(answer == answers[0] for answer in answers)
    assert await scene.value("SELECT generation FROM token_families") == 2
    assert await scene.value("SELECT count(*) FROM access_tokens") == 2
    await scene.answer(scene.refresh(answers[0]["refresh_token"]))


async def test_scopes_that_differ_do_not_make_two_successors(scene: Scene) -> None:
    """Of two concurrent scopes one wins, the other is invalid_scope, and nothing is revoked."""
    refresh_token = (await scene.tokens())["refresh_token"]
    bodies = [scene.refresh(refresh_token, scope=scope) for scope in ("read", "write") * 16]
    outcomes = await asyncio.gather(*(scene.call(body) for body in bodies))
    answered = {outcome.body["scope"] for outcome in outcomes if isinstance(outcome, Answer)}
    refused = {outcome.kind.code for outcome in outcomes if isinstance(outcome, Refusal)}
    assert len(answered) == 1
    assert refused == {"invalid_scope"}
    assert await scene.value("SELECT revoked_ms FROM token_families") is None


async def test_refresh_and_revoke_exclude_each_other(scene: Scene) -> None:
    """After a revocation no token of the family is valid, whichever came first."""
    for _ in range(8):
        first = await scene.tokens()
        refreshes = [scene.call(scene.refresh(first["refresh_token"])) for _ in range(4)]
        outcomes = await asyncio.gather(*refreshes[:2], revoke(scene, first["refresh_token"]), *refreshes[2:])
        minted = [first, *(outcome.body for outcome in outcomes if isinstance(outcome, Answer))]
        for body in minted:
            assert (await scene.refusal(scene.refresh(body["refresh_token"])))[1].startswith("refresh token revoked")
            with pytest.raises(Refusal, match="revoked"):
                await Bearers(scene.database, 0).caller(body["access_token"], scene.clock.now_ms())


async def test_concurrent_replays_revoke_the_family_once(scene: Scene) -> None:
    """Each is refused, the reason is recorded once, and the newest token is invalid."""
    first = await scene.tokens()
    second = await scene.answer(scene.refresh(first["refresh_token"]))
    third = await scene.answer(scene.refresh(second["refresh_token"]))
    scene.clock.advance(60 * SECOND_MS)
    replays = [scene.call(scene.refresh(first["refresh_token"])) for _ in range(MANY)]
    outcomes = await asyncio.gather(*replays, scene.call(scene.refresh(third["refresh_token"])))
    assert all(isinstance(outcome, Refusal) for outcome in outcomes[:MANY])
    assert await scene.value("SELECT revoked_reason FROM token_families") == "refresh token replayed"
    assert (await scene.refusal(scene.refresh(third["refresh_token"])))[0] == "invalid_grant"


async def test_a_token_expired_at_one_node_is_not_refreshed_at_another(scene: Scene) -> None:
    """With different clocks: either it was refreshed before the refusal, or it stays refused."""
    now_ms = scene.clock.now_ms()
    for _ in range(8):
        refresh = scene.refresh((await scene.tokens())["refresh_token"])
        late_ms = now_ms + 181 * 86_400 * SECOND_MS
        early, late = await asyncio.gather(scene.call(refresh, now_ms), scene.call(refresh, late_ms))
        again = await scene.call(refresh, now_ms)
        if isinstance(late, Refusal):
            assert isinstance(early, Refusal)
            assert isinstance(again, Refusal)
        else:
            assert isinstance(early, Answer)
            assert isinstance(again, Answer)
            assert again.body["refresh_token"] == early.body["refresh_token"]


async def test_concurrent_refreshes_of_two_generations_keep_one_family(scene: Scene) -> None:
    """Processes that are a generation apart end with tokens of one family, and none is refused."""
    first = await scene.tokens()
    second = await scene.answer(scene.refresh(first["refresh_token"]))
    bodies = [scene.refresh(token["refresh_token"]) for token in (first, second) for _ in range(16)]
    answers = await asyncio.gather(*(scene.answer(body) for body in bodies))
    assert {answer["refresh_token"] for answer in answers[:16]} == {second["refresh_token"]}
    assert len({answer["refresh_token"] for answer in answers[16:]}) == 1
    newest = answers[16]["refresh_token"]
    assert tokens.seller_of_code(newest) == scene.seller.seller_id
    assert await scene.value("SELECT generation FROM refresh_tokens WHERE digest = $1", digest(newest)) == 3
