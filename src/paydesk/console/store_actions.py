"""What an operator does about a seller's stores and points of sale: add, change, delete.

The page of a terminal has forms that add them too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from paydesk.console.actions import ActionForm, Done, Field, act, differing
from paydesk.console.api import ApiRefused, Document, every
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import form, screen
from paydesk.console.terminal_looks import serial_of
from paydesk.core.ids import NUMBER_PATTERN
from paydesk.operation import Answer

SECTION = "sellers"
NAME = Field("name", "Name", maxlength=100)
EXTERNAL_ID = Field(
    "external_pos_id", "External id", maxlength=60, hint="The seller's own id for it, unique per seller."
)
NO_UNDO = "This cannot be undone."


@dataclass(frozen=True, slots=True)
class Origin:
    """The page that a form belongs to: its path and its section. `note` is what the form says about it."""

    path: str
    section: str = SECTION
    note: str = ""


def seller_path(seller_id: object) -> str:
    """Return the path of the page of a seller."""
    return f"{PATH}/sellers/{seller_id}"


async def create_store(request: ConsoleRequest, seller_id: int, seller_name: str, origin: Origin) -> Answer:
    """Show the form that adds a store to a seller, or add it. A second store of the same name is refused."""
    action = ActionForm(
        title="New store",
        says=(f"It belongs to {seller_name}, and has no point of sale at first. {origin.note}".rstrip(),),
        submit="Add the store",
        back=origin.path,
        section=origin.section,
        fields=(NAME,),
        repeatable=True,
    )

    async def work(sent: Mapping[str, str]) -> Done:
        # A form that is sent again after its answer was lost adds no second store.
        await _check_name(request, seller_id, sent["name"])
        made = await request.api.post("stores", body={"seller_id": seller_id, "name": sent["name"]})
        return Done(f"The store {made['name']} is added.")

    return await act(request, action, work)


async def _check_name(request: ConsoleRequest, seller_id: int, name: str) -> None:
    """Refuse a name that a store of the seller has. Raises `ApiRefused`."""
    existing = await every(lambda after: request.api.get("stores", seller=seller_id, after=after))
    if any(one["name"] == name for one in existing):
        message, detail = "The name is taken.", "'name' - must not be that of another store of the seller"
        raise ApiRefused(409, "name_taken", message, (detail,), request.call.request_id)


async def create_pos(request: ConsoleRequest, seller_id: int, store_id: int, store_name: str, origin: Origin) -> Answer:
    """Show the form that adds a point of sale to a store, or add it."""
    action = ActionForm(
        title="New point of sale",
        says=(f"It is in the store {store_name}. {origin.note}".rstrip(),),
        submit="Add the point of sale",
        back=origin.path,
        section=origin.section,
        fields=(
            EXTERNAL_ID,
            Field("name", "Name", maxlength=100, required=False, hint="Empty: the same as the external id."),
        ),
        repeatable=True,
    )

    async def work(sent: Mapping[str, str]) -> Done:
        body = {
            "seller_id": seller_id,
            "store_id": store_id,
            "external_pos_id": sent["external_pos_id"],
            **({"name": sent["name"]} if sent["name"] else {}),
        }
        made = await request.api.post("pos", body=body)
        return Done(f"The point of sale {made['name']} is added to {store_name}.")

    return await act(request, action, work)


@screen
async def add_store(request: ConsoleRequest) -> Answer:
    """Add a store to a seller."""
    seller = await request.api.get("sellers/{}", request.path)
    origin = Origin(seller_path(seller["user_id"]), note="Add points of sale to it afterwards.")
    return await create_store(request, seller["user_id"], seller["name"], origin)


@screen
async def rename_store(request: ConsoleRequest) -> Answer:
    """Rename a store. The name of another store of the seller is refused."""
    store = await _store(request)
    action = _about(
        store,
        f"Rename the store {store['name']}",
        "Its points of sale and their terminals stay in it. The new name is shown at once.",
        fields=(_with_value(NAME, store["name"]),),
        submit="Save",
        is_change=True,
    )

    async def work(sent: Mapping[str, str]) -> Done:
        wanted = differing(action, sent)
        if not wanted:
            return Done("Nothing has changed.")
        await _check_name(request, store["seller_id"], sent["name"])
        changed = await request.api.patch("stores/{}", store["store_id"], body=wanted, seller=store["seller_id"])
        return Done(f"The store {store['name']} is now {changed['name']}.")

    return await act(request, action, work)


@screen
async def delete_store(request: ConsoleRequest) -> Answer:
    """Delete a store without points of sale."""
    store = await _store(request)
    action = _about(
        store,
        f"Delete the store {store['name']}",
        f"The store is not listed any more. Orders that were made there stay. {NO_UNDO}",
        "It must have no points of sale: delete these first.",
        submit="Delete the store",
        danger=True,
    )

    async def work(_: Mapping[str, str]) -> Done:
        await request.api.delete("stores/{}", store["store_id"], seller=store["seller_id"])
        return Done(f"The store {store['name']} is deleted.")

    return await act(request, action, work)


@screen
async def add_pos(request: ConsoleRequest) -> Answer:
    """Add a point of sale to a store."""
    store = await _store(request)
    origin = Origin(seller_path(store["seller_id"]), note="Terminals can then be moved to it.")
    return await create_pos(request, store["seller_id"], store["store_id"], store["name"], origin)


@screen
async def change_pos(request: ConsoleRequest) -> Answer:
    """Change a point of sale's name and external id."""
    pos = await _pos(request)
    action = _about(
        pos,
        f"Change the point of sale {name_of(pos)}",
        "Its terminals stay at it. Applications see the new values from the next request on.",
        fields=(_with_value(EXTERNAL_ID, pos["external_pos_id"]), _with_value(NAME, pos["name"])),
        submit="Save",
        is_change=True,
    )

    async def work(sent: Mapping[str, str]) -> Done:
        wanted = differing(action, sent)
        if not wanted:
            return Done("Nothing has changed.")
        changed = await request.api.patch("pos/{}", pos["pos_id"], body=wanted, seller=pos["seller_id"])
        return Done(f"The point of sale {changed['name']} is changed.")

    return await act(request, action, work)


