"""The parameters of the development lists: unknown ones are refused, because a filter that is misspelled finds all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paydesk.core.ids import NUMBER_PATTERN, ORDER_ID_PATTERN
from paydesk.platform.filters import Filters
from paydesk.platform.operation import Query

APPLICATION = Query(
    "application",
    {"type": "string", "pattern": NUMBER_PATTERN},
    "Only of this application.",
    rule="must be the client_id of an application",
)
ORDER = Query(
    "order",
    {"type": "string", "pattern": ORDER_ID_PATTERN},
    "Only of this order.",
    rule="must be the id of an order, such as ORD01J67CQQH5904WDBVZEM4JMEP3",
)


def read(parameters: Sequence[Query], query: Mapping[str, str]) -> Filters:
    """Return the values of the parameters. Raises `property_value`, which names every fault and unknown parameter."""
    filters, names = Filters(parameters, query), [one.name for one in parameters]
    for name in query.keys() - set(names):
        filters.fault(name, f"is unknown; the parameters are {', '.join(names)}")
    filters.refuse_faults()
    return filters
