"""The defects that belong to pairing, and to the deletion of terminals, stores and points of sale."""

from __future__ import annotations

from mutant import Mutant

RACES = "tests/races/test_pairing_races.py"
PAIRING = "tests/contract/test_pairing.py"
ATTACKS = "tests/contract/test_pairing_attacks.py"

ONE_TERMINAL = "A code pairs one terminal with one seller"
IN_USE = "Nothing is deleted while it is in use"

PAIRING_MUTANTS = (
    Mutant(
        ONE_TERMINAL,
        "an approval does not check whether the code was decided",
        "paydesk/engine/terminals/pairing/store.py",
        '_PENDING = "user_digest = $1 AND expires_ms > $2 AND approved_ms IS NULL AND denied_ms IS NULL"',
        '_PENDING = "user_digest = $1 AND expires_ms > $2"',
        RACES,
        "code_is_approved_once and sqlite",
    ),
    Mutant(
        ONE_TERMINAL,
        "a device code returns its token after the token was used",
        "paydesk/engine/terminals/store.py",
        'IS_UNUSED = "SELECT used_ms IS NULL AND revoked_ms IS NULL FROM',
        'IS_UNUSED = "SELECT revoked_ms IS NULL FROM',
        ATTACKS,
        "stolen and sqlite",
    ),
    Mutant(
        ONE_TERMINAL,
        "a terminal paired anew keeps its earlier token",
        "paydesk/engine/terminals/store.py",
        "    await revoke_tokens(tx, seller_id, terminal_id, now_ms)\n    await tx.run(INSERT_DEVICE",
        "    await tx.run(INSERT_DEVICE",
        PAIRING,
        "anew and sqlite",
    ),
    Mutant(
        ONE_TERMINAL,
        "a hello does not check again whether its token was revoked",
        "paydesk/engine/device/sessions.py",
        "    if not await terminals.use_token(tx, seller_id, call.caller.token_digest, call.now_ms):\n",
        "    if await terminals.use_token(tx, seller_id, call.caller.token_digest, call.now_ms) is None:\n",
        RACES,
        "begins_no_session and postgres",
    ),
    Mutant(
        ONE_TERMINAL,
        "a revoked token reports results of later orders",
        "paydesk/engine/device/results.py",
        "    if revoked_ms is not None and order.created_ms > revoked_ms + difference_ms:\n",
        "    if False:\n",
        ATTACKS,
        "no_later_order and sqlite",
    ),
    Mutant(
        IN_USE,
        "the deletion of a terminal does not lock it",
        "paydesk/operators/terminals/changes.py",
        "    terminal = None if owner is None else await store.lock(tx, owner, terminal_id)\n",
        "    terminal = None if owner is None else await store.find(tx, owner, terminal_id)\n",
        RACES,
        "about_to_be_created and postgres",
    ),
    Mutant(
        IN_USE,
        "a point of sale is not locked",
        "paydesk/engine/terminals/stores.py",
        'LOCK_POS = f"{FIND_POS} FOR UPDATE"',
        "LOCK_POS = FIND_POS",
        RACES,
        "pos_about and postgres",
    ),
    Mutant(
        "Pairing is bounded",
        "open pairings are not counted",
        "paydesk/engine/terminals/pairing/handlers.py",
        "    if await pairing_store.is_full(tx, now_ms, call.settings.pairings_open_max):\n        return None\n",
        "",
        ATTACKS,
        "flood and sqlite",
    ),
)
