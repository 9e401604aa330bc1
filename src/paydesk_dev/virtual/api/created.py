"""`POST /operator/v1/terminals`: an operator adds a virtual terminal."""

from __future__ import annotations

import msgspec

from paydesk.core.secrets import Secret
from paydesk.engine.terminals import store, stores
from paydesk.operators import audit
from paydesk.operators.errors import POS_NOT_FOUND
from paydesk.operators.terminals.handlers import refuse_second_pdv
from paydesk.platform import roles
from paydesk.platform.operation import Answer, Call
from paydesk.platform.storage.database import Transaction
from paydesk_dev.virtual import page_keys
from paydesk_dev.virtual.api import store as virtual
from paydesk_dev.virtual.api.schemas import TerminalRequest, VirtualTerminal
from paydesk_dev.virtual.fleet import Fleet


async def create(call: Call) -> Answer:
    """Add a virtual terminal. It is started after the commit; the response is sent once it is connected."""
    body: TerminalRequest = call.body

    async def work(tx: Transaction) -> tuple[VirtualTerminal, Secret]:
        seller_id, mode = await virtual.find_seller(tx, body.seller_id), body.operating_mode
        if body.pos_id is not None:
            if await stores.lock_pos(tx, seller_id, body.pos_id) is None:
                raise POS_NOT_FOUND.with_reason("not a point of sale of this seller")
            if mode == "PDV":
                await refuse_second_pdv(tx, seller_id, body.pos_id, live=False)
        terminal = await virtual.create(
            tx, seller_id, pos_id=body.pos_id, script=body.script, operating_mode=mode, now_ms=call.now_ms
        )
        added = VirtualTerminal.of(terminal, id=terminal.terminal_id)
        # Without the address of its page, which has a key.
        await audit.record(call, tx, "terminals.create", added.id, after=added)
        return added, await store.mint_token(tx, terminal.seller_id, terminal.terminal_id, call.now_ms)

    added, token = await call.database.write(work)
    fleet = call.shared.objects.get(Fleet)
    assert fleet is not None, "only `paydesk dev` has this endpoint"
    await fleet.add(added.id, token.reveal(), added.script)
    call.database.signals.hint("terminal", added.id)
    may_act = roles.permits(call.caller.role, "change")
    url = page_keys.page_url(call.settings.public_url or "", call.keys, added.id) if may_act else None
    return Answer(201, msgspec.structs.replace(added, page_url=url))
