"""Where terminals are installed: the choice of a place, and moving a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from paydesk.console.actions import ActionForm, Done, Field, act
from paydesk.console.request import ConsoleRequest
from paydesk.console.screen import form, screen
from paydesk.console.terminal_actions import NEEDS_FREE
from paydesk.console.terminal_looks import place_of
from paydesk.console.terminals import HERE, SECTION
from paydesk.operation import Answer
from paydesk.operators.terminals.fields import serial_of

READ_MAX = 200
STORE, POS = "store_id", "pos_id"
OWN = "a point of sale of its own"


@screen
async def move(request: ConsoleRequest) -> Answer:
    """Move a terminal to another point of sale."""
    terminal = await request.api.get("terminals/{}", request.path)
    action = ActionForm(
        title=f"Move {serial_of(request.path)}",
        says=(f"It is at {place_of(terminal)}. Orders that it had stay where they were made.", NEEDS_FREE),
        submit="Move the terminal",
        back=f"{HERE}/{request.path}",
        section=SECTION,
        fields=(await place_field(request, terminal["seller_id"], f"{POS}:{terminal['pos_id']}"),),
    )

    async def work(sent: Mapping[str, str]) -> Done:
        changed = await request.api.patch("terminals/{}", request.path, body=place_sent(sent["place"]))
        return Done(f"The terminal is at {place_of(changed)}.")

    return await act(request, action, work)


async def place_field(request: ConsoleRequest, seller_id: int, now: str, *unchanged: tuple[str, str]) -> Field:
    """Return the field that chooses a point of sale of a seller, or a new one in a store. `unchanged` goes first."""
    found = await request.api.get("stores", seller=seller_id, limit=READ_MAX)
    at = await request.api.get("pos", seller=seller_id, limit=READ_MAX)
    stores = {one["store_id"]: one["name"] for one in found["data"]}
    options = [*unchanged]
    options += [
        (f"{POS}:{one['pos_id']}", f"{stores.get(one['store_id'], one['store_id'])}: {_pos_name(one)}")
        for one in at["data"]
    ]
    options += [(f"{STORE}:{store_id}", f"{name}: {OWN}") for store_id, name in stores.items()]
    is_cut = "next" in found or "next" in at
    hint = f"The first {READ_MAX} only. Any other: paydesk terminals change ID --pos POS_ID" if is_cut else ""
    return Field("place", "Point of sale", "select", value=now, options=options, hint=hint, sets=(POS, STORE))


def place_sent(chosen: str) -> dict[str, object]:
    """Return the field of `/operator/v1` for a choice: a store or a point of sale; empty for none."""
    kind, _, number = chosen.partition(":")
    is_known = kind in (STORE, POS) and number.isascii() and number.isdigit() and len(number) <= 18
    return {kind: int(number)} if is_known else {}


def _pos_name(pos: Mapping[str, str]) -> str:
    name, identity = pos["name"], pos["external_pos_id"]
    return name if name == identity else f"{name} ({identity})"


OPERATIONS = form("/terminals/{terminal_id}/place", "terminal_place", "Move a terminal", move)
