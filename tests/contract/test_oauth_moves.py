"""Token families follow the table of moves: every state with every event."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from oauth_scene import DAY_MS, SECOND_MS, Scene, make_scene, states_of
from paydesk.core.errors import Refusal
from paydesk.core.secrets import digest
from paydesk.engine.oauth import authorizations, handlers, lifecycle
from paydesk.engine.oauth.lifecycle import Move, State
from paydesk.platform.operation import Answer
from paydesk.platform.storage.database import Database

Outcome = Answer | Refusal | None

COLUMNS_OF_A_CODE = """SELECT c.exchanged_ms, c.expired_ms, t.revoked_ms, t.expired_ms, a.withdrawn_ms
    FROM codes c
    JOIN authorizations a ON a.seller_id = c.seller_id AND a.authorization_id = c.authorization_id
    LEFT JOIN token_families t ON t.seller_id = c.seller_id AND t.family_id = c.family_id
    WHERE c.seller_id = $1 AND c.digest = $2"""
AUTHORIZATION_OF_A_CODE = "SELECT authorization_id FROM codes WHERE seller_id = $1 AND digest = $2"


@dataclass
class Life:
    """A family, from its code on, with the tokens of its generations, the oldest first, since `began_ms`."""

    scene: Scene
    code: str
    began_ms: int
    generations: list[dict[str, Any]] = field(default_factory=list)

    async def state(self) -> State:
        """Return its state, by the columns that are filled in its rows."""
        seller_id = self.scene.seller.seller_id
        row = await self.scene.database.read(lambda tx: tx.one(COLUMNS_OF_A_CODE, seller_id, digest(self.code)))
        assert row is not None
        filled = [column for column, value in zip(lifecycle.COLUMNS, row, strict=True) if value is not None]
        (state,) = states_of(filled)
        return state

    def exchange(self, after_ms: int) -> Awaitable[Outcome]:
        """Present the code, `after_ms` since the beginning."""
        return self.scene.call(self.scene.exchange(self.code), self.began_ms + after_ms)

    def refresh(self, generation: int, after_ms: int) -> Awaitable[Outcome]:
        """Redeem the refresh token of a generation; without a family, an unknown token."""
        token = self.generations[generation]["refresh_token"] if self.generations else "TG-" + "0" * 40 + "-1"
        return self.scene.call(self.scene.refresh(token), self.began_ms + after_ms)

    async def end(self, kind: str, generation: int = -1) -> Outcome:
        """Revoke a token."""
        token = self.generations[generation][kind] if self.generations else "TG-" + "0" * 40 + "-1"
        return await self.scene.call(self.scene.presented(token), handler=handlers.revoke)

    async def withdraw(self) -> Outcome:
        """Withdraw the authorization."""
        seller_id, now_ms = self.scene.seller.seller_id, self.scene.clock.now_ms()
        authorization_id = await self.scene.value(AUTHORIZATION_OF_A_CODE, seller_id, digest(self.code))
        await self.scene.database.write(
            lambda tx: authorizations.withdraw(
                tx, seller_id=seller_id, authorization_id=authorization_id, now_ms=now_ms
            )
        )
        return None


async def begin(scene: Scene) -> Life:
    """Return a family that has only a code."""
    return Life(scene, await scene.code(), scene.clock.now_ms())


async def code_issued(scene: Scene) -> Life:
    """Its code was not presented."""
    return await begin(scene)


async def code_expired(scene: Scene) -> Life:
    """Its code was presented after it expired."""
    life = await begin(scene)
    await life.exchange(600 * SECOND_MS)
    return life


async def active(scene: Scene) -> Life:
    """Three generations; using the first is a replay one minute later."""
    life = await begin(scene)
    life.generations.append(await scene.answer(scene.exchange(life.code)))
    for _ in range(2):
        life.generations.append(await scene.answer(scene.refresh(life.generations[-1]["refresh_token"])))
    return life


async def expired(scene: Scene) -> Life:
    """Its newest token was presented after it expired."""
    life = await active(scene)
    await life.refresh(-1, 180 * DAY_MS)
    return life


async def revoked(scene: Scene) -> Life:
    """Its application has revoked it."""
    life = await active(scene)
    await life.end("refresh_token")
    return life


async def withdrawn(scene: Scene) -> Life:
    """The seller has withdrawn it."""
    life = await active(scene)
    await life.withdraw()
    return life


LIVES: dict[State, Callable[[Scene], Awaitable[Life]]] = {
    lifecycle.CODE_ISSUED: code_issued,
    lifecycle.CODE_EXPIRED: code_expired,
    lifecycle.ACTIVE: active,
    lifecycle.EXPIRED: expired,
    lifecycle.REVOKED: revoked,
    lifecycle.WITHDRAWN: withdrawn,
}


@dataclass(frozen=True)
class Event:
    """An event, and the moves that it can be: at most one in each state."""

    name: str
    happens: Callable[[Life], Awaitable[Outcome]]
    moves: tuple[Move, ...]
    on_replay: str = "revoke"


MINUTE_MS = 60 * SECOND_MS
EVENTS = (
    Event("the code at once", lambda life: life.exchange(9 * SECOND_MS), (lifecycle.EXCHANGE, lifecycle.RETRY_CODE)),
    Event("the code later", lambda life: life.exchange(10 * SECOND_MS), (lifecycle.EXCHANGE, lifecycle.REUSE_CODE)),
    Event(
        "the code too late", lambda life: life.exchange(600 * SECOND_MS), (lifecycle.EXPIRE_CODE, lifecycle.REFUSE_CODE)
    ),
    Event("the newest token", lambda life: life.refresh(-1, DAY_MS), (lifecycle.REFRESH,)),
    Event("the newest token, too late", lambda life: life.refresh(-1, 180 * DAY_MS), (lifecycle.EXPIRE,)),
    Event("a used token at once", lambda life: life.refresh(0, MINUTE_MS - 1), (lifecycle.RETRY_REFRESH,)),
    Event("a used token much later", lambda life: life.refresh(1, 200 * DAY_MS), (lifecycle.RETRY_REFRESH,)),
    Event("a used token too late", lambda life: life.refresh(0, MINUTE_MS), (lifecycle.REUSE_REFRESH,)),
    Event("the same, only refused", lambda life: life.refresh(0, MINUTE_MS), (lifecycle.REFUSE_REFRESH,), "refuse"),
    Event("the newest token revoked", lambda life: life.end("refresh_token"), (lifecycle.REVOKE,)),
    Event("a used token revoked", lambda life: life.end("refresh_token", 0), (lifecycle.REVOKE,)),
    Event("an access token revoked", lambda life: life.end("access_token"), (lifecycle.REVOKE_ACCESS,)),
    Event("withdrawn", lambda life: life.withdraw(), (lifecycle.WITHDRAW,)),
)


def check_outcome(outcome: Outcome, move: Move | None) -> None:
    """Check the answer against the move; without a move no tokens are returned."""
    if move is None:
        assert outcome is None or isinstance(outcome, Refusal) or outcome.body == {}
    elif move.reason:
        assert isinstance(outcome, Refusal)
        assert (f"`{outcome.kind.code}`", outcome.reason) == (move.answer, move.reason)
    elif "tokens" in move.answer:
        assert isinstance(outcome, Answer)
        assert "access_token" in outcome.body
    else:
        assert outcome is None or (isinstance(outcome, Answer) and outcome.body == {})


@pytest.mark.on_postgres
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
async def test_every_event_in_every_state_follows_the_table(database: Database, event: Event) -> None:
    """The family moves only as the table has it, with the response and the reason of the table."""
    scene = await make_scene(database)
    await scene.run("UPDATE applications SET on_replay = $1", event.on_replay)
    for before, make in LIVES.items():
        life = await make(scene)
        assert await life.state() == before
        move = next((move for move in event.moves if before in move.sources), None)
        outcome = await event.happens(life)
        after = await life.state()
        assert after == (move.target if move is not None and move.target is not None else before), before.name
        check_outcome(outcome, move)
        if before is lifecycle.WITHDRAWN and isinstance(outcome, Refusal):
            assert f"`{outcome.kind.code}`" in lifecycle.WITHDRAW.answer
        newest = life.generations[-1] if life.generations else {}
        if move is lifecycle.RETRY_REFRESH and isinstance(outcome, Answer):
            assert outcome.body["refresh_token"] in {one["refresh_token"] for one in life.generations}
        if move is lifecycle.REFRESH and isinstance(outcome, Answer):
            assert outcome.body["refresh_token"] != newest["refresh_token"]


def test_every_move_and_every_state_is_covered() -> None:
    """By an event, or by the beginning of a family."""
    assert {move for event in EVENTS for move in event.moves} | {lifecycle.AUTHORIZE} == set(lifecycle.MOVES)
    assert set(LIVES) == set(lifecycle.STATES)