@screen
async def delete_pos(request: ConsoleRequest) -> Answer:
    """Delete a point of sale without terminals."""
    pos = await _pos(request)
    action = _about(
        pos,
        f"Delete the point of sale {name_of(pos)}",
        f"The point of sale is not listed any more. Orders that were made there stay. {NO_UNDO}",
        "It must have no terminals: move or delete these first.",
        submit="Delete the point of sale",
        danger=True,
    )

    async def work(_: Mapping[str, str]) -> Done:
        await request.api.delete("pos/{}", pos["pos_id"], seller=pos["seller_id"])
        return Done(f"The point of sale {name_of(pos)} is deleted.")

    return await act(request, action, work)


def name_of(pos: Document) -> str:
    """Return the name of a point of sale; of one that is named after its terminal, the serial number."""
    return serial_of(pos["name"]) if pos["name"] == pos["external_pos_id"] else str(pos["name"])


async def _store(request: ConsoleRequest) -> Document:
    """Return the store of the path. Raises `ApiRefused`."""
    seller_id, store_id = request.call.paths
    found = await request.api.get("stores", seller=seller_id, after=_before(seller_id, store_id), limit=1)
    return _only(request, found["data"], "store_id", store_id, "store")


async def _pos(request: ConsoleRequest) -> Document:
    """Return the point of sale of the path. Raises `ApiRefused`."""
    seller_id, pos_id = request.call.paths
    found = await request.api.get("pos", seller=seller_id, after=_before(seller_id, pos_id), limit=1)
    return _only(request, found["data"], "pos_id", pos_id, "point of sale")


def _before(seller_id: str, number: str) -> str:
    """Return the cursor of a list by seller and id that this row follows: the list has no other way to find one row."""
    return f"{seller_id}.{max(int(number) - 1, 0)}"


def _only(request: ConsoleRequest, rows: list[Document], name: str, number: str, noun: str) -> Document:
    for row in rows:
        if row[name] == int(number):
            return row
    raise ApiRefused(404, "not_found", f"The seller has no such {noun}.", (), request.call.request_id)


def _about(
    subject: Document,
    title: str,
    *says: str,
    submit: str,
    fields: tuple[Field, ...] = (),
    danger: bool = False,
    is_change: bool = False,
) -> ActionForm:
    back = seller_path(subject["seller_id"])
    return ActionForm(title, says, back, SECTION, submit, fields, danger, repeatable=True, is_change=is_change)


def _with_value(field: Field, value: str) -> Field:
    return replace(field, value=value)


_form = partial(form, path_pattern=NUMBER_PATTERN)
_STORE, _POS = "/sellers/{user_id}/stores/{store_id}", "/sellers/{user_id}/pos/{pos_id}"
OPERATIONS = (
    *_form("/sellers/{user_id}/add-store", "seller_add_store", "Add a store to a seller", add_store),
    *_form(f"{_STORE}/rename", "store_rename", "Rename a store", rename_store),
    *_form(f"{_STORE}/delete", "store_delete", "Delete a store", delete_store),
    *_form(f"{_STORE}/add-pos", "store_add_pos", "Add a point of sale to a store", add_pos),
    *_form(f"{_POS}/change", "pos_change", "Change a point of sale", change_pos),
    *_form(f"{_POS}/delete", "pos_delete", "Delete a point of sale", delete_pos),
)
