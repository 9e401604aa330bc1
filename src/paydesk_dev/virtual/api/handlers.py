"""The handlers of `/virtual/v1`: a seller's test token reaches the seller's terminals, an operator's those of all.

Only terminals that this process runs are found.
"""

from __future__ import annotations

from functools import partial
from typing import get_args

import msgspec

from paydesk.core.clock import Clock
from paydesk.core.errors import IN_USE, PROPERTY_VALUE, TOO_MANY_REQUESTS, Refusal
from paydesk.core.secrets import Secret
from paydesk.engine.device.gateway import Gateway
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.status_labels import Labels
from paydesk.engine.terminals import registry, stores
from paydesk.engine.terminals import store as terminals
from paydesk.engine.terminals.errors import TERMINAL_NOT_FOUND
from paydesk.engine.terminals.store import Terminal
from paydesk.operators import audit
from paydesk.operators.errors import POS_NOT_FOUND
from paydesk.operators.terminals.handlers import refuse_second_pdv
from paydesk.platform import roles
from paydesk.platform.filters import Filters
from paydesk.platform.operation import WAIT, Answer, Call, Query
from paydesk.platform.storage.database import Database, Locked, Transaction, Unavailable
from paydesk_dev.virtual import page_keys
from paydesk_dev.virtual.api import store
from paydesk_dev.virtual.api.schemas import (
    NewTerminalRequest,
    TerminalRequest,
    VirtualActionRequest,
    VirtualScreen,
    VirtualTerminal,
    VirtualTerminals,
)
from paydesk_dev.virtual.errors import ACTION_NOT_POSSIBLE
from paydesk_dev.virtual.fleet import Fleet, stopping
from paydesk_dev.virtual.terminal.actions import ActionNotPossible
from paydesk_dev.virtual.terminal.screens import ScreenName
from paydesk_dev.virtual.terminal.terminal import Terminal as RunningTerminal

PERMITTED = "permitted"
UNTIL = Query(
    "until",
    {"enum": [*get_args(ScreenName), PERMITTED]},
    "With `wait`: the screen to wait for, or `permitted`: until the order on the screen has the authorization permit.",
)
SELLER = Query(
    "seller_id",
    {"type": "string", "pattern": "^[0-9]{1,15}$"},
    "For operators only: the seller. Default: the first one.",
)
CANCEL = Query(
    "cancel",
    {"type": "boolean", "default": False},
    "Cancel its order or print action first. If its order may be charging, it is switched off at once and deleted when"
    " the order has ended.",
)
WAITING_MAX = 16
"""Requests that may wait for a screen of one terminal."""
LOOK_AGAIN_SECONDS = 1.0
"""How soon a request that waits notices that its client has gone or that the node stops."""
POLL_INTERVAL_SECONDS = 5.0
"""How soon the end of the order is noticed if its signal is lost."""


async def create(call: Call) -> Answer:
    """Create a virtual terminal. It has a point of sale of its own; the response is sent after its hello."""
    body: NewTerminalRequest = call.body
    return await _create(call, body, seed=body.seed, is_quick=body.pace == "quick")


async def create_by_operator(call: Call) -> Answer:
    """Add a virtual terminal. It is started after the commit; the response is sent once it is connected."""
    body: TerminalRequest = call.body
    return await _create(call, body, body.pos_id)


async def _create(
    call: Call,
    body: NewTerminalRequest | TerminalRequest,
    pos_id: int | None = None,
    *,
    seed: int | None = None,
    is_quick: bool = False,
) -> Answer:
    fleet = _fleet(call)

    async def work(tx: Transaction) -> tuple[Terminal, Secret]:
        seller_id, mode = await _seller(tx, call, body.seller_id, "$.seller_id"), body.operating_mode
        if pos_id is not None:
            if await stores.lock_pos(tx, seller_id, pos_id) is None:
                raise POS_NOT_FOUND.with_reason("not a point of sale of this seller")
            if mode == "PDV":
                await refuse_second_pdv(tx, seller_id, pos_id, live=False)
        terminal = await store.create(
            tx, seller_id, pos_id=pos_id, script=body.script, operating_mode=mode, now_ms=call.now_ms
        )
        if call.caller.operator_id:
            await audit.record(call, tx, "terminals.create", terminal.terminal_id, after=document_of(terminal))
        return terminal, await terminals.mint_token(tx, seller_id, terminal.terminal_id, call.now_ms)

    terminal, token = await call.database.write(work)
    await fleet.add(terminal.terminal_id, token.reveal(), body.script, seed=seed, is_quick=is_quick)
    if call.caller.operator_id:
        call.database.signals.hint("terminal", terminal.terminal_id)
    return Answer(201, _shown(call, terminal))


