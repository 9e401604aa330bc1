"""`/operator/v1/acquirers`: the acquirers of live orders as the node that answers has them, and their echo."""

from __future__ import annotations

import os
import socket
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from paydesk.core.response import Closed, Time
from paydesk.engine.payments.acquirer import Acquirer
from paydesk.engine.payments.acquirers import Acquirers, CheckedAcquirer
from paydesk.engine.payments.adapters.context import AcquirerState, BreakerState, HasState
from paydesk.operators import audit, lists
from paydesk.operators.errors import ACQUIRER_NOT_FOUND
from paydesk.platform.filters import Filters
from paydesk.platform.operation import Answer, Call

FIRST = ("",)
NAME_PATTERN = "^[a-z0-9][a-z0-9_-]{0,31}$"
Node = Annotated[str, Meta(description="The host and the process that answered: each has its own connections.")]


class RuleDocument(Closed, frozen=True):
    """A rule of the acquirers file: an order follows it if all of its conditions hold."""

    seller: int | None = None
    currency: str | None = None
    terminal: str | None = None


class AcquirerDocument(Closed, frozen=True, kw_only=True):
    """An acquirer of live orders, without its secrets."""

    name: str
    adapter: str
    address: str | None = None
    key_id: str | None = None
    default: Annotated[bool, Meta(description="Whether it takes orders that no rule matches.")]
    rules: Annotated[list[RuleDocument], Meta(description="Those that lead to it, in their order.")]
    capabilities: Annotated[dict[str, Any], Meta(description="Under the names of the acquirers file.")]
    breaker: Annotated[BreakerState, Meta(description="`open`: nothing is sent to it but echoes.")] | None = None
    reason: Annotated[str, Meta(description="Why the breaker is open.")] | None = None
    next_echo_date: Annotated[Time, Meta(description="When an open breaker tries an echo.")] | None = None
    node: Node


class AcquirerPage(lists.Page[AcquirerDocument], frozen=True):
    """A page of acquirers."""


class TestedAcquirer(Closed, frozen=True, kw_only=True):
    """What came of an echo, which charges nothing."""

    name: str
    node: Node
    reachable: Annotated[bool, Meta(description="Whether there was an answer that can be trusted.")]
    reason: Annotated[str, Meta(description="Why not.")] | None = None
    clock_difference_seconds: Annotated[float, Meta(description="The acquirer's clock minus the node's.")] | None = None
    key_id: Annotated[str, Meta(description="The id of the key that signed the request.")] | None = None


async def find_all(call: Call, filters: Filters) -> Answer:
    """List the acquirers of live orders."""
    (after,) = lists.after(filters, FIRST)
    filters.refuse_faults()
    acquirers, limit = call.shared.objects[Acquirers], filters.get("limit")
    names = [name for name in sorted(acquirers.live) if name > str(after)]
    data = [_present(acquirers, name) for name in names[:limit]]
    return Answer(200, AcquirerPage(data, names[limit - 1] if len(names) > limit else None))


async def test(call: Call) -> Answer:
    """Test the connection to an acquirer with an echo. Raises `ACQUIRER_NOT_FOUND`."""
    live = call.shared.objects[Acquirers].live
    acquirer = live.get(call.path)
    if acquirer is None:
        message = f"No acquirer `{call.path}`; there is: {', '.join(sorted(live)) or 'none'}."
        raise ACQUIRER_NOT_FOUND.with_reason("not configured on this node", message=message)
    echo = await CheckedAcquirer(acquirer).echo()
    tested = TestedAcquirer(
        name=call.path,
        node=_node(),
        reachable=echo.fault is None,
        reason=echo.fault,
        clock_difference_seconds=echo.difference_seconds,
        key_id=_state(acquirer).key_id,
    )
    after = {"reachable": tested.reachable}
    await call.database.write(lambda tx: audit.record(call, tx, "acquirers.test", call.path, after=after))
    return Answer(200, tested)


def _present(acquirers: Acquirers, name: str) -> AcquirerDocument:
    acquirer, routing = acquirers.live[name], acquirers.routing
    return AcquirerDocument.of(
        _state(acquirer),
        name=name,
        adapter=acquirers.adapters.get(name, name),
        default=routing.default == name,
        rules=[RuleDocument.of(rule) for rule in routing.rules if rule.acquirer == name],
        # Sets are lists in their order, and a time zone is its name.
        capabilities=msgspec.to_builtins(acquirer.capabilities, order="sorted", enc_hook=str),
        node=_node(),
    )


def _state(acquirer: Acquirer) -> AcquirerState:
    return acquirer.state if isinstance(acquirer, HasState) else AcquirerState()


def _node() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"
