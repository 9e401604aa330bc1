"""Pairing: type the code that a terminal shows, see which terminal it is, and choose the seller and the place.

A terminal shows the address of the first page as its `verification_uri`; `user_code` in the query fills the code in
(RFC 8628 section 3.3.1). Nothing is paired before the operator has seen model, serial number and address.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paydesk.console.actions import ActionForm, Done, Field, act
from paydesk.console.api import ApiRefused, Document
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import form, page, render, screen
from paydesk.console.terminal_looks import KINDS
from paydesk.console.terminal_modes import mode_field
from paydesk.console.terminals import HERE as TERMINALS
from paydesk.console.terminals import SECTION
from paydesk.core.sentences import text_of
from paydesk.operation import Answer, Query
from paydesk.operators.terminals.fields import POS, STORE, place_of, place_sent, places
from paydesk.operators.terminals.operations import SET_MODE
from paydesk.terminals import pairing_codes
from paydesk.terminals.schemas import VIRTUAL_MODEL
from paydesk.web import html

HERE = f"{PATH}/pair"
READ_MAX = 200
SAME, FIRST = "same", "first"
UNCHANGED = (SAME, "As it is")
CODE = "The terminal shows eight letters, such as BCDF-GHJK."


@screen
async def find(request: ConsoleRequest) -> Answer:
    """Ask for the code that the terminal shows."""
    action = ActionForm(
        title="Pair a terminal",
        says=("Type the code that the terminal shows. Nothing is paired yet.",),
        submit="Find the terminal",
        back=TERMINALS,
        section=SECTION,
        fields=(Field("user_code", "Code", value=request.query.get("user_code", "")[:40], maxlength=40, hint=CODE),),
    )

    async def work(sent: Mapping[str, str]) -> Done:
        code = pairing_codes.canonical(sent["user_code"])
        if code is None:
            message, detail = "This is not a pairing code.", "'user_code' - must be eight letters, such as BCDF-GHJK"
            raise ApiRefused(400, "property_value", message, (detail,), request.call.request_id)
        await _pairing(request, code)
        return Done("", path=f"{HERE}/{code}")

    return await act(request, action, work)


@screen
async def show(request: ConsoleRequest) -> Answer:
    """Show the terminal of a code, and ask for the seller."""
    try:
        pairing = await _pairing(request, request.path)
    except ApiRefused as refused:
        if refused.status != 404:
            raise
        return request.with_notice(HERE, refused.message, "bad")
    found = await request.api.get("sellers", limit=READ_MAX)
    return render(
        request,
        "pair.html",
        section=SECTION,
        title="Pair a terminal",
        pairing=pairing,
        paired=await _paired(request, pairing),
        sellers=[one for one in found["data"] if "suspended_date" not in one],
        is_cut="next" in found,
        terminals=TERMINALS,
        here=f"{HERE}/{request.path}",
    )


@screen
async def approve(request: ConsoleRequest) -> Answer:
    """Pair the terminal of a code with the seller in the query."""
    code, (chosen, number) = request.path, _seller(request.query)
    if not chosen:
        return html.redirect(f"{HERE}/{code}")
    seller = await request.api.get("sellers/{}", chosen)
    pairing = await _pairing(request, code)
    is_virtual, is_paired = pairing["model"] == VIRTUAL_MODEL, pairing["paired"]
    same = (UNCHANGED,) if is_paired else ()
    first = UNCHANGED if is_paired else (FIRST, "A point of sale of its own in the seller's first store")
    orders = (("live", "Live orders, which move money"), ("test", "Test orders"))
    if request.development or is_virtual:
        orders = orders[::-1]
    action = ActionForm(
        title=f"Pair {pairing['serial']} with {seller['name']}",
        says=(
            f"Model {pairing['model']}, serial number {pairing['serial']}, at the address {pairing['address']}."
            " Pair it only if this is the terminal that shows the code.",
            *(("Its earlier device token is revoked, and its mode is set again.",) if is_paired else ()),
        ),
        submit="Pair the terminal",
        back=f"{HERE}/{code}",
        section=SECTION,
        fields=(
            Field(
                "place",
                "Point of sale",
                "select",
                value=first[0],
                options=[first, *await places(request.api, {"seller_id": number})],
                sets=(POS, STORE),
            ),
            Field("kind", "Payments", "select", options=(*same, *KINDS.items())),
            Field(
                "live",
                "Orders",
                "select",
                options=(*same, *(orders[:1] if is_virtual else orders)),
                sets=("live_mode",),
            ),
            mode_field("PDV"),
            *((Field("replace", "Pair it again", "checkbox"),) if is_paired else ()),
        ),
    )

    async def work(sent: Mapping[str, str]) -> Done:
        body: dict[str, object] = {"seller_id": number, **place_sent(sent["place"])}
        if sent["kind"] != SAME:
            body["kind"] = sent["kind"]
        if sent["live"] != SAME:
            body["live_mode"] = sent["live"] == "live"
        if sent.get("replace"):
            body["replace"] = True
        made = await request.api.post("pairings/{}", code, body=body)
        said = f"The terminal is paired with {seller['name']}, at {place_of(made)}."
        return Done(f"{said} {await _set_mode(request, made['id'], sent['mode'])}", path=f"{TERMINALS}/{made['id']}")

    return await act(request, action, work)


async def _pairing(request: ConsoleRequest, code: str) -> Document:
    found: Document = await request.api.get("pairings/{}", code)
    return found


async def _paired(request: ConsoleRequest, pairing: Document) -> Any:
    """Return the terminal that is paired already; None if no seller is paired with it."""
    return await request.api.get("terminals/{}", pairing["terminal_id"]) if pairing["paired"] else None


async def _set_mode(request: ConsoleRequest, terminal_id: str, mode: str) -> str:
    """Set the mode of a terminal that was just paired; return what happened."""
    try:
        changed = await request.api.patch("terminals/{}", terminal_id, body={"operating_mode": mode})
    except ApiRefused as refused:
        return f"Its mode could not be set, so it takes no orders yet: {' '.join(refused.sentences)}"
    return text_of(SET_MODE.done, changed)


def _seller(query: Mapping[str, str]) -> tuple[str, int]:
    """Return the seller's id in the query as a text and as a number; empty and 0 if it is none."""
    text = query.get("seller", "").strip()
    is_number = text.isascii() and text.isdigit() and len(text) <= 15
    return (text, int(text)) if is_number else ("", 0)


_USER_CODE = Query("user_code", {"type": "string"}, "Fills the code in.")
_SELLER = Query("seller", {"type": "string"}, "The id of the seller.")

OPERATIONS = (
    *form("/pair", find, query=(_USER_CODE,)),
    page("/pair/{user_code}", show),
    *form("/pair/{user_code}/approve", approve, query=(_SELLER,)),
)
