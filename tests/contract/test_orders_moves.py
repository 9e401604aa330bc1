"""Every request about an order, made over HTTP in every state: it makes the expected move, or it changes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from operator_calls import operator
from paydesk.engine.invariants import check
from paydesk.engine.orders import status
from paydesk.engine.orders.status import State
from paydesk.platform.storage.database import Database
from refund_scene import refund
from service import Device, Reply, Service, running

CANCEL_AT_TERMINAL = {"X-Allow-Cancelable-Status": "at_terminal"}
Request = Callable[[Service, Device, str], Awaitable[Reply]]


def _simulate(target: str) -> Request:
    def send(service: Service, _device: Device, order_id: str) -> Awaitable[Reply]:
        return service.request("POST", f"/v1/orders/{order_id}/events", {"status": target}, key=None)

    return send


def _release(_service: Service, device: Device, order_id: str) -> Awaitable[Reply]:
    return device.post(f"/leases/{order_id[3:]}/cancel-result", {"boot_id": device.boot_id, "done": True})


async def _release_as_operator(service: Service, device: Device, _order_id: str) -> Reply:
    person, body = await operator(service), {"reason": "The terminal is broken."}
    return await person.ask("POST", f"terminals/{device.terminal.id}/release", body)


REQUESTS: dict[str, Request] = {
    "cancel": lambda service, _, order_id: service.cancel(order_id),
    "cancel at terminal": lambda service, _, order_id: service.cancel(order_id, headers=CANCEL_AT_TERMINAL),
    "refund": lambda service, _, order_id: refund(service, order_id),
    "refund a part": lambda service, _, order_id: refund(service, order_id, "1.00"),
    "ack": lambda _, device, order_id: device.ack(order_id[3:]),
    "authorizing": lambda _, device, order_id: device.authorizing(order_id[3:]),
    "release": _release,
    "release as operator": _release_as_operator,
    "result approved": lambda _, device, order_id: device.approve(order_id[3:]),
    "result declined": lambda _, device, order_id: device.result(
        order_id[3:], outcome="declined", status_detail="high_risk"
    ),
    "result canceled": lambda _, device, order_id: device.result(order_id[3:], outcome="canceled"),
    "result unknown": lambda _, device, order_id: device.result(order_id[3:], outcome="unknown"),
    **{
        f"simulate {target}": _simulate(target)
        for target in ("processed", "failed", "canceled", "refunded", "expired", "action_required")
    },
}

# The requests that lead to each state, from a created order on.
PATHS: dict[str, tuple[State, tuple[str, ...]]] = {
    "created": (status.CREATED, ()),
    "at_terminal": (status.AT_TERMINAL, ("ack",)),
    "permitted": (status.AT_TERMINAL, ("ack", "authorizing")),
    "cancellation_requested": (status.CANCELLATION_REQUESTED, ("ack", "cancel at terminal")),
    "check_on_terminal": (status.CHECK_ON_TERMINAL, ("ack", "authorizing", "result unknown")),
    "processed": (status.PROCESSED, ("ack", "authorizing", "result approved")),
    "partially_refunded": (status.PARTIALLY_REFUNDED, ("ack", "authorizing", "result approved", "refund a part")),
    "refunded": (status.REFUNDED, ("ack", "authorizing", "result approved", "refund")),
    "canceled_by_api": (status.CANCELED_BY_API, ("cancel",)),
    "canceled_on_terminal": (status.CANCELED_ON_TERMINAL, ("ack", "result canceled")),
    "expired": (status.EXPIRED, ("ack", "simulate expired")),
    "failed": (status.FAILED["high_risk"], ("ack", "result declined")),
}


_FAILED = status.FAILED["rejected_other_reason"]
_FINAL: dict[str, tuple[int, State | None]] = {"release": (200, None), "release as operator": (200, None)}
_PAID: dict[str, tuple[int, State | None]] = {
    **_FINAL,
    "refund": (201, status.REFUNDED),
    "refund a part": (201, status.PARTIALLY_REFUNDED),
    "simulate refunded": (204, status.REFUNDED),
}
_AT_TERMINAL: dict[str, tuple[int, State | None]] = {
    "ack": (200, None),
    "result declined": (200, status.FAILED["high_risk"]),
    "result unknown": (200, status.CHECK_ON_TERMINAL),
}
_BEFORE_AUTHORIZATION: dict[str, tuple[int, State | None]] = {
    **_AT_TERMINAL,
    "result canceled": (200, status.CANCELED_ON_TERMINAL),
    "simulate failed": (204, _FAILED),
    "release as operator": (200, status.CANCELED_BY_API),
    "simulate expired": (204, status.EXPIRED),
    "simulate action_required": (204, status.CHECK_ON_TERMINAL),
}
_OPEN: dict[str, tuple[int, State | None]] = {
    **_BEFORE_AUTHORIZATION,
    "result approved": (200, status.PROCESSED),
    "simulate processed": (204, status.PROCESSED),
    "simulate canceled": (204, status.CANCELED_ON_TERMINAL),
}

# By the state that the order is in: the response, and the state that it moves to; None: the order does not change.
EXPECTED: dict[str, dict[str, tuple[int, State | None]]] = {
    "created": {
        **_OPEN,
        "cancel": (200, status.CANCELED_BY_API),
        "cancel at terminal": (200, status.CANCELED_BY_API),
        "ack": (200, status.AT_TERMINAL),
    },
    "at_terminal": {
        **_OPEN,
        "cancel at terminal": (202, status.CANCELLATION_REQUESTED),
        "authorizing": (200, None),
    },
    "permitted": {
        **_AT_TERMINAL,
        "cancel at terminal": (202, None),
        "authorizing": (200, None),
        "result approved": (200, status.PROCESSED),
        "result canceled": (409, status.CHECK_ON_TERMINAL),
    },
    "cancellation_requested": {
        **_BEFORE_AUTHORIZATION,
        "cancel at terminal": (202, None),
        "release": (200, status.CANCELED_BY_API),
        "result approved": (409, status.CHECK_ON_TERMINAL),
        "simulate canceled": (204, status.CANCELED_BY_API),
    },
    "check_on_terminal": {
        "ack": (200, None),
        "result approved": (200, status.PROCESSED),
        "result declined": (200, status.FAILED["high_risk"]),
        "result unknown": (200, None),
        "simulate processed": (204, status.PROCESSED),
        "simulate failed": (204, _FAILED),
    },
    "processed": _PAID,
    "partially_refunded": _PAID,
    **dict.fromkeys(("refunded", "canceled_by_api", "canceled_on_terminal", "expired", "failed"), _FINAL),
}

PLAYED_TWICE = ("created", "cancellation_requested", "check_on_terminal", "partially_refunded")
"""On PostgreSQL too: between them all moves are made, and refused."""


async def _order_in(service: Service, path: str) -> tuple[Device, str]:
    terminal = await service.terminal()
    device = await service.device(terminal)
    order_id = str((await service.create(terminal)).body["id"])
    state, requests = PATHS[path]
    for name in requests:
        reply = await REQUESTS[name](service, device, order_id)
        assert reply.status < 300, (name, reply)
    assert await _state(service, order_id) == state
    return device, order_id


async def _state(service: Service, order_id: str) -> State:
    order = await service.get(order_id)
    return State(order["status"], order["status_detail"], order["transactions"]["payments"][0]["status_detail"])


@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=pytest.mark.on_postgres) if path in PLAYED_TWICE else path for path in PATHS]
)
async def test_each_request_makes_its_move_or_changes_nothing(database: Database, path: str) -> None:
    """A request that `EXPECTED` does not list is refused with 400, 404 or 409, and the order is as before."""
    async with running(database, workers=False) as service:
        for name, send in REQUESTS.items():
            device, order_id = await _order_in(service, path)
            before = await service.get(order_id)
            reply = await send(service, device, order_id)
            code, target = EXPECTED[path].get(name, (None, None))
            assert reply.status == code if code is not None else reply.status in (400, 404, 409), (name, reply)
            if target is None:
                assert await service.get(order_id) == before, name
            else:
                assert await _state(service, order_id) == target, name
        # Every history is a path in the table of moves, without gaps.
        assert await check.check(database) == []
