"""Open orders, the slots of terminals that they and print actions hold, and what the workers of deadlines owe."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from paydesk.core.metrics import Labels
from paydesk.engine.orders.expiry import CANCEL_TIMEOUT, EXPIRY, UNKNOWN_OUTCOME
from paydesk.engine.orders.status import LIVE
from paydesk.engine.orders.store import LIVE_STATUSES
from paydesk.engine.terminals.print_actions import store as actions
from paydesk.engine.terminals.print_actions.action import PRINT_ACTIONS
from paydesk.platform.metrics.database import COUNTED_MAX, DatabaseGauge, Reading, owed

if TYPE_CHECKING:
    from paydesk.platform.settings import Settings

_ORDERS = DatabaseGauge("paydesk_orders_open", "Orders that have not ended.", ("status",))
_SLOTS = DatabaseGauge("paydesk_slots_held", "Terminals with an order or a print action, by its age.", ("age",))
_COUNTED: dict[tuple[DatabaseGauge, Labels], str] = {
    **{(_ORDERS, (status,)): f"status = '{status}'" for status in LIVE},
    (_SLOTS, ("under_1m",)): "age_ms < 60000",
    (_SLOTS, ("under_5m",)): "age_ms >= 60000 AND age_ms < 300000",
    (_SLOTS, ("under_1h",)): "age_ms >= 300000 AND age_ms < 3600000",
    (_SLOTS, ("over_1h",)): "age_ms >= 3600000",
}

# $1 is now. One index has the open orders in this order, another one the open print actions.
_AGE_MS = "CAST($1 AS bigint) - created_ms AS age_ms"
HELD = f"""
SELECT {", ".join(f"COUNT(CASE WHEN {condition} THEN 1 END)" for condition in _COUNTED.values())}
  FROM (SELECT * FROM (SELECT status, {_AGE_MS} FROM orders WHERE status IN ({LIVE_STATUSES})
                        ORDER BY seller_id, terminal_id LIMIT {COUNTED_MAX}) AS of_orders
         UNION ALL
        SELECT * FROM (SELECT 'printing', {_AGE_MS} FROM print_actions WHERE {PRINT_ACTIONS.open}
                        LIMIT {COUNTED_MAX}) AS of_actions) AS held"""


def _first(worker: str, sql: str, column: str, after_seconds: Callable[[Settings], int] = lambda _: 0) -> Reading:
    """Return the reading of the longest due row that `sql` finds: it is due some time after that in its column."""
    sql = f"SELECT MIN({column}) + CAST($3 AS bigint) FROM ({sql}) AS due"
    return Reading(sql, owed(worker), lambda now_ms, of: (now_ms - (ms := after_seconds(of) * 1000), 1, ms))


READINGS = (
    Reading(HELD, tuple(_COUNTED), lambda now_ms, _: (now_ms,)),
    _first("orders.expiry", EXPIRY.sql, "expires_ms"),
    _first("orders.unknown_outcome", UNKNOWN_OUTCOME.sql, "permitted_ms", UNKNOWN_OUTCOME.after_seconds),
    _first("orders.cancel_timeout", CANCEL_TIMEOUT.sql, "cancel_requested_ms", CANCEL_TIMEOUT.after_seconds),
    _first("printing.expiry", actions.OVERDUE, "expires_ms"),
)
