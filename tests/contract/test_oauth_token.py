"""POST /oauth/token: the answers, with their schema and lifetimes."""

from __future__ import annotations

import re
from typing import Any

import pytest

from oauth_scene import ALL_SCOPES, CHALLENGE, DAY_MS, SECOND_MS, VERIFIER, Scene, make_scene
from paydesk.core.keys import KeyMissing, Keys
from paydesk.engine.oauth import authorizations, handlers, tokens
from paydesk.engine.oauth.tokens import Lifetimes
from paydesk.platform.operation import Call, Caller
from paydesk.platform.operator_events import OperatorEvent
from paydesk.platform.storage.database import Database
from paydesk.platform.storage.postgres.transaction import PostgresTransaction


async def test_an_exchange_answers_every_field(scene: Scene) -> None:
    """The first tokens, with the fields in the order of the interface."""
    body = await scene.tokens()
    assert list(body) == [
        "access_token",
        "token_type",
        "expires_in",
        "scope",
        "user_id",
        "refresh_token",
        "public_key",
        "live_mode",
    ]
    client_id, seller_id = scene.application.application_id, scene.seller.seller_id
    assert re.fullmatch(rf"APP_USR-{client_id}-013114-[0-9a-f]{{32}}-{seller_id}", body["access_token"])
    assert re.fullmatch(rf"TG-[0-9a-f]{{40}}-{seller_id}", body["refresh_token"])
    assert body["token_type"] == "bearer"
    assert body["expires_in"] == 15_552_000
    assert body["scope"] == ALL_SCOPES
    assert body["user_id"] == seller_id
    assert body["public_key"] == scene.application.public_key_live
    assert body["live_mode"] is True


@pytest.mark.parametrize(
    ("test_token", "live"), [("true", False), (True, False), ("false", True), (False, True)], ids=repr
)
async def test_test_token_decides_the_mode(scene: Scene, test_token: Any, *, live: bool) -> None:
    """The mode is in the prefix, the public key and live_mode."""
    body = await scene.tokens(test_token=test_token)
    assert body["live_mode"] is live
    assert body["access_token"].startswith("APP_USR-" if live else "TEST-")
    assert body["public_key"] == scene.application.public_key(live=live)


async def test_client_id_may_be_a_number(scene: Scene) -> None:
    """Some clients send client_id as a JSON number."""
    await scene.tokens(client_id=scene.application.application_id)


async def test_a_matching_verifier_is_accepted(scene: Scene) -> None:
    """A code with a challenge is exchanged with its verifier."""
    await scene.answer(scene.exchange(await scene.code(challenge=CHALLENGE), code_verifier=VERIFIER))


async def test_empty_parameters_count_as_missing(scene: Scene) -> None:
    """A client that sends every parameter is not refused for empty ones."""
    body = await scene.tokens(refresh_token="", code_verifier="", scope="")
    assert body["scope"] == ALL_SCOPES


async def test_without_offline_access_there_is_no_refresh_token(scene: Scene) -> None:
    """No refresh token is returned or stored."""
    body = await scene.answer(scene.exchange(await scene.code(scope="write read")))
    assert body["scope"] == "read write"
    assert "refresh_token" not in body
    assert await scene.value("SELECT count(*) FROM refresh_tokens") == 0


async def test_scope_narrows_the_family_on_exchange(scene: Scene) -> None:
    """A scope left out on exchange can't be regained by a refresh."""
    body = await scene.tokens(scope="read offline_access")
    assert body["scope"] == "offline_access read"
    assert (await scene.refusal(scene.refresh(body["refresh_token"], scope="read write")))[0] == "invalid_scope"
    assert (await scene.answer(scene.refresh(body["refresh_token"])))["scope"] == "offline_access read"


async def test_scope_narrows_one_access_token_on_refresh(scene: Scene) -> None:
    """The next refresh has all of the family's scopes again."""
    first = await scene.tokens()
    second = await scene.answer(scene.refresh(first["refresh_token"], scope="read"))
    assert second["scope"] == "read"
    third = await scene.answer(scene.refresh(second["refresh_token"]))
    assert third["scope"] == ALL_SCOPES


async def test_a_refresh_makes_new_tokens(scene: Scene) -> None:
    """The successor differs in both tokens, has its own lifetime and keeps the mode."""
    first = await scene.tokens(test_token=True)
    scene.clock.advance(DAY_MS)
    second = await scene.answer(scene.refresh(first["refresh_token"], test_token="true"))
    assert second["access_token"] != first["access_token"]
    assert second["refresh_token"] != first["refresh_token"]
    assert "-020114-" in second["access_token"]
    assert second["expires_in"] == 15_552_000
    assert second["live_mode"] is False


async def test_a_retry_answers_the_same_tokens(scene: Scene) -> None:
    """However late, while the successor is unused, with the remaining lifetime."""
    first = await scene.tokens()
    second = await scene.answer(scene.refresh(first["refresh_token"]))
    scene.clock.advance(DAY_MS)
    assert await scene.answer(scene.refresh(first["refresh_token"])) == {**second, "expires_in": 15_552_000 - 86_400}


