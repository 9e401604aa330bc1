"""The screen of the acquirers of live orders, as the node that answers has them."""

from __future__ import annotations

from paydesk.operators.acquirers import operations
from paydesk.operators.list_pages import ListScreen

LIST = ListScreen(
    operations.LIST,
    lead="of live orders, as the node that answers has them",
    empty=("No acquirer of live orders yet. The setting acquirers_file names them; then test one:",
           "paydesk acquirers test main"),
    every=15,
    sheet="operators.css",
    table="acquirers",
    has_pages=False,
)  # fmt: skip

OPERATIONS = (LIST.page(),)
