"""A scene for the tests of tokens: an application, a seller, a clock, and how to call the token endpoint's handler."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from paydesk.core.clock import MovableClock
from paydesk.core.errors import Refusal
from paydesk.core.keys import Keys
from paydesk.oauth import handlers, issuing
from paydesk.oauth.clients import applications
from paydesk.oauth.clients.application import Application, OnReplay
from paydesk.oauth.consent import sellers
from paydesk.oauth.consent.sellers import Seller
from paydesk.operation import Answer, Call, Caller, Handler
from paydesk.settings import Settings
from paydesk.storage.database import Database, Transaction

START_MS = 1_769_869_602_109
SECOND_MS = 1000
DAY_MS = 86_400_000
REDIRECT_URI = "https://till.example/callback"
ALL_SCOPES = "offline_access read write"
VERIFIER = "a-verifier-of-forty-three-characters-or-more-indeed"
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


def frozen_clock() -> MovableClock:
    """A clock that stands still until it is moved."""
    return MovableClock(frozen_ms=START_MS)


@dataclass
class Scene:
    """One application that acts for one seller."""

    database: Database
    application: Application
    secret: str
    seller: Seller
    clock: MovableClock = field(default_factory=frozen_clock)
    keys: Keys = field(default_factory=lambda: Keys(1, {1: b"k" * 32}))
    settings: Settings = field(default_factory=Settings)
    state: Mapping[str, Any] = field(default_factory=dict)

    async def call(
        self, body: Any, now_ms: int | None = None, *, handler: Handler = handlers.token, before_the_end: str = ""
    ) -> Answer | Refusal:
        """What the handler answers or refuses; a refusal that it raises has undone what it did.

        `before_the_end` is a query that takes its time before the commit.
        """
        instant_ms = self.clock.now_ms() if now_ms is None else now_ms

        async def work(tx: Transaction) -> Answer | Refusal:
            answer = await handler(
                Call(
                    settings=self.settings,
                    database=self.database,
                    keys=self.keys,
                    caller=Caller(0),
                    now_ms=instant_ms,
                    request_id="",
                    clock=self.clock,
                    state=self.state,
                    body=body,
                    _tx=tx,
                )
            )
            if before_the_end:
                await tx.one(before_the_end)
            return answer

        try:
            return await self.database.write(work)
        except Refusal as refusal:
            return refusal

    async def answer(
        self, body: Any, now_ms: int | None = None, *, handler: Handler = handlers.token
    ) -> dict[str, Any]:
        """The body of the 200 that this must bring."""
        answer = await self.call(body, now_ms, handler=handler)
        assert isinstance(answer, Answer), answer
        assert answer.status == 200
        answered: dict[str, Any] = answer.body
        return answered

    async def refusal(
        self, body: Any, now_ms: int | None = None, *, handler: Handler = handlers.token
    ) -> tuple[str, str]:
        """The code and the reason of the refusal that this must bring."""
        refusal = await self.call(body, now_ms, handler=handler)
        assert isinstance(refusal, Refusal), refusal
        return refusal.kind.code, refusal.reason

    async def code(self, *, scope: str = ALL_SCOPES, challenge: str | None = None) -> str:
        """A code of the seller for the application."""
        now_ms = self.clock.now_ms()
        return await self.database.write(
            lambda tx: issuing.mint_code(
                tx,
                application_id=self.application.application_id,
                seller_id=self.seller.seller_id,
                redirect_uri=REDIRECT_URI,
                scope=scope,
                challenge=challenge,
                now_ms=now_ms,
                expires_ms=now_ms + 600 * SECOND_MS,
            )
        )

    def exchange(self, code: str, **parameters: Any) -> dict[str, Any]:
        """The body that exchanges a code."""
        given = {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT_URI}
        return {**self.credentials(), **given, **parameters}

    def refresh(self, refresh_token: str, **parameters: Any) -> dict[str, Any]:
        """The body that refreshes."""
        return {**self.credentials(), "grant_type": "refresh_token", "refresh_token": refresh_token, **parameters}

    def presented(self, token: str, **parameters: Any) -> dict[str, Any]:
        """The body that ends a token, or asks about it."""
        return {**self.credentials(), "token": token, **parameters}

    async def revoke(self, token: str) -> None:
        """End a token as its application does."""
        assert await self.answer(self.presented(token), handler=handlers.revoke) == {}

    async def introspect(self, token: str, now_ms: int | None = None) -> dict[str, Any]:
        """What its application is told of a token."""
        return await self.answer(self.presented(token), now_ms, handler=handlers.introspect)

    def credentials(self) -> dict[str, Any]:
        """Who the application says it is."""
        return {"client_id": str(self.application.application_id), "client_secret": self.secret}

    async def tokens(self, **parameters: Any) -> dict[str, Any]:
        """The first tokens, by an exchange of a new code."""
        return await self.answer(self.exchange(await self.code(), **parameters))

    async def run(self, sql: str, *args: Any) -> None:
        """Change something behind everybody's back."""
        await self.database.write(lambda tx: tx.run(sql, *args))

    async def value(self, sql: str, *args: Any) -> Any:
        """The first column of the only row."""
        row = await self.database.read(lambda tx: tx.one(sql, *args))
        assert row is not None
        return row[0]


async def make_scene(database: Database, *, scopes: str = ALL_SCOPES, on_replay: OnReplay = "revoke") -> Scene:
    """A scene on this database; several of them may share one."""

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
