"""The search of operators: one text, which may be an id, a reference, a card's last digits, an address or a name."""

from __future__ import annotations

from paydesk.core.errors import PROPERTY_VALUE
from paydesk.core.response import Closed
from paydesk.core.text.characters import VISIBLE_PATTERN
from paydesk.engine.orders.status_labels import Labels
from paydesk.operators import lists
from paydesk.operators.noun import ROWS
from paydesk.operators.search.hits import RESULTS_MAX, SearchHit
from paydesk.operators.search.orders import ORDERS_READ
from paydesk.operators.search.store import EXACT, OTHERS
from paydesk.platform.filters import Filters
from paydesk.platform.operation import Answer, Call, Query

TEXT = Query(
    "q",
    {**lists.TEXT, "minLength": 1, "pattern": VISIBLE_PATTERN, "examples": ["ext_ref_1234"]},
    "What to search for.",
    required=True,
    check=lists.text,
)


class SearchDocument(Closed, frozen=True):
    """What was found, the best first."""

    data: list[SearchHit]


async def search(call: Call) -> Answer:
    """Return what the text names. Raises `PROPERTY_VALUE` for a text that nothing can have."""
    filters, labels = Filters((TEXT,), call.query), call.shared.objects[Labels]
    filters.refuse_faults()
    if not (text := filters.get("q")):
        raise PROPERTY_VALUE.with_reason("no text", "'q' - must be the text to search for")
    for lookup in EXACT:
        if exact := await lookup(call.tx, text, labels):
            return Answer(200, SearchDocument(exact))
    hits: dict[tuple[str, str], SearchHit] = {}
    for lookup in OTHERS:
        if len(hits) < RESULTS_MAX:
            for hit in await lookup(call.tx, text, labels):
                hits.setdefault((hit.type, hit.id), hit)
    return Answer(200, SearchDocument(list(hits.values())[:RESULTS_MAX]))


OPERATIONS = (
    ROWS.get(
        "search",
        "operator_search",
        search,
        summary="Search for orders, terminals, requests, sellers, applications and deliveries",
        description=(
            "By id; an order also by its external reference, the acquirer's reference, the last four digits of its"
            " card, its payer's e-mail address, or the id of its payment or of a refund; a terminal by a part of its id"
            " or of its point of sale's name; a request by its `X-Request-Id`; a seller and an application by a part of"
            " the name. Upper and lower case are the same, but a reference in mixed case must be sent as it is. The"
            " last four or more characters of an order's id, also after its first ones and an ellipsis, find it among"
            f" the newest {ORDERS_READ:,} orders, an equal number of each seller. An ellipsis in a part of an id or a"
            f" name stands for any characters. At most {RESULTS_MAX} results, the best first. An id of an order, a"
            " delivery, a subscription or a terminal has one result."
        ),
        answer=SearchDocument,
        transaction="heavy",
        query=(TEXT,),
        errors=(PROPERTY_VALUE,),
    ),
)
