"""Test and live are separate: for every operation of applications, a token of one mode and data of the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from every_operation import OPERATIONS
from print_scene import PATH as ACTIONS
from print_scene import print_on, status_of
from refund_scene import paid, refund
from service import Reply, Service, Terminal, order_body

UNKNOWN_ORDER = "ORD01J67CQQH5904WDBVZEM4JMEP3"
UNKNOWN_ACTION = "0b5cf9b0-6c6e-4ff4-9b0e-0f3a3f3c6a51"


@dataclass(frozen=True)
class Side:
    """One mode: the service with its token, two of its terminals, and an order on the first."""

    service: Service
    terminal: Terminal
    free_terminal: Terminal
    order_id: str
    live: bool

    @property
    def terminal_ids(self) -> set[str]:
        """Return its terminals."""
        return {self.terminal.id, self.free_terminal.id}


async def side(service: Service, *, live: bool) -> Side:
    """Return the same seller and application with a token of this mode."""
    seen = replace(service, access_token=service.live_access_token) if live else service
    terminal, free_terminal = [await seen.terminal(live=live) for _ in range(2)]
    created = await seen.create(terminal)
    assert (created.status, created.body["live_mode"]) == (201, live)
    return Side(seen, terminal, free_terminal, created.body["id"], live)


async def create_order(mine: Side, other: Side) -> None:
    """A terminal of the other mode takes no order; the seller learns only its mode."""
    for terminal_id in (other.free_terminal.id, other.terminal.id):
        reply = await mine.service.request("POST", "/v1/orders", order_body(terminal_id))
        assert (reply.status, reply.code) == (403, "forbidden_checking_terminal_owner")
        assert_explained(reply, other)


async def get_order(mine: Side, other: Side) -> None:
    """An order of the other mode does not exist."""
    reply = await mine.service.request("GET", f"/v1/orders/{other.order_id}")
    assert_like(reply, await mine.service.request("GET", f"/v1/orders/{UNKNOWN_ORDER}"))
    assert (reply.status, reply.code) == (404, "order_not_found")


async def search_orders(mine: Side, other: Side) -> None:
    """Search finds and counts only orders of the token's mode."""
    reply = await mine.service.request("GET", "/v1/orders")
    assert ([order["id"] for order in reply.body["data"]], reply.body["paging"]["total"]) == ([mine.order_id], "1")
    reply = await mine.service.request("GET", f"/v1/orders?terminal_id={other.terminal.id}")
    assert (reply.body["data"], reply.body["paging"]["total"]) == ([], "0")


async def cancel_order(mine: Side, other: Side) -> None:
    """An order of the other mode cannot be canceled."""
    for headers in ({}, {"X-Allow-Cancelable-Status": "at_terminal"}):
        reply = await mine.service.cancel(other.order_id, headers=headers)
        assert_like(reply, await mine.service.cancel(UNKNOWN_ORDER, headers=headers))
        assert (reply.status, reply.code) == (404, "order_not_found")
    assert (await other.service.get(other.order_id))["status"] == "created"


async def refund_order(mine: Side, other: Side) -> None:
    """Nor refunded, in full or in part, even if paid."""
    order_id = await paid(other.service, live=not mine.live)
    for amount in (None, "5.00"):
        reply = await refund(mine.service, order_id, amount)
        assert_like(reply, await refund(mine.service, UNKNOWN_ORDER, amount))
        assert (reply.status, reply.code) == (404, "order_not_found")
    assert (await other.service.get(order_id))["status"] == "processed"


async def simulate_order(mine: Side, other: Side) -> None:
    """Nor brought to a status; a live order never is."""
    asked = {"status": "canceled"}
    reply = await mine.service.request("POST", f"/v1/orders/{other.order_id}/events", asked)
    assert_like(reply, await mine.service.request("POST", f"/v1/orders/{UNKNOWN_ORDER}/events", asked))
    assert (reply.status, reply.code) == (404, "order_not_found")
    own = await mine.service.request("POST", f"/v1/orders/{mine.order_id}/events", asked)
    assert own.status == (403 if mine.live else 204)
    assert (await other.service.get(other.order_id))["status"] == "created"


async def read_events(mine: Side, other: Side) -> None:
    """Only events of the token's mode are returned, and a cursor of the other mode is invalid."""
    events = (await mine.service.request("GET", "/v1/events")).body
    assert {event["data"]["id"] for event in events["data"]} == {mine.order_id}
    others = (await other.service.request("GET", "/v1/events")).body["next"]
    reply = await mine.service.request("GET", f"/v1/events?after={others}")
    assert (reply.status, reply.code) == (400, "property_value")


async def list_terminals(mine: Side, other: Side) -> None:
    """Only terminals of the token's mode are listed, counted or found."""
    listed = (await mine.service.request("GET", "/terminals/v1/list")).body
    assert {terminal["id"] for terminal in listed["data"]["terminals"]} == mine.terminal_ids
    assert listed["paging"]["total"] == len(mine.terminal_ids)
    others = (await other.service.request("GET", "/terminals/v1/list")).body["data"]["terminals"]
    for name in ("pos_id", "store_id"):
        path = f"/terminals/v1/list?{name}={others[0][name]}"
        assert (await mine.service.request("GET", path)).body["data"]["terminals"] == []


