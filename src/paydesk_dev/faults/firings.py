"""Firings for operators: the field of a recorded request that a fault disturbed, and the notice on its page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Annotated, Any

from markupsafe import Markup
from msgspec import Meta

from paydesk.console.api import Document
from paydesk.console.request import ConsoleRequest
from paydesk.core.response import Closed
from paydesk.operators.requests.handlers import RecordedRequest
from paydesk.platform.shared import Shared
from paydesk.platform.storage.database import Transaction
from paydesk_dev.extras import Extra
from paydesk_dev.faults.active import Faults, Firing

SENTENCES: Mapping[str, str] = {
    "reset": "The request never arrived: the connection was reset.",
    "late": "The request arrived late; its sender may have gone.",
    "answer_lost": "The sender never got this answer: the connection was reset.",
    "slow": "The answer was held back.",
    "dribble": "The answer came in small pieces.",
    "cut": "The sender got half of this answer.",
    "broken_json": "The sender got two thirds of this answer, which are not JSON.",
    "busy": "Refused on purpose, without an effect.",
    "limited": "Refused on purpose, without an effect.",
    "error": "Refused on purpose, without an effect.",
    "missing": "Refused on purpose, without an effect.",
    "error_after": "The request took effect, and the sender got an error instead of this answer.",
    "twice": "The request arrived twice at once.",
    "out_of_order": "A later request arrived before this one.",
    "altered": "The sender got other values than in this answer.",
    "empty": "The sender got a list without rows.",
}
"""What a fault did to a request, for people."""
NEAR_MS = 1000
"""A firing and the record of its request are at most this far apart: a till may send one id with each repeat."""


class FiredFault(Closed, frozen=True):
    """The fault that disturbed a request on purpose."""

    id: str
    kind: str
    effect: Annotated[str, Meta(description="What it did, in a sentence.")]


async def _fired(shared: Shared, _: Transaction, requests: Sequence[RecordedRequest]) -> Mapping[str, FiredFault]:
    """Return the faults by the entries of requests. If several have one id, status and time say which it was."""
    fired = list(shared.objects[Faults].fired_for({one.request_id for one in requests}))
    by_entry = {}
    for one in requests:
        at_ms = datetime.fromisoformat(one.created_date).timestamp() * 1000
        same = [(abs(at_ms - firing.ran_ms), active, firing) for active, firing in fired if _is_of(firing, one)]
        distance_ms, active, firing = min(same, key=itemgetter(0), default=(NEAR_MS, None, None))
        if active is not None and firing is not None and distance_ms < NEAR_MS:
            kind = firing.kind
            by_entry[one.entry_id] = FiredFault(active.id, str(kind), SENTENCES.get(kind.name, ""))
    return by_entry


def _is_of(firing: Firing, request: RecordedRequest) -> bool:
    status = firing.answer[0] if firing.answer is not None else 0
    return (firing.request.request_id, status) == (request.request_id, request.status)


FIRED = Extra(RecordedRequest, "fault", Annotated[FiredFault, Meta(description="In development.")] | None, _fired)


def _notice(_: ConsoleRequest, recorded: Document) -> str:
    fault: Any = recorded.get("fault")
    if fault is None:
        return ""
    return Markup('<p class="notice look why"><span><b class="mono">{}</b> {}</span></p>').format(
        fault["kind"], fault["effect"]
    )


ADDITIONS: dict[str, Callable[[ConsoleRequest, Document], str]] = {"request.notice": _notice}
