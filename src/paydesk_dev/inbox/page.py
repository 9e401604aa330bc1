"""The demo inbox as a page: notifications newest first, each with the checks of its signatures, and a filter."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field

from paydesk.core.errors import FORM_OUTDATED, Refusal
from paydesk.platform.operation import Answer, Call, Query
from paydesk.platform.web import html, language
from paydesk.platform.web.forms import ANONYMOUS, BrowserRequest
from paydesk_dev.inbox import receiver as inbox
from paydesk_dev.inbox import store
from paydesk_dev.inbox.store import InboxFilter
from paydesk_dev.inbox.view import shown

EMPTY_PATH = f"{inbox.PATH}/empty"
PURPOSE = "empty-demo-inbox"
SHOWN_MAX, ACTIONS_MAX = 20, 50
VALIDITY = {"valid": 1, "invalid": 0}

LIMIT = Query(
    "limit", {"type": "integer", "minimum": 1, "maximum": store.ENTRIES_MAX}, "As JSON only: how many, the newest."
)
QUERY = (
    LIMIT,
    Query("action", {"type": "string"}, "The page only: notifications with this action."),
    Query("signature", {"enum": list(VALIDITY)}, "The page only: notifications with valid or invalid signatures."),
    Query("order", {"type": "string"}, "The page only: notifications about this order."),
    Query("before", {"type": "integer"}, "The page only: older notifications, from the link of a page."),
)


class EmptyForm(BaseModel):
    """The button that empties the inbox."""

    model_config = ConfigDict(extra="forbid")

    form_token: str = Field(max_length=100, description="From the page with the button.")


def is_wanted(accept: str) -> bool:
    """Return whether an `Accept` header names HTML, as those of browsers do."""
    return any(part.partition(";")[0].strip().lower() == "text/html" for part in accept.split(","))


async def show(call: Call) -> Answer:
    """Return the page of the newest notifications that match the filter in the query."""
    request = BrowserRequest(call)
    cookie, headers = request.anonymous_cookie()
    # An unknown validity is ignored.
    chosen = InboxFilter(
        inbox.filtered(call.query.get("action", "")),
        inbox.filtered(call.query.get("order", "").strip()).upper(),
        VALIDITY.get(call.query.get("signature", "")),
    )
    before = call.query.get("before", "")
    is_number = before.isascii() and before.isdigit() and len(before) < len(str(store.NUMBER_MAX))
    rows = await store.page_of_entries(call.tx, chosen, int(before) if is_number else store.NUMBER_MAX, SHOWN_MAX + 1)
    entries = rows[:SHOWN_MAX]
    filters = {name: call.query[name] for name in ("action", "signature", "order") if call.query.get(name)}
    return html.page(
        "inbox.html",
        language.texts("en"),
        package="paydesk_dev.inbox",
        headers=(("vary", "accept"), *headers),
        isolated=True,
        notifications=[shown(entry) for _, entry in entries],
        count=await store.count_entries(call.tx, InboxFilter()),
        matching=await store.count_entries(call.tx, chosen),
        actions=await store.actions(call.tx, ACTIONS_MAX),
        filters=filters,
        is_first="before" not in call.query,
        reload=_address(call.query),
        newest=_address(filters),
        older=_address({**filters, "before": str(entries[-1][0])}) if len(rows) > len(entries) else "",
        path=inbox.PATH,
        empty_path=EMPTY_PATH,
        form_token=request.form_token(PURPOSE, cookie),
        url=f"http://{call.headers.get('host', '')}{inbox.PATH}",
    )


async def empty(call: Call) -> Answer:
    """Delete the received notifications, on the page. Raises `forbidden`, `form_outdated`."""
    request, form = BrowserRequest(call), call.body
    assert isinstance(form, EmptyForm)
    request.check_origin()
    if not request.is_form_token_valid(PURPOSE, form.form_token, ANONYMOUS):
        raise Refusal(FORM_OUTDATED, "form token or its cookie is invalid", extra={html.AGAIN: inbox.PATH})
    await store.empty(call.tx)
    return html.redirect(inbox.PATH)


def _address(query: Mapping[str, str]) -> str:
    return f"{inbox.PATH}?{urlencode(query)}" if query else inbox.PATH
