"""The page `/virtual/{terminal_id}`: a virtual terminal that a person uses, live by one stream.

The key in its address is the credential: it is checked before anything else, and it is in every form, so that a page of
another site can send none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from paydesk.core.errors import NOT_FOUND, Refusal
from paydesk.core.money import CURRENCIES
from paydesk.engine.terminals import registry
from paydesk.engine.terminals.print_actions import images as print_images
from paydesk.platform.operation import Answer, Call
from paydesk.platform.web import html, live
from paydesk.platform.web.event_streams import LAST_EVENT_ID, EventStreams
from paydesk.platform.web.language import texts
from paydesk_dev.virtual.api.schemas import ActionForm, OrderForm
from paydesk_dev.virtual.errors import ACTION_NOT_POSSIBLE
from paydesk_dev.virtual.page import view as page_view
from paydesk_dev.virtual.page.access import Access, check_form, check_key
from paydesk_dev.virtual.page.looks import SCRIPTS, TRAY, WAYS
from paydesk_dev.virtual.terminal.actions import ActionNotPossible
from paydesk_dev.virtual.terminal.screens import CARD_ACTIONS, ROWS

if TYPE_CHECKING:
    from markupsafe import Markup

_IMAGE_HEADERS = (
    ("cache-control", "no-store"),
    ("content-security-policy", "default-src 'none'; sandbox"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
)
WORDS = {
    **dict.fromkeys((*CARD_ACTIONS, "scan"), "The terminal asks for no card now."),
    **dict.fromkeys(("press", "press_cancel"), "This key does nothing now."),
}
"""Why a screen does not take an action, unless its row says it."""
_MINIMAL = "return=minimal"
"""The `Prefer` header (RFC 7240) of a page whose stream is open: it shows what changes, so an answer needs no body."""


async def show(call: Call) -> Answer:
    """Show a virtual terminal."""
    return page(await check_key(call, call.query.get("key", "")))


async def events(call: Call) -> Answer:
    """Stream what changes on the page. Raises `too_many_streams`."""
    access = await check_key(call, call.query.get("key", ""))

    def render() -> Mapping[str, Markup] | None:
        return page_view.parts(access) if access.terminal_id in access.fleet.terminals() else None

    shown = call.headers.get(LAST_EVENT_ID, "")
    return live.answer(call.shared.objects[EventStreams], access.terminal_id, access.panel, render, shown)


async def act(call: Call) -> Answer:
    """Do something at the virtual terminal: what the person does on the page."""
    form: ActionForm = call.body
    access = await check_form(call, form.key)
    try:
        await access.fleet.find(access.terminal_id).act(form.as_action())
    except ActionNotPossible as error:
        message, default = str(error), WORDS.get(form.action)
        if default is not None:
            message = ROWS[error.screen.name].refuses or default
        return refused(call, access, ACTION_NOT_POSSIBLE.with_reason(str(error), message=message))
    except ValueError as error:
        return refused(call, access, ACTION_NOT_POSSIBLE.with_reason(str(error), message=f"Not done: {error}."))
    except KeyError:
        raise NOT_FOUND.with_reason("the terminal was removed") from None
    if form.action == "set_script":
        seller_id, terminal_id = access.place.seller_id, access.terminal_id
        await call.database.write(lambda tx: registry.set_script(tx, seller_id, terminal_id, access.script))
        # The terminal shows no script, the page does.
        access.panel.notify()
    return done(call, access)


async def show_image(call: Call) -> Answer:
    """Return the image that the terminal printed."""
    access = await check_key(call, call.query.get("key", ""))
    paper = access.panel.paper
    if paper is None or not paper.image or str(paper.number) != call.path:
        raise NOT_FOUND.with_reason("no such print")
    return Answer(200, paper.image, _IMAGE_HEADERS, print_images.media_type(paper.image))


def done(call: Call, access: Access) -> Answer:
    """Answer an action: with the live parts, with nothing if the stream brings them, or without htmx with the page."""
    if "hx-request" not in call.headers:
        return html.redirect(access.address())
    if _MINIMAL in call.headers.get("prefer", ""):
        return Answer(204)
    return html.fragment(live.partials(page_view.parts(access)))


def refused(call: Call, access: Access, refusal: Refusal) -> Answer:
    """Answer an action that is not possible, with the reason in the place of the hint, or in the form of an order."""
    if "hx-request" not in call.headers:
        return page(access, refusal)
    parts = page_view.refused(refusal, is_order=isinstance(call.body, OrderForm))
    return html.fragment(live.partials(parts), refusal)


def page(access: Access, refusal: Refusal | None = None) -> Answer:
    """Return the page, with the reason of a refusal in the place of the hint."""
    place, script, parts = access.place, access.script, page_view.parts(access)
    shown = html.page(
        "page.html",
        texts("en"),
        package=page_view.PACKAGE,
        status=200 if refusal is None else refusal.kind.status,
        scripts=True,
        isolated=True,
        place=place,
        terminal_id=access.terminal_id,
        key=access.key,
        parts=parts,
        hint=parts["hint"] if refusal is None else page_view.refused(refusal)["hint"],
        state=live.state_of(parts),
        tray=TRAY,
        ways=WAYS,
        script=script,
        scripts_offered=SCRIPTS if script in dict(SCRIPTS) else ((script, script), *SCRIPTS),
        amount="24.90" if CURRENCIES[place.currency].decimals else "2490",
        is_changing=ROWS[access.panel.screen.name].is_brief,
        address=access.address(),
        actions=f"{access.path}/actions",
        orders=f"{access.path}/orders",
        events=access.address("/events"),
    )
    return msgspec.structs.replace(shown, refusal=refusal)
