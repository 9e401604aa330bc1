"""The bodies of `/dev/faults`: a fault as it is added, and as it is shown with its firings."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta
from pydantic import Field, JsonValue

from paydesk.core.clock import rfc3339
from paydesk.core.faults import EDGES, MATCHES, PER, FaultRefused, json_or_text
from paydesk.core.model import Model
from paydesk.core.response import Count, Response, Time, one_of
from paydesk_dev.faults.active import BODY_CHARACTERS_MAX, Active, Firing

_EVERY = "One of this number of matching requests is disturbed."
_TIMES = "Maximum number of firings; 0: without end."
_MATCH = (
    "Only requests with all of these values: `application` is a `client_id`, `seller` a `user_id`, `mode` test or live,"
    " `reference` an `external_reference`, `grant` a `grant_type`. Terminal and reference of a request that names an"
    " order alone are looked up."
)
_NAMES: list[JsonValue] = list(dict.fromkeys(name for names in MATCHES.values() for name in names))


class NewFault(Model):
    """The body of `POST /dev/faults`."""

    edge: str = Field(description="The edge.", json_schema_extra={"enum": list(EDGES)})
    request: str = Field(
        description="The name of an operation, `METHOD /path/{id}`, or `*`.", examples=["create_order"], max_length=200
    )
    kind: str = Field(
        description="What goes wrong, with its argument: `answer_lost`, `slow:5s`, `error:500`; of several, separated"
        " by commas, each firing takes one.",
        examples=["answer_lost"],
        max_length=200,
    )
    match: dict[str, str] | None = Field(
        None, description=_MATCH, json_schema_extra={"propertyNames": {"enum": _NAMES}}
    )
    every: int | None = Field(None, description=f"{_EVERY} Default: 1, each.")
    times: int | None = Field(None, description=f"{_TIMES} Default: 1.")
    skip: int | None = Field(None, description="The number of matching requests that pass first.")
    delay: float | None = Field(
        None, description="Seconds. `late` and `slow` without it are held until the release, for 60 s at most."
    )
    per: str | None = Field(None, json_schema_extra={"enum": list(PER)})
    seed: int | None = Field(None, description="Chooses which one of `every`, the same in each run; else the last.")
    status: int | None = Field(None, description="The status that `error` and `error_after` answer. Default: 503.")
    set: dict[str, Any] | None = Field(
        None, description="For `altered`: values by JSON pointers.", examples=[{"/status": "weird"}]
    )


class FiringResult(Response, frozen=True):
    """The answer of a disturbed request as the service made it."""

    status: int
    body: Annotated[
        Any,
        Meta(
            description=f"JSON, or text. Without secrets, and not in lists; cut at {BODY_CHARACTERS_MAX:,} characters."
        ),
    ] = None


class FaultFiring(Response, frozen=True, kw_only=True):
    """One firing of a fault."""

    number: int
    kind: str
    time: Time
    request_id: Annotated[str, Meta(description="The `X-Request-Id` of the answer.")]
    operation: str
    held: Annotated[bool, Meta(description="Whether the request or its answer is held now.")]
    key: Annotated[str, Meta(description="The `X-Idempotency-Key`.")] | None = None
    order: str | None = None
    terminal: str | None = None
    answer: (
        Annotated[FiringResult, Meta(description="What the sender got, or would have got; none if nothing was done.")]
        | None
    ) = None


class ActiveFault(Response, frozen=True, kw_only=True):
    """A fault of this process with its firings."""

    id: str
    edge: Annotated[str, one_of(EDGES)]
    request: str
    kind: str
    match: Annotated[dict[str, str], Meta(description=_MATCH)]
    every: Annotated[int, Meta(description=_EVERY)]
    times: Annotated[int, Meta(description=_TIMES)]
    skip: int
    per: Annotated[str, one_of(PER)]
    line: Annotated[str, Meta(description="The same fault in one line, as commands and settings have it.")]
    created_date: Time
    matched: Annotated[Count, Meta(description="The matching requests so far.")]
    fired_count: Annotated[Count, Meta(description="Its firings so far.")]
    fired: Annotated[list[FaultFiring], Meta(description="The last 200 firings, in their order.")]
    delay: float | None = None
    seed: int | None = None
    status: int | None = None
    set: Annotated[dict[str, Any], Meta(description="Values by JSON pointers.")] | None = None


class ActiveFaults(Response, frozen=True):
    """Faults, the oldest first."""

    data: list[ActiveFault]


def document_of(active: Active, *, has_bodies: bool = True) -> ActiveFault:
    """Return the document of a fault, with the bodies of answers or without."""
    fault = active.fault
    return ActiveFault(
        id=active.id,
        edge=fault.edge,
        request=fault.request,
        kind=fault.kind,
        match=dict(fault.match),
        every=fault.every,
        times=fault.times,
        skip=fault.skip,
        per=fault.per,
        line=fault.line,
        created_date=rfc3339(active.created_ms),
        matched=active.matched,
        fired_count=active.fired,
        fired=[_fired(firing, has_bodies=has_bodies) for firing in active.firings],
        delay=fault.delay,
        seed=fault.seed,
        status=fault.status,
        set=dict(fault.set) or None,
    )


def refused_field(error: FaultRefused) -> str:
    """Return the detail of a refusal of the grammar."""
    return f"'$.{error.field}' - {error.rule}"


def _fired(firing: Firing, *, has_bodies: bool) -> FaultFiring:
    answer = None
    if firing.answer is not None:
        status, text = firing.answer
        answer = FiringResult(status, json_or_text(text) if text and has_bodies else None)
    return FaultFiring(
        number=firing.number,
        kind=str(firing.kind),
        time=rfc3339(firing.time_ms),
        request_id=firing.request.request_id,
        operation=firing.operation,
        held=firing.is_held,
        key=firing.request.key or None,
        order=firing.order or None,
        terminal=firing.terminal or None,
        answer=answer,
    )
