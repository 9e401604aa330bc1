"""Pairing in a running service: a terminal's requests, and a whole pairing."""

from __future__ import annotations

from typing import Any

import counted
from operator_calls import Operator
from service import Reply, Service, Terminal

MODEL = "NEWLAND_N950"


def new_terminal() -> dict[str, str]:
    """Return the request of a terminal that no seller is paired with."""
    return {"model": MODEL, "serial": counted.serial()}


async def send(service: Service, path: str, body: Any) -> Reply:
    """Send a request of a terminal that has no token."""
    return await service.request("POST", f"/device/v1/pairings{path}", body, token=None, key=None)


async def ask_to_pair(service: Service, terminal_id: str = "") -> dict[str, Any]:
    """Ask to be paired, as a new terminal or this one, and return the codes."""
    model, _, serial = terminal_id.partition("__")
    reply = await send(service, "", {"model": model, "serial": serial} if terminal_id else new_terminal())
    assert reply.status == 201, reply.body
    codes: dict[str, Any] = reply.body
    return codes


async def poll(service: Service, codes: dict[str, Any]) -> Reply:
    """Ask for the device token."""
    return await send(service, "/token", {"device_code": codes["device_code"]})


async def pair(service: Service, one: Operator, terminal_id: str = "", **approval: Any) -> Terminal:
    """Pair a terminal with the service's seller and return it with its token."""
    codes = await ask_to_pair(service, terminal_id)
    body = {"seller_id": service.seller_id, **approval}
    made = await one.did("POST", f"pairings/{codes['user_code']}", body)
    return Terminal(made["id"], (await poll(service, codes)).body["device_token"])
