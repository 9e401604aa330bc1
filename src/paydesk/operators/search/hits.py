"""The results of a search, of every type."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

from msgspec import Meta

from paydesk.core.response import Closed, Time
from paydesk.engine.orders.status_labels import Labels
from paydesk.platform.storage.database import Transaction

RESULTS_MAX = 20
HitType = Literal["order", "terminal", "request", "seller", "application", "subscription", "delivery"]


class SearchHit(Closed, frozen=True):
    """Something that the text names."""

    type: HitType
    id: str
    title: Annotated[str, Meta(description="What it is, for people.")]
    detail: Annotated[str, Meta(description="What distinguishes it from others.")]
    status: str | None = None
    date: Annotated[Time, Meta(description="When it was created or made.")] | None = None


Hits = list[SearchHit]
Lookup = Callable[[Transaction, str, Labels], Awaitable[Hits]]
