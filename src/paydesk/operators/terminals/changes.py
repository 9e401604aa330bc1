"""Changes of paired terminals: mode, place, tips and script; revoke the device token; delete the terminal."""

from __future__ import annotations

from paydesk.core.errors import IN_USE, MINIMUM_PROPERTIES, PROPERTY_VALUE
from paydesk.engine.terminals import own_pos, registry, store, stores
from paydesk.engine.terminals.errors import TERMINAL_BUSY
from paydesk.engine.terminals.store import Terminal
from paydesk.operators import audit
from paydesk.operators.terminals import places
from paydesk.operators.terminals.fields import TerminalChange
from paydesk.operators.terminals.handlers import (
    RegisteredTerminal,
    audited,
    document_of,
    refuse_occupied,
    refuse_second_pdv,
    unknown,
)
from paydesk.operators.terminals.virtual import VirtualTerminals
from paydesk.platform.operation import Answer, Call
from paydesk.platform.storage.database import Transaction


async def change(call: Call) -> Answer:
    """Change a terminal's mode, place, tips or script: all of the fields that were sent, or none.

    A script changes from the next order on.
    """
    body: TerminalChange = call.body
    if not body.model_fields_set:
        raise MINIMUM_PROPERTIES.with_reason(
            "nothing to change", f"'$' - must have one of {', '.join(TerminalChange.model_fields)}"
        )
    virtual = call.shared.objects.get(VirtualTerminals)
    script, has_script = body.script, virtual is not None and virtual.is_running(call.path)
    if script is not None and virtual is not None:
        try:
            script = virtual.script(script)
        except ValueError as error:
            raise PROPERTY_VALUE.with_reason("invalid script", f"'$.script' - {error}") from None
    document = await call.database.write(lambda tx: _change(tx, call, script, has_script=has_script))
    if script is not None and virtual is not None:
        await virtual.set_script(call.path, script)
    call.database.signals.hint("terminal", call.path)
    return Answer(200, document)


async def revoke(call: Call) -> Answer:
    """Revoke a terminal's device token: it may still report results of its own leases for 7 days."""
    terminal = await _lock(call.tx, call.path)
    if await store.revoke_tokens(call.tx, terminal.seller_id, terminal.terminal_id, call.now_ms):
        await audit.record(call, call.tx, "terminals.revoke", terminal.terminal_id)
        if call.database.signals.watched:
            call.tx.notify(f"hint:terminal:{terminal.terminal_id}")
    return Answer(200, await document_of(call, call.tx, terminal))


async def delete(call: Call) -> Answer:
    """Delete a terminal without a live order. Its tokens are revoked; its orders stay.

    The point of sale that was made for a virtual terminal is deleted with it.
    """

    async def work(tx: Transaction) -> None:
        owner = await registry.owner_of(tx, call.path)
        found = None if owner is None else await store.find(tx, owner, call.path)
        if found is not None and found.is_virtual:  # Its point of sale is locked before it, as everywhere.
            await stores.lock_pos(tx, found.seller_id, found.pos_id)
        terminal = await _lock(tx, call.path)
        await refuse_occupied(tx, terminal.seller_id, terminal.terminal_id, IN_USE, "delete it")
        await own_pos.remove(tx, terminal, call.now_ms)
        await audit.record(call, tx, "terminals.delete", terminal.terminal_id, before=audited(terminal))

    await call.database.write(work)
    virtual = call.shared.objects.get(VirtualTerminals)
    if virtual is not None:
        await virtual.remove(call.path)
    return Answer(204)


async def _lock(tx: Transaction, terminal_id: str) -> Terminal:
    """Return the terminal of any seller, locked until the transaction ends. Raises `TERMINAL_NOT_FOUND`."""
    owner = await registry.owner_of(tx, terminal_id)
    terminal = None if owner is None else await store.lock(tx, owner, terminal_id)
    if terminal is None:
        raise unknown()
    return terminal


async def _change(tx: Transaction, call: Call, script: str | None, *, has_script: bool) -> RegisteredTerminal:
    """Make the changes; points of sale are locked before the terminal, as everywhere.

    `has_script`: it is a virtual terminal that this process runs. Raises `PROPERTY_VALUE` for a script of any other.
    """
    body: TerminalChange = call.body
    before, pos_id = await _lock_place(tx, call)
    if script is not None and not has_script:
        raise PROPERTY_VALUE.with_reason(
            "no virtual terminal of this service",
            "'$.script' - must be omitted: only virtual terminals of `paydesk dev` have a script",
        )
    seller_id, terminal_id = before.seller_id, before.terminal_id
    mode = body.operating_mode or before.operating_mode
    is_moved = (pos_id, mode) != (before.pos_id, before.operating_mode)
    if is_moved or body.tip_percentages is not None:
        await refuse_occupied(tx, seller_id, terminal_id, TERMINAL_BUSY, "change it")
    if is_moved and mode == "PDV":
        await refuse_second_pdv(tx, seller_id, pos_id, terminal_id, live=bool(before.live))
    if pos_id != before.pos_id:
        await registry.move(tx, seller_id, terminal_id, pos_id)
    if mode != before.operating_mode:
        await store.set_mode(tx, seller_id, terminal_id, mode)
    if body.tip_percentages is not None:
        await registry.set_tips(tx, seller_id, terminal_id, body.tip_percentages)
    if script is not None:
        await registry.set_script(tx, seller_id, terminal_id, script)
    after = await store.find(tx, seller_id, terminal_id)
    assert after is not None, "the row is locked until the commit"
    if after != before:
        await audit.record(call, tx, "terminals.change", terminal_id, before=audited(before), after=audited(after))
    return await document_of(call, tx, after)


async def _lock_place(tx: Transaction, call: Call) -> tuple[Terminal, int]:
    """Lock the point of sale where the terminal stays or moves to, then the terminal. Return both, the former by id."""
    body: TerminalChange = call.body
    owner = await registry.owner_of(tx, call.path)
    found = None if owner is None else await store.find(tx, owner, call.path)
    if found is None:
        raise unknown()
    stays = body.pos_id is None and body.store_id is None
    if stays:
        pos = await stores.lock_pos(tx, found.seller_id, found.pos_id)
    else:
        seller_id, store_id = found.seller_id, body.store_id
        pos = await places.find(tx, seller_id, call.path, store_id=store_id, pos_id=body.pos_id, now_ms=call.now_ms)
    terminal = await store.lock(tx, found.seller_id, call.path)
    if terminal is None:
        raise unknown()
    return terminal, terminal.pos_id if stays or pos is None else pos.pos_id
