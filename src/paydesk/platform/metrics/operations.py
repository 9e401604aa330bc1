"""`/metrics` and `/metrics/database`, which Prometheus reads at the operators' listener."""

from __future__ import annotations

from paydesk.core.errors import SERVICE_UNAVAILABLE
from paydesk.platform.metrics import pages
from paydesk.platform.metrics.database import DatabaseMetrics
from paydesk.platform.metrics.text import MEDIA_TYPE
from paydesk.platform.operation import Answer, Call, Handled
from paydesk.platform.process.siblings import Siblings
from paydesk.platform.rows import Rows

NO_STORE = (("cache-control", "no-store"),)


async def metrics(call: Call) -> Handled:
    """Read what this node does, in the text format of Prometheus."""
    return Answer(200, await pages.of_node(call.shared.objects[Siblings]), NO_STORE, MEDIA_TYPE)


async def database_metrics(call: Call) -> Handled:
    """Read what the database holds, in the text format of Prometheus."""
    return Answer(200, await call.shared.objects[DatabaseMetrics].page(), NO_STORE, MEDIA_TYPE)


# Prometheus calls each node by its address, also while its clock is not trusted.
_SCRAPED = Rows("metrics", "/metrics", transaction="none", media_type=MEDIA_TYPE, is_health_check=True)

OPERATIONS = (
    _SCRAPED.get(
        "",
        "metrics",
        metrics,
        description="Numbers since the start of the node, of all its processes. They have no ids, and no secrets.",
    ),
    _SCRAPED.get(
        "/database",
        "metrics_database",
        database_metrics,
        errors=(SERVICE_UNAVAILABLE,),
        description="The same on every node; at most 20 s old. Rows are counted to 10,001, terminals to 50,000.",
    ),
)
