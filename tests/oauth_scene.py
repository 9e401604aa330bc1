"""A scene for the tests of tokens: an application, a seller, a clock, and calls of the token endpoints' handlers."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from paydesk.core.clock import MovableClock
from paydesk.core.errors import Refusal
from paydesk.core.keys import Keys
from paydesk.engine.oauth import authorizations, handlers, lifecycle
from paydesk.engine.oauth.authorizations import Authorization
from paydesk.engine.oauth.clients import applications
from paydesk.engine.oauth.clients.authentication import Application, AuthenticationCache
from paydesk.engine.oauth.lifecycle import OnReplay
from paydesk.engine.sellers import store as sellers
from paydesk.engine.sellers.store import Seller
from paydesk.platform.operation import Answer, Call, Caller, Handler
from paydesk.platform.settings import Settings
from paydesk.platform.shared import Shared
from paydesk.platform.storage.database import Database, Transaction, Work
from paydesk.platform.storage.work import write_until_kept
from shared_objects import make_shared

START_MS = 1_769_869_602_109
SECOND_MS = 1000
DAY_MS = 86_400_000
REDIRECT_URI = "https://till.example/callback"
ALL_SCOPES = "offline_access read write"
VERIFIER = "a-verifier-of-forty-three-characters-or-more-indeed"
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


def frozen_clock() -> MovableClock:
    """Return a clock that is frozen until it is moved."""
    return MovableClock(frozen_ms=START_MS)


@dataclass
class Scene:
    """One application and one seller."""

    database: Database
    application: Application
    secret: str
    seller: Seller
    clock: MovableClock = field(default_factory=frozen_clock)
    keys: Keys = field(default_factory=lambda: Keys(1, {1: b"k" * 32}))
    settings: Settings = field(default_factory=Settings)
    authentication_cache: AuthenticationCache | None = None
    _shared: Shared | None = field(default=None, init=False, repr=False)

    @property
    def shared(self) -> Shared:
        """Return the shared objects of the calls; without a cache of its own the scene remembers no client."""
        if self._shared is None:
            cache = self.authentication_cache
            if cache is None:
                cache = AuthenticationCache(self.database.signals, 0)
            self._shared = make_shared(self.database, authentication_cache=cache)
        return replace(self._shared, settings=self.settings, database=self.database, keys=self.keys, clock=self.clock)

    async def call(
        self,
        body: Any,
        now_ms: int | None = None,
        *,
        handler: Handler = handlers.token,
        before_commit: Work[object] | None = None,
    ) -> Answer | Refusal:
        """Return the handler's answer, its body as JSON has it, or the refusal; one that it raises rolls back.

        `before_commit` is what else is done in its transaction, at the end.
        """
        shared, instant_ms = self.shared, self.clock.now_ms() if now_ms is None else now_ms

        async def work(tx: Transaction) -> Answer | Refusal:
            answer = await handler(
                Call(
                    shared=shared,
                    caller=Caller(0),
                    now_ms=instant_ms,
                    request_id="",
                    body=body,
                    _tx=tx,
                )
            )
            if before_commit is not None:
                await before_commit(tx)
            return answer

        try:
            outcome = await write_until_kept(self.database, work)
        except Refusal as refusal:
            return refusal
        if isinstance(outcome, Refusal):
            return outcome
        return msgspec.structs.replace(outcome, body=msgspec.to_builtins(outcome.body))

    async def answer(
        self, body: Any, now_ms: int | None = None, *, handler: Handler = handlers.token
    ) -> dict[str, Any]:
        """Return the body of the answer, which must be 200."""
        answer = await self.call(body, now_ms, handler=handler)
        assert isinstance(answer, Answer), answer
        assert answer.status == 200
        answered: dict[str, Any] = answer.body
        return answered

    async def refusal(
        self, body: Any, now_ms: int | None = None, *, handler: Handler = handlers.token
    ) -> tuple[str, str]:
        """Return the code and the reason of the refusal, which must occur."""
        refusal = await self.call(body, now_ms, handler=handler)
        assert isinstance(refusal, Refusal), refusal
        return refusal.kind.code, refusal.reason

    async def code(
        self, *, scope: str = ALL_SCOPES, challenge: str | None = None, test_token: bool | None = None
    ) -> str:
        """Return a new code for the application."""
        now_ms = self.clock.now_ms()
        return await self.database.write(
            lambda tx: authorizations.mint_code(
                tx,
                application_id=self.application.application_id,
                seller_id=self.seller.seller_id,
                redirect_uri=REDIRECT_URI,
                scope=scope,
                challenge=challenge,
                now_ms=now_ms,
                expires_ms=now_ms + 600 * SECOND_MS,
                test_token=test_token,
            )
        )

    def exchange(self, code: str, **parameters: Any) -> dict[str, Any]:
        """Return the body that exchanges a code."""
        given = {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT_URI}
        return {**self.credentials(), **given, **parameters}

    def refresh(self, refresh_token: str, **parameters: Any) -> dict[str, Any]:
        """Return the body that refreshes."""
        return {**self.credentials(), "grant_type": "refresh_token", "refresh_token": refresh_token, **parameters}

    def presented(self, token: str, **parameters: Any) -> dict[str, Any]:
        """Return the body that revokes or introspects a token."""
        return {**self.credentials(), "token": token, **parameters}

    async def revoke(self, token: str) -> None:
        """Revoke a token as its application."""
        assert await self.answer(self.presented(token), handler=handlers.revoke) == {}

    async def introspect(self, token: str, now_ms: int | None = None) -> dict[str, Any]:
        """Introspect a token as its application."""
        return await self.answer(self.presented(token), now_ms, handler=handlers.introspect)

    def credentials(self) -> dict[str, Any]:
        """Return the application's credentials."""
        return {"client_id": str(self.application.application_id), "client_secret": self.secret}

    async def tokens(self, **parameters: Any) -> dict[str, Any]:
        """Return the first tokens, by an exchange of a new code."""
        return await self.answer(self.exchange(await self.code(), **parameters))

    async def run(self, sql: str, *args: Any) -> None:
        """Run SQL without notifying any topic."""
        await self.database.write(lambda tx: tx.run(sql, *args))

    async def value(self, sql: str, *args: Any) -> Any:
        """Return the first column of the only row."""
        row = await self.database.read(lambda tx: tx.one(sql, *args))
        assert row is not None
        return row[0]


