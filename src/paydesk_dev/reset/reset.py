"""`POST /dev/reset`: removes the orders of all sellers with all that depends on them, recorded requests, issued tokens.

What operators made stays, with the clock and the counters of the event feeds. The virtual terminals are stopped
meanwhile and go on with empty journals.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial

from paydesk.core.secrets import digest
from paydesk.engine.payments.simulator.removals import Removals
from paydesk.engine.terminals import own_pos
from paydesk.engine.terminals import store as terminals
from paydesk.engine.webhooks.schedule import PENDING
from paydesk.engine.webhooks.schemas import OPERATORS
from paydesk.operators import audit
from paydesk.platform.http.recording.recorder import RequestRecorder
from paydesk.platform.operation import Answer, Call
from paydesk.platform.storage.database import Locked, Row, Transaction, Unavailable
from paydesk_dev.credentials_file import KeptCredentials
from paydesk_dev.faults.active import Faults
from paydesk_dev.virtual.fleet import Fleet

EMPTIED = (
    "idempotency_keys",
    "print_actions",
    "orders",
    "leases",
    "lease_steps",
    "results",
    "lease_authorizations",
    "payment_references",
    "order_events",
    "deliveries",
    "attempts",
    "confirmations",
    "inquiries",
    "reversals",
    "refunds",
    "simulator_payments",
    "simulator_movements",
    "simulator_requests",
    "simulator_confirmation_movements",
    "simulator_confirmation_requests",
    "codes",
    "demo_inbox",
    "recorded_requests",
)
"""The tables that a reset empties, but for deliveries about authorizations, with their attempts."""
CHANGED = ("terminals", "subscriptions", "event_counters", "token_families", "access_tokens", "refresh_tokens")

# In the order in which other transactions use them: most deadlocks are avoided, and the others end in a retry.
_IN_ORDER = (
    *("idempotency_keys", "event_counters", "terminals", "print_actions", "orders", "leases", "lease_steps"),
    *(
        "results",
        "lease_authorizations",
        "payment_references",
        "confirmations",
        "inquiries",
        "reversals",
        "refunds",
        "order_events",
        "attempts",
    ),
    *("deliveries", "subscriptions", "simulator_requests", "simulator_confirmation_requests", "simulator_payments"),
    *("simulator_movements", "simulator_confirmation_movements", "codes"),
    *("token_families", "refresh_tokens", "access_tokens", "demo_inbox", "recorded_requests"),
)

# A transaction under way ends first, and later ones find the tables empty: without these locks, statements of an order
# and of the reset could alternate. SQLite runs one transaction at a time.
LOCK_ON_POSTGRES = f"LOCK TABLE {', '.join(_IN_ORDER)} IN ACCESS EXCLUSIVE MODE"
ATTEMPTS_MAX = 5
"""On PostgreSQL an attempt fails if the locks cannot be had, for example after several deadlocks."""

# Without a condition, so that SQLite empties the whole table at once.
DELETE_ALL = tuple(f"DELETE FROM {table}" for table in EMPTIED)

# Orders that a terminal, a request, a worker or a notification may be working on.
UNFINISHED = f"""
SELECT order_id FROM orders WHERE status IN ('created', 'at_terminal')
UNION SELECT order_id FROM confirmations WHERE status IN ('provisional', 'confirming')
UNION SELECT order_id FROM inquiries WHERE ended_ms IS NULL
UNION SELECT order_id FROM reversals WHERE status = 'pending'
UNION SELECT order_id FROM refunds WHERE status = 'processing'
UNION SELECT order_id FROM deliveries WHERE {PENDING}"""

LEASED_TERMINALS = """
SELECT terminal_id FROM orders WHERE status IN ('created', 'at_terminal')
UNION SELECT terminal_id FROM terminals WHERE action_id IS NOT NULL"""

# Deliveries about authorizations, which are not removed. Their `order_id` is the application's. The events of those to
# operators are in the table of the orders' events.
_KEPT = f"order_id NOT LIKE 'ORD%' AND d.seller_id <> {OPERATORS}"
KEPT_DELIVERIES = f"SELECT * FROM deliveries d WHERE {_KEPT}"

KEPT_ATTEMPTS = f"""
SELECT a.* FROM deliveries d JOIN attempts a ON a.seller_id = d.seller_id AND a.delivery_id = d.delivery_id
 WHERE {_KEPT}"""

FREE_TERMINALS = "UPDATE terminals SET action_id = NULL WHERE action_id IS NOT NULL"

# A cursor from before the reset stays valid, because numbers go on.
MARK_FEEDS = "UPDATE event_counters SET reset_number = last_number"

END_FAMILIES = """
DELETE FROM token_families WHERE NOT EXISTS (
       SELECT 1 FROM access_tokens t
        WHERE t.seller_id = token_families.seller_id AND t.family_id = token_families.family_id)"""

# A family goes back to the generation of its token that is kept.
REWIND_FAMILIES = """
UPDATE token_families SET generation = (
       SELECT MAX(t.generation) FROM access_tokens t
        WHERE t.seller_id = token_families.seller_id AND t.family_id = token_families.family_id)"""

END_REFRESH_TOKENS = """
DELETE FROM refresh_tokens WHERE NOT EXISTS (
       SELECT 1 FROM token_families c
        WHERE c.seller_id = refresh_tokens.seller_id AND c.family_id = refresh_tokens.family_id
          AND c.generation = refresh_tokens.generation)"""


async def reset(call: Call) -> Answer:
    """Remove all orders and start anew. Tokens that are not in the credentials file are removed too."""
    objects = call.shared.objects
    fleet, credentials, recorder = objects.get(Fleet), objects.get(KeptCredentials), objects[RequestRecorder]
    kept = kept_tokens(credentials)
    removals = objects[Removals]
    async with removals.lock, AsyncExitStack() as stack:
        if fleet is not None:
            await stack.enter_async_context(fleet.reset())
        await stack.enter_async_context(recorder.writing)
        recorder.forget()
        await removals.end_held()
        objects[Faults].count_anew()
        for terminal_id in await _commit(call, sorted(kept)):
            if fleet is not None:
                await fleet.remove(terminal_id)
    if credentials is not None:
        await credentials.renew()
    return Answer(204)


def kept_tokens(credentials: KeptCredentials | None) -> set[bytes]:
    """Return the digests of the tokens that stay: those in the credentials file."""
    return {digest(text) for text in credentials.texts()} if credentials is not None else set()


async def _commit(call: Call, kept: list[bytes]) -> list[str]:
    """Remove everything in one transaction; return the ids of removed terminals.

    It may be repeated, also if the outcome of a commit is unknown.
    """
    for attempt in range(1, ATTEMPTS_MAX + 1):
        try:
            return await call.database.write(partial(_remove, call=call, kept=kept))
        except (Unavailable, Locked):
            if attempt == ATTEMPTS_MAX:
                raise
    raise AssertionError("the last attempt returns or raises")


async def _remove(tx: Transaction, call: Call, kept: list[bytes]) -> list[str]:
    if call.database.name == "postgres":
        await tx.run(LOCK_ON_POSTGRES)
    # Remembered before the commit: what has waited for it must find the orders here. To remember twice does no harm.
    call.shared.objects[Removals].remember(row[0] for row in await tx.all(UNFINISHED))
    leased = await tx.all(LEASED_TERMINALS)
    deliveries, attempts = await tx.all(KEPT_DELIVERIES), await tx.all(KEPT_ATTEMPTS)
    for statement in DELETE_ALL:
        await tx.run(statement)
    await _insert(tx, "deliveries", deliveries)
    await _insert(tx, "attempts", attempts)
    await tx.run(FREE_TERMINALS)
    await tx.run(MARK_FEEDS)
    await _remove_tokens(tx, kept)
    removed: list[str] = []
    if call.body.terminals:
        # The virtual ones of all sellers for which a point of sale was made, with it.
        own = [one for one in await terminals.virtual(tx) if await own_pos.has_own_pos(tx, one)]
        for terminal in own:
            await own_pos.remove(tx, terminal, call.now_ms)
        removed = [terminal.terminal_id for terminal in own]
    await audit.record(call, tx, "dev.reset", "orders")
    for (terminal_id,) in leased:
        tx.notify(f"terminal:{terminal_id}")
    # The caches of tokens and clients are cleared.
    tx.notify("applications")
    return removed


async def _insert(tx: Transaction, table: str, rows: list[Row]) -> None:
    """Insert rows as they were read."""
    for row in rows:
        places = ", ".join(f"${place}" for place in range(1, len(row) + 1))
        await tx.run(f"INSERT INTO {table} VALUES ({places})", *row)


async def _remove_tokens(tx: Transaction, kept: list[bytes]) -> None:
    """Delete the tokens with other digests than these, and families without an access token."""
    places = ", ".join(f"${place}" for place in range(1, len(kept) + 1))
    condition = f"WHERE digest NOT IN ({places})" if kept else ""
    for table in ("access_tokens", "refresh_tokens"):
        await tx.run(f"DELETE FROM {table} {condition}", *kept)
    await tx.run(END_FAMILIES)
    await tx.run(REWIND_FAMILIES)
    await tx.run(END_REFRESH_TOKENS)