@pytest.mark.on_postgres
async def test_a_retry_after_expiry_has_expires_in_0(scene: Scene) -> None:
    """A used token retried after its successor's expiry still returns it."""
    first = await scene.tokens()
    second = await scene.answer(scene.refresh(first["refresh_token"]))
    scene.clock.advance(200 * DAY_MS)
    assert await scene.answer(scene.refresh(first["refresh_token"])) == {**second, "expires_in": 0}
    assert await scene.refusal(scene.refresh(second["refresh_token"])) == ("invalid_grant", "refresh token expired")


async def test_a_retry_is_answered_for_a_minute_after_the_successors_refresh(scene: Scene) -> None:
    """In the last millisecond it still returns the successor, without effect on the newest tokens."""
    first = await scene.tokens()
    second = await scene.answer(scene.refresh(first["refresh_token"]))
    third = await scene.answer(scene.refresh(second["refresh_token"]))
    scene.clock.advance(60 * SECOND_MS - 1)
    assert (await scene.answer(scene.refresh(first["refresh_token"])))["access_token"] == second["access_token"]
    assert (await scene.answer(scene.refresh(second["refresh_token"])))["access_token"] == third["access_token"]
    await scene.answer(scene.refresh(third["refresh_token"]))


async def test_a_replay_revokes_the_family(scene: Scene) -> None:
    """One minute after the successor's own refresh, reuse of the token is a replay."""
    first = await scene.tokens()
    second = await scene.answer(scene.refresh(first["refresh_token"]))
    third = await scene.answer(scene.refresh(second["refresh_token"]))
    scene.clock.advance(60 * SECOND_MS)
    assert await scene.refusal(scene.refresh(first["refresh_token"])) == ("invalid_grant", "refresh token replayed")
    for token in (first, second, third):
        refused = await scene.refusal(scene.refresh(token["refresh_token"]))
        assert refused == ("invalid_grant", "refresh token revoked: refresh token replayed")


async def test_a_replay_is_only_refused_with_on_replay_refuse(database: Database) -> None:
    """The newest token stays valid."""
    scene = await make_scene(database, on_replay="refuse")
    first = await scene.tokens()
    second = await scene.answer(scene.refresh(first["refresh_token"]))
    third = await scene.answer(scene.refresh(second["refresh_token"]))
    scene.clock.advance(DAY_MS)
    assert await scene.refusal(scene.refresh(first["refresh_token"])) == ("invalid_grant", "refresh token replayed")
    await scene.answer(scene.refresh(third["refresh_token"]))


async def test_a_retry_with_another_scope_revokes_nothing(scene: Scene) -> None:
    """It is invalid_scope; the same scopes in another order are the same scope."""
    first = await scene.tokens()
    second = await scene.answer(scene.refresh(first["refresh_token"], scope="write read"))
    for scope in ("read", ALL_SCOPES):
        refused = await scene.refusal(scene.refresh(first["refresh_token"], scope=scope))
        assert refused == ("invalid_scope", "retried with another scope")
    assert (await scene.refusal(scene.refresh(first["refresh_token"])))[0] == "invalid_scope"
    assert await scene.answer(scene.refresh(first["refresh_token"], scope="read write")) == second


async def test_a_code_reused_within_10_s_is_only_refused(scene: Scene) -> None:
    """It counts as a retry of a browser or network: the tokens stay valid."""
    code = await scene.code()
    tokens_body = await scene.answer(scene.exchange(code))
    scene.clock.advance(10 * SECOND_MS - 1)
    assert await scene.refusal(scene.exchange(code)) == ("invalid_grant", "code exchanged already")
    await scene.answer(scene.refresh(tokens_body["refresh_token"]))


async def test_a_code_reused_after_10_s_revokes_its_tokens(scene: Scene) -> None:
    """Every token issued from it is revoked."""
    code = await scene.code()
    tokens_body = await scene.answer(scene.exchange(code))
    scene.clock.advance(10 * SECOND_MS)
    assert await scene.refusal(scene.exchange(code)) == ("invalid_grant", "code presented again")
    refused = await scene.refusal(scene.refresh(tokens_body["refresh_token"]))
    assert refused == ("invalid_grant", "refresh token revoked: code presented again")


async def test_an_exchanged_code_reused_after_its_expiry_revokes_nothing(scene: Scene) -> None:
    """After ten minutes the code is only expired."""
    code = await scene.code()
    tokens_body = await scene.answer(scene.exchange(code))
    scene.clock.advance(600 * SECOND_MS)
    assert await scene.refusal(scene.exchange(code)) == ("invalid_grant", "code expired")
    await scene.answer(scene.refresh(tokens_body["refresh_token"]))


