"""Pairing as operators see it: look a user code up, approve it for a seller, or deny it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from paydesk.core.errors import IN_USE, PROPERTY_VALUE, SELLER_NOT_FOUND, Refusal
from paydesk.core.response import Closed, Time
from paydesk.engine.sellers import store as sellers
from paydesk.engine.terminals import registry, store
from paydesk.engine.terminals.errors import PAIRING_NOT_FOUND, TERMINAL_ALREADY_PAIRED
from paydesk.engine.terminals.pairing import codes as pairing_codes
from paydesk.engine.terminals.pairing import store as pairing_store
from paydesk.engine.terminals.pairing.handlers import TOKEN_LIFETIME_SECONDS
from paydesk.engine.terminals.pairing.rates import PairingRates
from paydesk.engine.terminals.pairing.store import Pairing
from paydesk.engine.terminals.schemas import VIRTUAL_MODEL
from paydesk.engine.terminals.store import Terminal
from paydesk.engine.terminals.stores import Pos
from paydesk.operators import audit
from paydesk.operators.terminals import places
from paydesk.operators.terminals.fields import PairingApproval
from paydesk.operators.terminals.handlers import RegisteredTerminal, audited, document_of, refuse_occupied
from paydesk.platform.operation import Answer, Call
from paydesk.platform.storage.database import Transaction, Work

Found = TypeVar("Found")


class PairingDocument(Closed, frozen=True):
    """A terminal that asks to be paired, and whether a seller is paired with it already."""

    model: str
    serial: str
    terminal_id: str
    address: str
    paired: bool
    expires_date: Time


async def get(call: Call) -> Answer:
    """Get the terminal that shows a code: with a pairing that an operator can still decide."""

    async def work(tx: Transaction, user_code: str) -> PairingDocument | None:
        pairing = await pairing_store.pending(tx, user_code, call.now_ms)
        if pairing is None:
            return None
        owner = await registry.owner_of(tx, pairing.terminal_id)
        return PairingDocument.of(pairing, paired=owner is not None)

    return Answer(200, await _by_code(call, call.database.read, work))


async def approve(call: Call) -> Answer:
    """Pair the terminal that shows a code with a seller. Of two approvals of a code exactly one succeeds."""
    body: PairingApproval = call.body
    version, now_ms = call.keys.active, call.now_ms
    expires_ms = now_ms + TOKEN_LIFETIME_SECONDS * 1000

    async def work(tx: Transaction, user_code: str) -> RegisteredTerminal | None:
        pairing = await pairing_store.approve(
            tx, user_code, now_ms, seller_id=body.seller_id, key_version=version, expires_ms=expires_ms
        )
        if pairing is None:
            return None
        if await sellers.lock_shared(tx, body.seller_id) is None:
            raise SELLER_NOT_FOUND.with_reason("unknown seller")
        before, terminal = await _pair(tx, body, pairing, now_ms)
        token = pairing_codes.token_of(call.keys, version, pairing.device_digest, body.seller_id)
        await store.replace_token(tx, body.seller_id, terminal.terminal_id, token, now_ms)
        document = await document_of(call, tx, terminal)
        await audit.record(
            call,
            tx,
            "pairings.approve",
            terminal.terminal_id,
            before=None if before is None else audited(before),
            after={"address": pairing.address, "terminal": audited(terminal)},
        )
        return document

    paired = await _by_code(call, call.database.write, work)
    call.database.signals.hint("terminal", paired.id)
    return Answer(201, paired)


async def deny(call: Call) -> Answer:
    """Deny the pairing of the terminal that shows a code: it gets `access_denied`."""

    async def work(tx: Transaction, user_code: str) -> Pairing | None:
        pairing = await pairing_store.deny(tx, user_code, call.now_ms)
        if pairing is not None:
            await audit.record(call, tx, "pairings.deny", pairing.terminal_id, before={"address": pairing.address})
        return pairing

    await _by_code(call, call.database.write, work)
    return Answer(204)


async def _pair(
    tx: Transaction, body: PairingApproval, pairing: Pairing, now_ms: int
) -> tuple[Terminal | None, Terminal]:
    """Return the terminal before, None for a new one, and after. Raises `TERMINAL_ALREADY_PAIRED`, `IN_USE`."""
    owner = await registry.owner_of(tx, pairing.terminal_id)
    if owner not in (None, body.seller_id):
        raise _already_paired(
            "it belongs to another seller, where it must be deleted first: `paydesk terminals delete`"
        )
    if owner is not None and not body.replace:
        raise _already_paired("the seller is paired with it already; send `replace`: true to pair it anew")
    pos = None
    if owner is None or body.store_id is not None or body.pos_id is not None:
        pos = await _find_pos(tx, body, pairing, now_ms)
    before = await store.lock(tx, body.seller_id, pairing.terminal_id) if owner is not None else None
    if before is not None:
        return before, await _replace(tx, body, before, pos)
    terminal = await store.create(
        tx,
        seller_id=body.seller_id,
        pos_id=(pos or await _find_pos(tx, body, pairing, now_ms)).pos_id,
        terminal_id=pairing.terminal_id,
        live=_is_live(body, pairing.model, before=True),
        kind=body.kind or "terminal",
        now_ms=now_ms,
    )
    if terminal is None:
        raise _already_paired("it was paired by another operator meanwhile")
    return None, terminal


async def _find_pos(tx: Transaction, body: PairingApproval, pairing: Pairing, now_ms: int) -> Pos:
    return await places.find(
        tx, body.seller_id, pairing.terminal_id, store_id=body.store_id, pos_id=body.pos_id, now_ms=now_ms
    )


async def _replace(tx: Transaction, body: PairingApproval, before: Terminal, pos: Pos | None) -> Terminal:
    """Pair a locked terminal anew. Its place and kind stay unless they were sent."""
    seller_id, terminal_id = before.seller_id, before.terminal_id
    await refuse_occupied(tx, seller_id, terminal_id, IN_USE, "pair it anew")
    await registry.replace(
        tx,
        seller_id,
        terminal_id,
        live=_is_live(body, terminal_id.partition("__")[0], before=bool(before.live)),
        store_id=before.store_id if pos is None else pos.store_id,
        pos_id=before.pos_id if pos is None else pos.pos_id,
        kind=body.kind or before.kind,
    )
    after = await store.find(tx, seller_id, terminal_id)
    assert after is not None, "the row is locked until the commit"
    return after


def _is_live(body: PairingApproval, model: str, *, before: bool) -> bool:
    """Return whether the terminal takes live orders. Raises `PROPERTY_VALUE` for a live virtual terminal."""
    if model != VIRTUAL_MODEL:
        return before if body.live_mode is None else body.live_mode
    if body.live_mode:
        raise PROPERTY_VALUE.with_reason(
            "a live virtual terminal",
            f"'$.live_mode' - must be false or omitted: {VIRTUAL_MODEL} takes test orders only",
        )
    return False


def _already_paired(detail: str) -> Refusal:
    return TERMINAL_ALREADY_PAIRED.with_reason("the id has an owner", detail)


async def _by_code(
    call: Call,
    run: Callable[[Work[Found | None]], Awaitable[Found | None]],
    work: Callable[[Transaction, str], Awaitable[Found | None]],
) -> Found:
    """Run the unit of work with the user code of the path, and return what it found.

    An operator tries one code at a time. Raises `PAIRING_NOT_FOUND`, and `TOO_MANY_REQUESTS` after too many wrong ones.
    """
    user_code = pairing_codes.canonical(call.path)
    assert user_code is not None, "the path has been checked"
    rates, operator_id = call.shared.objects[PairingRates], call.caller.operator_id
    async with rates.turn(operator_id):
        rates.check_operator(operator_id)
        result = await run(lambda tx: work(tx, user_code))
        if result is None:
            rates.count_wrong_code(operator_id)
            raise PAIRING_NOT_FOUND.with_reason("no pending pairing has this code")
    return result
