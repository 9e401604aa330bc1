"""The mutants of the feeds: numbers with gaps, numbers out of order, and events in another application's feed."""

from __future__ import annotations

from mutant import Mutant

READ = "tests/contract/test_events_read.py"
READERS = "tests/races/test_events_readers.py"
STORE = "paydesk/engine/events/store.py"
COUNTS = "tests/races/test_metrics_orders.py"
COUNTING = "paydesk/engine/events/numbering.py"
COUNTED = "Each order that ends is counted once"
ONCE = "Every event has one place in its feed"
ORDERED = "An order's events are in order"
NOTIFIED = "tests/races/test_operators_notified_races.py"
NOTIFYING = "paydesk/operators/attention/notifying.py"
NOTIFIED_ONCE = "Operators are notified once"

EVENT_MUTANTS = (
    Mutant(
        ONCE,
        "Two nodes number a feed at once",
        STORE,
        "WHERE seller_id = $1 AND application_id = $2 AND live = $3 FOR UPDATE",
        "WHERE seller_id = $1 AND application_id = $2 AND live = $3",
        READERS,
        "number_at_once and postgres",
    ),
    Mutant(
        ONCE,
        "More numbers are counted than are given",
        STORE,
        "await tx.run(ADVANCE_COUNTER, *feed.key, count)",
        "await tx.run(ADVANCE_COUNTER, *feed.key, count + 1)",
        READ,
        "a_number_of_its_own and sqlite",
    ),
    Mutant(
        ONCE,
        "Numbers that were given are not counted",
        STORE,
        "await tx.run(ADVANCE_COUNTER, *feed.key, count)",
        "pass",
        READ,
        "a_number_of_its_own and sqlite",
    ),
    Mutant(
        ORDERED,
        "The latest events of an order get the first numbers",
        STORE,
        "ORDER BY order_id, version) AS number",
        "ORDER BY order_id, version DESC) AS number",
        READ,
        "a_number_of_its_own and sqlite",
    ),
    Mutant(
        COUNTED,
        "A refund counts as another end",
        COUNTING,
        ' and not move.startswith("refund_")',
        "",
        COUNTS,
        "a_refund and sqlite",
    ),
    Mutant(
        COUNTED,
        "A unit of work counts before its commit",
        COUNTING,
        "    numbered = await database.write(partial(store.number, feed=feed, limit=limit))",
        """    async def number_and_count(tx):
        found = await store.number(tx, feed, limit)
        ENDED.add("processed", "terminal", "false")
        return found

    numbered = await database.write(number_and_count)""",
        COUNTS,
        "runs_again and sqlite",
    ),
    Mutant(
        NOTIFIED_ONCE,
        "Two nodes announce an event at once",
        NOTIFYING,
        "ORDER BY created_ms LIMIT $3 FOR UPDATE SKIP LOCKED)",
        "ORDER BY created_ms LIMIT $3)",
        NOTIFIED,
        "nodes_notify_once",
    ),
    Mutant(
        NOTIFIED_ONCE,
        "Nodes compare what needs a person at once",
        NOTIFYING,
        "    if not await tx.run(TAKE_TURN, now_ms + INTERVAL_MS, next_ms):\n        return\n",
        "    if is_first and not await tx.run(TAKE_TURN, now_ms + INTERVAL_MS, next_ms):\n        return\n",
        NOTIFIED,
        "nodes_notify_once",
    ),
)
