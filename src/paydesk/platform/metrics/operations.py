"""`/metrics`, which Prometheus reads at the operators' listener."""

from __future__ import annotations

from paydesk.core.metrics import all_declared
from paydesk.platform.metrics.text import MEDIA_TYPE, as_text
from paydesk.platform.operation import Answer, Call, Handled
from paydesk.platform.rows import Rows

NO_STORE = (("cache-control", "no-store"),)


async def metrics(_: Call) -> Handled:
    """Read what this node does, in the text format of Prometheus."""
    return Answer(200, as_text(all_declared()), NO_STORE, MEDIA_TYPE)


_SCRAPED = Rows("metrics", "/metrics", transaction="none", media_type=MEDIA_TYPE)

OPERATIONS = (
    _SCRAPED.get(
        "",
        "metrics",
        metrics,
        description="Numbers since the start of the node, of all its processes. They have no ids, and no secrets.",
    ),
)
