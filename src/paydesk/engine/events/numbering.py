"""Numbers events and counts what they say: each event is numbered once, by one node, and counted after that commit."""

from __future__ import annotations

from functools import partial

from paydesk.core.metrics import Counter, Histogram
from paydesk.engine.events import store
from paydesk.engine.events.store import Feed
from paydesk.engine.orders.status import LIVE
from paydesk.platform.storage.database import Database

ENDED = Counter(
    "paydesk_orders_ended_total",
    "Orders that are paid, failed or canceled, each once over all nodes, some seconds later. The origin has ended it:"
    " application (also an operator's cancel), terminal, acquirer, inquiry, operator, expiry, or simulation.",
    *("status", "origin", "live"),
)
ACK_DELAY = Histogram(
    "paydesk_order_ack_delay_seconds",
    "From the first offer of an order to its terminal's acknowledgement, where one node has seen both.",
).of()
_BY_LEASE = {"cancel": "application", "result": "terminal", "abort": "terminal", "authorization": "acquirer"}
_BY_LEASE |= {name: name for name in ("inquiry", "operator", "expiry")}
_WITHOUT_LEASE = {"cancel": "application", "release": "operator", "expire": "expiry"}
"""The origin by the move that has ended no lease. Only simulations of test orders have further ones."""


async def number(database: Database, feed: Feed, limit: int) -> int:
    """Number up to `limit` events of the feed and count them; return how many."""
    numbered = await database.write(partial(store.number, feed=feed, limit=limit))
    for move, status, ended_by, ack_ms in numbered:
        if ack_ms is not None:
            ACK_DELAY.add(ack_ms / 1000)
        if status not in LIVE and not move.startswith("refund_"):
            origin = _BY_LEASE.get(ended_by) or _WITHOUT_LEASE.get(move, "simulation")
            ENDED.add(status, origin, "true" if feed.live else "false")
    return len(numbered)