async def find_all(call: Call) -> Answer:
    """List the virtual terminals of a seller: those that this process runs."""
    seller_id, running = SELLER.number(call.query), set(_fleet(call).terminals())

    async def work(tx: Transaction) -> list[Terminal]:
        return await store.of_seller(tx, await _seller(tx, call, seller_id, SELLER.name))

    listed = [terminal for terminal in await call.database.read(work) if terminal.terminal_id in running]
    return Answer(200, VirtualTerminals([_shown(call, terminal) for terminal in listed]))


async def show_screen(call: Call) -> Answer:
    """Get the screen of a virtual terminal; with `wait`, once `until` is met, or when the time is over."""
    filters = Filters((WAIT, UNTIL), call.query)
    filters.refuse_faults()
    seconds, until = filters.get(WAIT.name), filters.get(UNTIL.name)
    if seconds and until is None:
        raise PROPERTY_VALUE.with_reason("wait without until", "'until' - is required with 'wait'")
    await find(call)
    panel = _running(call).panel
    if panel.waiting >= WAITING_MAX:
        raise TOO_MANY_REQUESTS.with_reason(
            "too many requests wait",
            message=f"{WAITING_MAX} requests are already waiting for a screen of this terminal. Send the next one after"
            " one of them is answered.",
            headers=(("retry-after", "5"),),
        )
    panel.waiting += 1
    try:
        await panel.until(lambda: _is_met(call, until), seconds, LOOK_AGAIN_SECONDS)
        panel = _running(call).panel
        return Answer(200, VirtualScreen.of_screen(panel.screen, panel))
    finally:
        panel.waiting -= 1


async def act(call: Call) -> Answer:
    """Act on a virtual terminal: do what a person would do, and return the screen after it."""
    body: VirtualActionRequest = call.body
    terminal = await find(call)
    if (script := body.script) is not None:

        async def set_script(tx: Transaction) -> None:
            await registry.set_script(tx, terminal.seller_id, terminal.terminal_id, script)
            if call.caller.operator_id:
                old = document_of(terminal)
                new = msgspec.structs.replace(old, script=script)
                await audit.record(call, tx, "terminals.change", terminal.terminal_id, before=old, after=new)

        await call.database.write(set_script)
    running = _running(call)
    try:
        screen = await running.act(body.as_action())
    except ActionNotPossible as error:
        taken = ", ".join(error.screen.actions) or "only actions on power, network and script"
        raise ACTION_NOT_POSSIBLE.with_reason(
            f"{body.action} on {error.screen.name}", f"{error}; it takes {taken}"
        ) from None
    except ValueError as error:
        raise PROPERTY_VALUE.with_reason("refused by the terminal", f"'$' - {error}") from None
    if body.noticed:
        sightings = call.shared.objects[Gateway].sightings
        await sightings.forget(call.database, terminal.seller_id, terminal.terminal_id)
    return Answer(200, VirtualScreen.of_screen(screen, running.panel))


