"""The scene of every walk: a service, a seller with a password, and an application to authorize."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from argon2 import PasswordHasher

from browser.receiver import Receiver, receiving
from paydesk.commands.application.authorize import address
from paydesk.core.clock import MovableClock
from paydesk.engine.oauth.clients import applications
from paydesk.engine.sellers import store as sellers
from paydesk.engine.sellers.sessions import SELLERS
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Transaction
from service import Service, running

APPLICATION = "Balcão Aurora"
HOME = "https://balcao.example/callback"
EMAIL, NAME, PASSWORD = "ana@aurora.example", "Ana", "correct horse battery staple"

# standing -> withdrawn, all of a seller's.
WITHDRAW_ALL = "UPDATE authorizations SET withdrawn_ms = created_ms WHERE seller_id = $1"


@dataclass(frozen=True, slots=True)
class Shop:
    """A running service with the development endpoints, its clock, and where its application takes sellers back."""

    service: Service
    clock: MovableClock
    receiver: Receiver

    @property
    def addresses(self) -> tuple[str, str]:
        """All that a browser may talk to here: the service and the application."""
        return self.service.base_url, self.receiver.redirect_uri

    def address(self, **changes: Any) -> str:
        """The authorization page as the application asks for it, with `changes`; None leaves a parameter out."""
        asked = {
            "response_type": "code",
            "client_id": self.service.scene.application.application_id,
            "redirect_uri": self.receiver.redirect_uri,
            "state": "a state & more",
            **changes,
        }
        return address(self.service.base_url, asked)

    async def tokens(self) -> Any:
        """What the application gets for the code that came last."""
        scene = self.service.scene
        given = {"code": self.receiver.received[-1]["code"], "redirect_uri": self.receiver.redirect_uri}
        body = {**scene.credentials(), "grant_type": "authorization_code", **given}
        reply = await self.service.request("POST", "/oauth/token", body, token=None, key=None)
        assert reply.status == 200, reply
        return reply.body


@contextlib.asynccontextmanager
async def open_shop(database_url: str, clock: MovableClock) -> AsyncIterator[Shop]:
    """A shop on a migrated database, until the block ends."""
    database = await open_database(database_url)
    try:
        async with receiving() as receiver, running(database, clock=clock, is_public=True, development=True) as service:
            await database.write(functools.partial(_furnish, service=service, redirect_uri=receiver.redirect_uri))
            yield Shop(service, clock, receiver)
    finally:
        await database.close()


async def _furnish(tx: Transaction, *, service: Service, redirect_uri: str) -> None:
    scene = service.scene
    await applications.change(
        tx,
        scene.application.application_id,
        name=APPLICATION,
        redirect_uris=(redirect_uri, HOME),
        scopes=scene.application.scopes,
        pkce_required=False,
        on_replay="revoke",
        test_tokens=False,
    )
    # The tokens that every scene begins with would stand in the list of applications.
    await tx.run(WITHDRAW_ALL, scene.seller.seller_id)
    await sellers.change(tx, scene.seller.seller_id, email=EMAIL, name=NAME)
    await SELLERS.set_password(tx, scene.seller.seller_id, PasswordHasher().hash(PASSWORD), 0)
