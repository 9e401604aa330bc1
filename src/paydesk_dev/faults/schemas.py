"""The bodies of `/dev/faults`: a fault as it is added, and as it is shown with its firings."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta
from pydantic import Field

from paydesk.core.clock import rfc3339
from paydesk.core.faults import EDGES, PER, FaultRefused
from paydesk.core.model import Model
from paydesk.core.response import Count, Response, Time, one_of
from paydesk_dev.faults.active import Active, Firing, seen_terminal

_EVERY = "One of so many matching requests is disturbed."
_MATCH = "Only requests with all of these values."


class FaultMatch(Model):
    """The requests that a fault counts; of a call that names an order alone, terminal and reference are looked up."""

    application: str | None = Field(None, description="The `client_id`.")
    seller: str | None = Field(None, description="The `user_id`.")
    terminal: str | None = None
    reference: str | None = Field(None, description="The `external_reference` of the order.")
    order: str | None = None
    grant: str | None = Field(None, description="The `grant_type` of a request for tokens.")
    subscription: str | None = None
    card: str | None = None


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
    match: FaultMatch | None = Field(None, description=_MATCH)
    every: int | None = Field(None, description=f"{_EVERY} Default: 1, each.")
    times: int | None = Field(None, description="How often it fires; 0: without end. Default: 1.")
    skip: int | None = Field(None, description="So many matching requests pass first.")
    delay: float | None = Field(
        None, description="Seconds. `late` and `slow` without it are held until the release, for 60 s at most."
    )
    per: str | None = Field(None, json_schema_extra={"enum": list(PER)})
    seed: int | None = Field(None, description="Chooses which one of `every`, the same in each run; else the last.")
    status: int | None = Field(None, description="The status that `error` and `error_after` answer. Default: 503.")
    set: dict[str, Any] | None = Field(
        None, description="For `altered`: values by JSON pointers.", examples=[{"/status": "weird"}], max_length=20
    )


class FiringResult(Response, frozen=True):
    """The answer of a disturbed request as the service made it."""

    status: int
    body: Annotated[Any, Meta(description="JSON, or text that is not JSON. Without secrets.")]


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
    times: Annotated[int, Meta(description="How often it fires; 0: without end.")]
    skip: int
    per: Annotated[str, one_of(PER)]
    line: Annotated[str, Meta(description="The same fault in one line, as commands and settings have it.")]
    created_date: Time
    matched: Annotated[Count, Meta(description="The matching requests so far.")]
    fired: Annotated[list[FaultFiring], Meta(description="The last 200 firings, in their order.")]
    delay: float | None = None
    seed: int | None = None
    status: int | None = None
    set: Annotated[dict[str, Any], Meta(description="Values by JSON pointers.")] | None = None


class ActiveFaults(Response, frozen=True):
    """Faults, the oldest first."""

    data: list[ActiveFault]


def shown(active: Active) -> ActiveFault:
    """Return the document of a fault."""
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
        fired=[_fired(firing) for firing in active.firings],
        delay=fault.delay,
        seed=fault.seed,
        status=fault.status,
        set=dict(fault.set) or None,
    )


def refused_field(error: FaultRefused) -> str:
    """Return the detail of a refusal of the grammar."""
    return f"'$.{error.field}' - {error.rule}"


def _fired(firing: Firing) -> FaultFiring:
    answer = None
    if firing.answer is not None:
        status, text = firing.answer
        answer = FiringResult(status, _json_or_text(text))
    return FaultFiring(
        number=firing.number,
        kind=str(firing.kind),
        time=rfc3339(firing.time_ms),
        request_id=firing.seen.request_id,
        operation=firing.operation,
        held=firing.is_held,
        key=firing.seen.key or None,
        order=firing.order or None,
        terminal=seen_terminal(firing) or None,
        answer=answer,
    )


def _json_or_text(text: str) -> Any:
    try:
        return msgspec.json.decode(text) if text else None
    except msgspec.DecodeError:
        return text
