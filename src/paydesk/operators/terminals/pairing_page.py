"""Pairing: type the code that a terminal shows, see which terminal it is, and choose the seller and the place.

A terminal shows the address of the first page as its `verification_uri`; `user_code` in the query fills the code in
(RFC 8628 section 3.3.1). Nothing is paired before the operator has seen model, serial number and address.
"""

from __future__ import annotations

from collections.abc import Mapping

from paydesk.console.actions import ActionForm, Done, act
from paydesk.console.api import ApiRefused
from paydesk.console.field import Field
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import form, page, render, screen
from paydesk.core.text.sentences import text_of
from paydesk.engine.terminals.pairing import codes as pairing_codes
from paydesk.engine.terminals.schemas import VIRTUAL_MODEL
from paydesk.operators.terminals.fields import POS, STORE, place_of, place_sent, places
from paydesk.operators.terminals.looks import KINDS
from paydesk.operators.terminals.modes import mode_field
from paydesk.operators.terminals.operations import SET_MODE
from paydesk.operators.terminals.page import HERE as TERMINALS
from paydesk.operators.terminals.page import SECTION
from paydesk.platform.operation import Answer, Query
from paydesk.platform.web import html

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
            raise request.refusal(400, "property_value", message, detail)
        await request.api.get("pairings/{}", code)
        return Done("", path=f"{HERE}/{code}")

    return await act(request, action, work)


@screen
async def show(request: ConsoleRequest) -> Answer:
    """Show the terminal of a code, and ask for the seller."""
    try:
        pairing = await request.api.get("pairings/{}", request.path)
    except ApiRefused as refused:
        if refused.status != 404:
            raise
        return request.with_notice(HERE, refused.message, "bad")
    paired = await request.api.get("terminals/{}", pairing["terminal_id"]) if pairing["paired"] else None
    sellers = await request.api.get("sellers", limit=READ_MAX)
    return render(
        request,
        "terminals/pairing.html",
        section=SECTION,
        title="Pair a terminal",
        pairing=pairing,
        paired=paired,
        sellers=[one for one in sellers["data"] if "suspended_date" not in one],
        is_cut="next" in sellers,
        terminals=TERMINALS,
        here=f"{HERE}/{request.path}",
    )


@screen
async def approve(request: ConsoleRequest) -> Answer:
    """Pair the terminal of a code with the seller in the query."""
    code, chosen = request.path, request.query.get("seller", "").strip()
    if not (chosen.isascii() and chosen.isdigit() and len(chosen) <= 15):
        return html.redirect(f"{HERE}/{code}")
    number = int(chosen)
    seller = await request.api.get("sellers/{}", chosen)
    pairing = await request.api.get("pairings/{}", code)
    is_virtual, is_paired = pairing["model"] == VIRTUAL_MODEL, pairing["paired"]
    same = (UNCHANGED,) if is_paired else ()
    first = UNCHANGED if is_paired else (FIRST, "A point of sale of its own in the seller's first store")
    orders = [("live", "Live orders, which move money"), ("test", "Test orders")]
    if is_virtual:
        orders = orders[1:]
    elif request.development:
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
            Field("live", "Orders", "select", options=(*same, *orders), sets=("live_mode",)),
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
        terminal = await request.api.post("pairings/{}", code, body=body)
        said = f"The terminal is paired with {seller['name']}, at {place_of(terminal)}."
        try:
            changed = await request.api.patch("terminals/{}", terminal["id"], body={"operating_mode": sent["mode"]})
            mode = text_of(SET_MODE.done, changed)
        except ApiRefused as refused:
            mode = f"Its mode could not be set, so it takes no orders yet: {' '.join(refused.sentences)}"
        return Done(f"{said} {mode}", path=f"{TERMINALS}/{terminal['id']}")

    return await act(request, action, work)


_USER_CODE = Query("user_code", {"type": "string"}, "Fills the code in.")
_SELLER = Query("seller", {"type": "string"}, "The id of the seller.")

OPERATIONS = (
    *form("/pair", find, query=(_USER_CODE,)),
    page("/pair/{user_code}", show),
    *form("/pair/{user_code}/approve", approve, query=(_SELLER,)),
)