async def setup_terminals(mine: Side, other: Side) -> None:
    """A terminal of the other mode is not found, and nothing is changed."""
    for terminal_ids in ([other.free_terminal.id], [mine.free_terminal.id, other.free_terminal.id]):
        reply = await setup(mine, *terminal_ids)
        assert (reply.status, reply.code) == (404, "terminal_not_found")
        assert_explained(reply, other)
    for either in (mine, other):
        listed = (await either.service.request("GET", "/terminals/v1/list")).body["data"]["terminals"]
        assert {terminal["operating_mode"] for terminal in listed} == {"PDV"}


async def create_action(mine: Side, other: Side) -> None:
    """A terminal of the other mode is not found, and prints nothing."""
    reply = await print_on(mine.service, other.free_terminal)
    assert (reply.status, reply.code) == (404, "terminal_not_found")
    assert_explained(reply, other)
    assert (await print_on(other.service, other.free_terminal)).status == 201, "the terminal is free"


async def get_action(mine: Side, other: Side) -> None:
    """An action of the other mode does not exist."""
    action_id = (await print_on(other.service, other.free_terminal)).body["id"]
    reply = await mine.service.request("GET", f"{ACTIONS}/{action_id}")
    assert_like(reply, await mine.service.request("GET", f"{ACTIONS}/{UNKNOWN_ACTION}"))
    assert (reply.status, reply.code) == (404, "action_not_found")


async def cancel_action(mine: Side, other: Side) -> None:
    """Nor can it be canceled."""
    action_id = (await print_on(other.service, other.free_terminal)).body["id"]
    reply = await mine.service.request("POST", f"{ACTIONS}/{action_id}/cancel", {})
    assert_like(reply, await mine.service.request("POST", f"{ACTIONS}/{UNKNOWN_ACTION}/cancel", {}))
    assert (reply.status, reply.code) == (404, "action_not_found")
    assert await status_of(other.service, action_id) == "created"


async def get_user(mine: Side, other: Side) -> None:
    """The seller has both modes; the response says which one the token has."""
    own, others = [(await side.service.request("GET", "/users/me")).body for side in (mine, other)]
    assert sorted((own.pop("tags"), others.pop("tags"))) == [[], ["test_user"]]
    assert own == others


async def setup(mine: Side, *terminal_ids: str) -> Reply:
    """Request another mode of these terminals."""
    terminals = [{"id": terminal_id, "operating_mode": "STANDALONE"} for terminal_id in terminal_ids]
    return await mine.service.request("PATCH", "/terminals/v1/setup", {"terminals": terminals})


Kept = Callable[[Side, Side], Awaitable[None]]
KEPT_APART: dict[str, Kept] = {
    kept.__name__: kept
    for kept in (create_order, get_order, search_orders, cancel_order, refund_order, simulate_order, read_events,
                 list_terminals, setup_terminals, create_action, get_action, cancel_action, get_user)
}  # fmt: skip
"""By the operation's name: how what is asked of it with a token of one kind is kept from what is of the other."""


def assert_like(reply: Reply, unknown: Reply) -> None:
    """Assert that the response is, byte for byte, that for an unknown object."""
    assert (reply.status, reply.raw) == (unknown.status, unknown.raw)


def assert_explained(reply: Reply, other: Side) -> None:
    """Assert that the response says to the terminal's own seller which mode it has, and nothing of its order."""
    (detail,) = reply.details
    assert f"' - is a {'live' if other.live else 'test'} terminal, " in detail
    assert other.order_id.encode() not in reply.raw


@pytest.mark.parametrize("live", [False, True], ids=["test", "live"])
@pytest.mark.parametrize("name", [row.name for row in OPERATIONS if row.surface == "application"])
async def test_a_token_only_accesses_its_own_mode(service: Service, name: str, *, live: bool) -> None:
    """Every operation of applications has a row here."""
    assert name in KEPT_APART, f"{name} is new: say in KEPT_APART what a token of the other kind gets"
    mine, other = await side(service, live=live), await side(service, live=not live)
    await KEPT_APART[name](mine, other)


@pytest.mark.on_postgres
async def test_a_token_family_keeps_its_mode(service: Service) -> None:
    """A refresh does not change `test_token`, and the access tokens of the two modes differ."""
    scene, other_kind = service.scene, {"true": "false", "false": "true"}
    scene.clock = service.clock  # type: ignore[assignment]  # it is only asked the time
    for chosen, prefix in (("true", "TEST-"), ("false", "APP_USR-")):
        first = await token(service, scene.exchange(await scene.code(), test_token=chosen))
        refused = await token(service, scene.refresh(first.body["refresh_token"], test_token=other_kind[chosen]))
        assert (refused.status, refused.code) == (400, "invalid_request")
        for said in ({}, {"test_token": chosen}):
            refreshed = await token(service, scene.refresh(first.body["refresh_token"], **said))
            assert refreshed.body["access_token"].startswith(prefix)
            assert refreshed.body["public_key"].startswith(prefix)
            assert refreshed.body["live_mode"] is (chosen == "false")


async def token(service: Service, body: dict[str, Any]) -> Reply:
    """Request the token endpoint."""
    return await service.request("POST", "/oauth/token", body, token=None, key=None)
