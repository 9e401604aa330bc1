"""Who takes part in a run: sellers, applications, terminals, tokens and subscriptions, written by the stores."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import cycle, islice

import counted
from faults.inbox import Inbox
from oauth_scene import Scene, make_scene
from paydesk.core.clock import SystemClock
from paydesk.engine.terminals import store as terminals
from paydesk.engine.terminals import stores
from paydesk.engine.terminals.schemas import Kind
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Transaction
from service import access_token, tokens
from webhooks_scene import subscribe

SELLERS = 2


@dataclass(frozen=True, slots=True)
class TerminalSeed:
    """A terminal, whose it is, its device's token, and a token of an application that creates orders for it.

    `other_token` is the application's for the same seller's terminals of the other kind, live or test.
    """

    terminal_id: str
    seller: int
    device_token: str
    access_token: str
    other_token: str
    live: bool = False
    kind: Kind = "terminal"


@dataclass(frozen=True, slots=True)
class ApplicationSeed:
    """Who an application says it is, and its first refresh token."""

    credentials: dict[str, str]
    refresh_token: str


@dataclass
class Cast:
    """Everybody."""

    terminals: list[TerminalSeed] = field(default_factory=list)
    applications: list[ApplicationSeed] = field(default_factory=list)


async def cast(
    database_url: str,
    inbox: Inbox,
    chance: random.Random,
    *,
    devices: int,
    applications: int,
    live_devices: int = 0,
    kinds: tuple[Kind, ...] = ("terminal",),
) -> Cast:
    """Write all of them into the database; the last `live_devices` terminals are live, test ones of `kinds` in turn."""
    database = await open_database(database_url)
    try:
        made, test, live = Cast(), list[TerminalSeed](), list[TerminalSeed]()
        for number in range(SELLERS):
            scene = await make_scene(database)
            await _subscribe(database, inbox, scene, number)
            now_ms = SystemClock().now_ms()
            bearers = (await access_token(scene, now_ms, live=False), await access_token(scene, now_ms, live=True))
            of_kinds = islice(cycle(kinds), devices // SELLERS)
            test += [await _terminal(database, scene, bearers, kind=kind) for kind in of_kinds]
            live += [await _terminal(database, scene, bearers[::-1], live=True) for _ in range(live_devices // SELLERS)]
            for _ in range(applications // SELLERS):
                pair = await tokens(scene, now_ms)
                assert pair.refresh_token is not None, "offline_access is granted"
                made.applications.append(ApplicationSeed(scene.credentials(), pair.refresh_token))
    finally:
        await database.close()
    chance.shuffle(test)
    made.terminals = [*test, *live]
    return made


async def _subscribe(database: Database, inbox: Inbox, scene: Scene, number: int) -> None:
    """One receiver that takes everything, one that fails now and then, and one for live orders."""
    application_id, seller_id = scene.application.application_id, scene.seller.seller_id
    for path, failing, live in (
        (f"/{number}/good", 0.0, False),
        (f"/{number}/bad", 0.05, False),
        (f"/{number}/live", 0.0, True),
    ):
        known = await subscribe(database, inbox.url + path, application_id=application_id, live=live)
        inbox.know(path, *known, failing, (seller_id, live))


async def _terminal(
    database: Database, scene: Scene, access_tokens: tuple[str, str], *, live: bool = False, kind: Kind = "terminal"
) -> TerminalSeed:
    """A terminal; the tokens are one of its own kind, and one of the other."""
    seller_id, now_ms = scene.seller.seller_id, SystemClock().now_ms()

    async def work(tx: Transaction) -> TerminalSeed:
        shop = await stores.create_store(tx, seller_id, "Shop", now_ms)
        pos = await stores.create_pos(tx, seller_id, shop.store_id, counted.pos_id(), "Till", now_ms)
        assert pos is not None
        made = await terminals.create(
            tx,
            seller_id=seller_id,
            pos_id=pos.pos_id,
            terminal_id=counted.terminal_id(),
            live=live,
            kind=kind,
            now_ms=now_ms,
            operating_mode="PDV",
        )
        assert made is not None
        device_token = await terminals.mint_token(tx, seller_id, made.terminal_id, now_ms)
        return TerminalSeed(made.terminal_id, seller_id, device_token.reveal(), *access_tokens, live, kind)

    return await database.write(work)
