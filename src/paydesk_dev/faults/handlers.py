"""The handlers of `/dev/faults`: an operator has all faults, a test token those of its own application and seller."""

from __future__ import annotations

from paydesk.core import faults
from paydesk.core.errors import PROPERTY_VALUE, TOO_MANY_REQUESTS, ErrorKind
from paydesk.core.faults import EDGES, MATCHES, TIMES_MAX, Edge, FaultRefused
from paydesk.core.ids import NUMBER_PATTERN
from paydesk.platform.operation import WAIT, Answer, Call, Query
from paydesk_dev import filters
from paydesk_dev.faults.active import (
    FAULTS_MAX,
    FAULTS_OF_APPLICATION_MAX,
    WAITING_MAX,
    Active,
    Faults,
    is_owned_by,
    limited_to,
)
from paydesk_dev.faults.requests import Requests
from paydesk_dev.faults.schemas import ActiveFaults, NewFault, document_of, refused_field

FAULT_NOT_FOUND = ErrorKind(
    "fault_not_found", 404, "There is no such fault.", advice="A restart and `paydesk faults clear` remove faults."
)
TOO_MANY_FAULTS = ErrorKind(
    "too_many_faults",
    409,
    f"There are {FAULTS_MAX} faults already.",
    advice="Remove those that are no longer used.",
    repeat="later",
)
EDGE = Query("edge", {"enum": list(EDGES)}, "Only faults of this edge.")
APPLICATION = Query(
    "application",
    {"type": "string", "pattern": NUMBER_PATTERN},
    "Only faults of this application.",
    rule="must be a client_id",
)
FIRED = Query(
    "fired",
    {"type": "integer", "minimum": 1, "maximum": TIMES_MAX, "default": 1},
    "With `wait`: until this number of firings.",
)


async def add(call: Call) -> Answer:
    """Add a fault. It disturbs matching requests from now on; of two that match, the older one fires."""
    body: NewFault = call.body
    sent = body.model_dump(exclude_none=True)
    try:
        fault = call.shared.objects[Requests].checked(faults.create(**sent))
        own = _own(call, fault.edge)
        for name, value in own.items():
            if fault.match.get(name, value) != value:
                raise FaultRefused(f"match.{name}", "must be that of the access token")
    except FaultRefused as error:
        raise PROPERTY_VALUE.with_reason("not a fault", refused_field(error)) from None
    active = call.shared.objects[Faults]
    if active.is_full:
        raise TOO_MANY_FAULTS.with_reason("too many faults")
    if own and sum(is_owned_by(one, _own(call, one.fault.edge)) for one in active) >= FAULTS_OF_APPLICATION_MAX:
        message = f"There are {FAULTS_OF_APPLICATION_MAX} faults of this application already."
        raise TOO_MANY_FAULTS.with_reason("too many faults of an application", message=message)
    return Answer(201, document_of(active.add(limited_to(fault, own), call.now_ms)))


async def find_all(call: Call) -> Answer:
    """List the faults, the oldest first."""
    return Answer(200, ActiveFaults([document_of(one, has_bodies=False) for one in _chosen(call)]))


async def get(call: Call) -> Answer:
    """Get a fault with its firings; with `wait`, once it has fired `fired` times, or when the time is over."""
    values = filters.read((WAIT, FIRED), call.query)
    fault, count, active = _find(call), values.get(FIRED.name), call.shared.objects[Faults]
    if not values.get(WAIT.name):
        return Answer(200, document_of(fault))
    if active.waiting >= WAITING_MAX:
        message = f"{WAITING_MAX} requests wait for firings already. Send the next one after one of them is answered."
        raise TOO_MANY_REQUESTS.with_reason("too many requests wait", message=message, headers=(("retry-after", "5"),))

    def is_met() -> bool:
        has_gone = fault.is_removed or (call.disconnected is not None and call.disconnected())
        return has_gone or fault.fired >= count

    active.waiting += 1
    try:
        await active.until(is_met, values.get(WAIT.name))
    finally:
        active.waiting -= 1
    return Answer(200, document_of(fault))


async def release(call: Call) -> Answer:
    """Release what a fault holds: it goes on at once, and so does what the fault would hold later."""
    call.shared.objects[Faults].release(_find(call))
    return Answer(204)


async def remove(call: Call) -> Answer:
    """Remove a fault, and return it with its firings. What it holds goes on."""
    fault = _find(call)
    call.shared.objects[Faults].remove(fault)
    return Answer(200, document_of(fault))


async def clear(call: Call) -> Answer:
    """Remove all faults, or those of an edge or an application, and return them with their firings."""
    chosen = _chosen(call)
    call.shared.objects[Faults].remove(*chosen)
    return Answer(200, ActiveFaults([document_of(one, has_bodies=False) for one in chosen]))


def _chosen(call: Call) -> list[Active]:
    values = filters.read((EDGE, APPLICATION), call.query)
    edge, application = values.get(EDGE.name), values.get(APPLICATION.name)
    return [
        one
        for one in call.shared.objects[Faults]
        if is_owned_by(one, _own(call, one.fault.edge))
        and edge in (None, one.fault.edge)
        and application in (None, one.fault.match.get("application"))
    ]


def _find(call: Call) -> Active:
    """Return the fault of the path. Raises `FAULT_NOT_FOUND`, also if it is another's."""
    fault = call.shared.objects[Faults].find(call.path)
    if fault is None or not is_owned_by(fault, _own(call, fault.fault.edge)):
        raise FAULT_NOT_FOUND.with_reason("unknown, removed or another's")
    return fault


def _own(call: Call, edge: Edge) -> dict[str, str]:
    """Return what a fault of the caller must match, also that it disturbs no live request; nothing for an operator."""
    caller = call.caller
    if caller.operator_id:
        return {}
    own = {"application": str(caller.application_id), "seller": str(caller.seller_id), "mode": "test"}
    return {name: value for name, value in own.items() if name in MATCHES[edge]}
