"""Deliberate defects of deletions by operators, and of resets."""

from __future__ import annotations

from mutant import Mutant

DELETIONS = "tests/races/test_deletion_races.py"
RESETS = "tests/races/test_reset_races.py"

REMOVAL_MUTANTS = (
    Mutant(
        "One valid owner stays",
        "the owners are read without a lock",
        "paydesk/operators/accounts/store.py",
        "revoked_ms IS NULL ORDER BY operator_id FOR UPDATE",
        "revoked_ms IS NULL ORDER BY operator_id",
        DELETIONS,
        "owners and postgres",
    ),
    Mutant(
        "One valid owner stays",
        "the last owner can be revoked",
        "paydesk/operators/accounts/handlers.py",
        '        await _refuse_last_owner(call, operator, "revoked")\n',
        "",
        "tests/contract/test_operators_accounts.py",
        "last_owner and sqlite",
    ),
    Mutant(
        "One valid owner stays",
        "an owner who cannot authenticate counts",
        "paydesk/operators/accounts/handlers.py",
        "not any(owners.values())",
        "not owners",
        "tests/contract/test_operators_accounts.py",
        "cannot_sign_in and sqlite",
    ),
    Mutant(
        "What is in use is not deleted",
        "a store is added to a seller that is being deleted",
        "paydesk/operators/stores/handlers.py",
        "await sellers.lock_shared(call.tx",
        "await sellers.get(call.tx",
        DELETIONS,
        "new_store and postgres",
    ),
    Mutant(
        "What is in use is not deleted",
        "a seller agrees to an application that is being deleted",
        "paydesk/engine/oauth/consent/requests.py",
        "await applications.lock_shared(tx",
        "await applications.get(tx",
        DELETIONS,
        "agree and postgres",
    ),
    Mutant(
        "A reset leaves nothing behind",
        "statements of orders and of the reset alternate",
        "paydesk_dev/reset/reset.py",
        '    if call.database.name == "postgres":\n        await tx.run(LOCK_ON_POSTGRES)\n',
        "",
        RESETS,
        "under_way and postgres",
    ),
    Mutant(
        "A reset leaves nothing behind",
        "the acquirer charges a payment of a removed order",
        "paydesk/engine/payments/simulator/removals.py",
        "return order_id in self._removed",
        "return False",
        "tests/kit/test_dev_reset.py",
        "removed_order and sqlite",
    ),
    Mutant(
        "A cursor from before a reset stays valid",
        "the feed's numbers begin anew",
        "paydesk_dev/reset/reset.py",
        "UPDATE event_counters SET reset_number = last_number",
        "DELETE FROM event_counters",
        "tests/kit/test_dev_reset.py",
        "cursors and sqlite",
    ),
)