async def delete(call: Call) -> Answer:
    """Delete a virtual terminal. The point of sale that was made for it is deleted too.

    With `cancel` whatever holds it is canceled first. One that may be charging is switched off for good, and deleted
    once its order has ended.
    """
    filters = Filters((CANCEL,), call.query)
    filters.refuse_faults()
    fleet, terminal = _fleet(call), await find(call)
    terminal_id = terminal.terminal_id

    async def work(tx: Transaction) -> bool:
        """Return whether it is deleted."""
        change = Change(tx, call.now_ms, call.shared.objects[Labels])
        is_free = not filters.get(CANCEL.name) or await store.release(change, terminal)
        if is_free and not await store.delete(tx, terminal, call.now_ms):
            raise gone(call)
        if call.caller.operator_id:
            await audit.record(call, tx, "terminals.delete", terminal_id, before=document_of(terminal))
        return is_free

    if await call.database.write(work):
        await fleet.remove(terminal_id)
    else:
        await fleet.retire(terminal_id, partial(until_deleted, call.database, call.clock, terminal_id))
    return Answer(204)


async def until_deleted(database: Database, clock: Clock, terminal_id: str) -> None:
    """Return once the terminal, which is switched off and may be charging, is deleted: at the end of its order."""

    async def delete(tx: Transaction, now_ms: int) -> None:
        terminal = await store.find(tx, None, terminal_id)
        if terminal is not None:
            await store.delete(tx, terminal, now_ms)

    while True:
        with database.signals.subscribe(f"terminal:{terminal_id}") as waiter:
            try:
                await database.write(partial(delete, now_ms=clock.now_ms()))
            except (Unavailable, Locked):
                pass
            except Refusal as refusal:
                if refusal.kind is not IN_USE:
                    raise
            else:
                return
            await waiter.wait(POLL_INTERVAL_SECONDS)


def document_of(terminal: Terminal, page_url: str | None = None) -> VirtualTerminal:
    """Return the terminal as the API shows it. The audit trail has it without `page_url`, which has a key."""
    return VirtualTerminal.of(terminal, id=terminal.terminal_id, page_url=page_url)


def _fleet(call: Call) -> Fleet:
    """Return the virtual terminals of this process. Raises `SERVICE_UNAVAILABLE` while it stops."""
    fleet = call.shared.objects.get(Fleet)
    if call.database.signals.stopping or fleet is None:
        raise stopping()
    return fleet


async def _seller(tx: Transaction, call: Call, seller_id: int | None, field: str) -> int:
    """Return the seller of the access token; for an operator the one given or the first."""
    if call.caller.operator_id:
        return await store.find_seller(tx, seller_id)
    if seller_id is not None:
        raise PROPERTY_VALUE.with_reason(
            "seller_id with an access token", f"'{field}' - must be omitted: the access token names the seller"
        )
    return call.caller.seller_id


async def find(call: Call) -> Terminal:
    """Return the virtual terminal of the path. Raises `TERMINAL_NOT_FOUND` unless the caller may see it."""
    seller_id = None if call.caller.operator_id else call.caller.seller_id
    terminal = await call.database.read(lambda tx: store.find(tx, seller_id, call.path))
    if terminal is None or terminal.terminal_id not in _fleet(call).terminals():
        raise gone(call)
    return terminal


def gone(call: Call) -> Refusal:
    """Return the refusal of a terminal that this process does not run, or no longer runs."""
    _fleet(call)
    return TERMINAL_NOT_FOUND.with_reason(
        "no virtual terminal of this process", message="There is no such virtual terminal in this service."
    )


def _running(call: Call) -> RunningTerminal:
    """Return the terminal of the path as this process runs it. Raises `TERMINAL_NOT_FOUND` once it is deleted."""
    try:
        return call.shared.objects[Fleet].find(call.path)
    except KeyError:
        raise gone(call) from None


def _is_met(call: Call, until: str | None) -> bool:
    """Return whether the terminal shows what the request waits for, or the request must not wait any longer."""
    panel = _running(call).panel
    if call.database.signals.stopping or (call.disconnected is not None and call.disconnected()):
        return True
    return panel.is_permitted(panel.screen) if until == PERMITTED else until in (None, panel.screen.name)


def _shown(call: Call, terminal: Terminal) -> VirtualTerminal:
    """Return the document with the address of the page, unless the caller may only read: its key lets act."""
    caller, url = call.caller, page_keys.page_url(call.settings.public_url or "", call.keys, terminal.terminal_id)
    may_act = roles.permits(caller.role, "change") if caller.role else "write" in caller.scopes
    return document_of(terminal, url if may_act else None)