async def test_a_failed_exchange_leaves_the_code_valid(scene: Scene) -> None:
    """Another client, redirect URI or verifier and a bad scope don't use up the code."""
    other = await make_scene(scene.database)
    code = await scene.code(challenge=CHALLENGE)
    await scene.refusal({**scene.exchange(code, code_verifier=VERIFIER), **other.credentials()})
    await scene.refusal(scene.exchange(code, code_verifier=VERIFIER, redirect_uri="https://else.example"))
    await scene.refusal(scene.exchange(code, code_verifier=VERIFIER[::-1]))
    await scene.refusal(scene.exchange(code, code_verifier=VERIFIER, scope="nothing"))
    body = await scene.answer(scene.exchange(code, code_verifier=VERIFIER))
    scene.clock.advance(60 * SECOND_MS)
    await scene.refusal({**scene.exchange(code, code_verifier=VERIFIER), **other.credentials()})
    await scene.refusal(scene.exchange(code, code_verifier=VERIFIER, redirect_uri="https://else.example"))
    await scene.refusal(scene.exchange(code, code_verifier=VERIFIER[::-1]))
    await scene.answer(scene.refresh(body["refresh_token"]))


@pytest.mark.on_postgres
async def test_a_credential_refused_as_expired_stays_expired(scene: Scene) -> None:
    """Also if the clock is set back: a code, a refresh token and a client secret."""
    now_ms = scene.clock.now_ms()
    code = await scene.code()
    assert await scene.refusal(scene.exchange(code), now_ms + 600 * SECOND_MS) == ("invalid_grant", "code expired")
    assert await scene.refusal(scene.exchange(code), now_ms) == ("invalid_grant", "code expired")
    refresh = scene.refresh((await scene.tokens())["refresh_token"])
    for instant_ms in (now_ms + 180 * DAY_MS, now_ms):
        assert await scene.refusal(refresh, instant_ms) == ("invalid_grant", "refresh token expired")
    await scene.run("UPDATE application_secrets SET expires_ms = $1", now_ms + 1)
    for instant_ms in (now_ms + 1, now_ms):
        assert await scene.refusal(refresh, instant_ms) == ("invalid_client", "secret expired")


async def test_an_older_key_still_makes_the_same_tokens(scene: Scene) -> None:
    """A retry is answered under the key of the first answer; a node without it answers 503 and refuses nothing."""
    first = await scene.tokens()
    second = await scene.answer(scene.refresh(first["refresh_token"]))
    scene.keys = Keys(2, {1: b"k" * 32, 2: b"l" * 32})
    assert await scene.answer(scene.refresh(first["refresh_token"])) == second
    scene.keys = Keys(2, {2: b"l" * 32})
    with pytest.raises(KeyMissing):
        await scene.call(scene.refresh(first["refresh_token"]))
    third = await scene.answer(scene.refresh(second["refresh_token"]))
    scene.keys = Keys(1, {1: b"k" * 32})
    with pytest.raises(KeyMissing):
        await scene.call(scene.refresh(second["refresh_token"]))
    scene.keys = Keys(1, {1: b"k" * 32, 2: b"l" * 32})
    assert await scene.answer(scene.refresh(second["refresh_token"])) == third


async def test_a_minted_family_is_like_an_exchanged_one(scene: Scene) -> None:
    """Tokens minted for development can be refreshed."""
    pair = await scene.database.write(
        lambda tx: authorizations.mint_family(
            tx,
            scene.keys,
            application_id=scene.application.application_id,
            seller_id=scene.seller.seller_id,
            scope=ALL_SCOPES,
            live=False,
            now_ms=scene.clock.now_ms(),
            lifetimes=Lifetimes(60, 60),
        )
    )
    assert tokens.seller_of_access_token(pair.access_token) == scene.seller.seller_id
    assert pair.refresh_token is not None
    assert (await scene.answer(scene.refresh(pair.refresh_token)))["live_mode"] is False


async def test_no_credential_is_stored_in_clear(scene: Scene) -> None:
    """Codes, tokens and secrets are stored as digests."""
    code = await scene.code()
    body = await scene.answer(scene.exchange(code))
    rows: list[Any] = []
    for table in ("codes", "token_families", "refresh_tokens", "access_tokens", "application_secrets"):
        rows += await scene.database.read(lambda tx, table=table: tx.all(f"SELECT * FROM {table}"))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
    kept = repr([tuple(row) for row in rows])
    for secret in (code, body["access_token"], body["refresh_token"], scene.secret):
        assert secret not in kept


async def test_an_abandoned_attempt_leaves_the_call_alone(scene: Scene) -> None:
    """PostgreSQL's driver closes a suspended attempt only after another one of the same call has ended."""
    body = scene.refresh((await scene.tokens())["refresh_token"])
    call = Call(shared=scene.shared, caller=Caller(0), now_ms=scene.clock.now_ms(), request_id="", body=body)
    call.begin(PostgresTransaction())
    abandoned = handlers.token(call).__await__()
    lookup = next(abandoned)
    statement = abandoned.send(await scene.database.read(lambda tx: tx.all(lookup.sql, *lookup.args)))
    assert "refresh_tokens" in statement.sql
    event = OperatorEvent("refresh_token_replayed", "of the other attempt", "It was reused.")
    call.alert, call.logged_seller_id = event, scene.seller.seller_id
    abandoned.close()
    assert (call.alert, call.logged_seller_id) == (event, scene.seller.seller_id)