async def make_scene(database: Database, *, scopes: str = ALL_SCOPES, on_replay: OnReplay = "revoke") -> Scene:
    """Return a scene on this database; several scenes may share one."""

    async def work(tx: Transaction) -> tuple[Application, str, Seller]:
        application, secret = await applications.create(
            tx, name="Till", redirect_uris=(REDIRECT_URI,), scopes=scopes, now_ms=START_MS, on_replay=on_replay
        )
        seller = await sellers.create(
            tx,
            email=f"owner-{application.application_id}@shop.example",
            name="Shop",
            country="BRA",
            currency="BRL",
            password_hash="none",
            now_ms=START_MS,
        )
        assert seller is not None
        return application, secret.reveal(), seller

    return Scene(database, *await database.write(work))


async def authorizations_of(tx: Transaction, seller_id: int) -> list[Authorization]:
    """Return all authorizations of the seller, withdrawn ones included, the oldest first."""
    rows = await tx.all(
        "SELECT authorization_id FROM authorizations WHERE seller_id = $1 ORDER BY authorization_id", seller_id
    )
    found = [await authorizations.get(tx, seller_id, authorization_id) for (authorization_id,) in rows]
    return [authorization for authorization in found if authorization is not None]


def states_of(filled: Collection[str]) -> list[lifecycle.State]:
    """Return the states that fit a family of whose `lifecycle.COLUMNS` these are filled."""
    return [
        state for state in lifecycle.STATES if set(state.filled) <= set(filled) and not set(state.empty) & set(filled)
    ]
