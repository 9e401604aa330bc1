"""The screens of the console: each is a function that takes a `ConsoleRequest` and returns a rendered page.

`@screen` makes a handler of it: without a session it redirects to the sign-in page, the origin and the token of a form
are checked, and an error of `/operator/v1` becomes a page that says what failed. A screen's template extends
`console.html` and has all that changes in its block `live`: the script of the page fetches that part again when a hint
names something that it shows. `live_on` says which hints: `terminal` for any terminal, `terminal:<id>` for one.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import cache, wraps
from typing import TYPE_CHECKING, Any

import msgspec

from paydesk.console import view
from paydesk.console.api import ApiRefused
from paydesk.console.request import PATH, ConsoleForm, ConsoleRequest
from paydesk.console.statuses import answer_look, order_look, recorded_look
from paydesk.core.errors import FORBIDDEN, FORM_OUTDATED, ErrorKind, Refusal
from paydesk.core.money import spelled
from paydesk.core.text.redaction import redacted_url
from paydesk.core.text.sentences import value_at
from paydesk.engine.oauth.scopes import for_display
from paydesk.platform.operation import Answer, Call, Handler, Operation, Query
from paydesk.platform.web import html
from paydesk.platform.web.hints import Hints
from paydesk.platform.web.language import texts

if TYPE_CHECKING:
    from jinja2 import Environment

PACKAGE = "paydesk.console"
_NO_WORD = re.compile(r"\W+")
Screen = Callable[[ConsoleRequest], Awaitable[Answer]]
SECTIONS = (
    ("overview", "Overview", PATH, "home"),
    ("orders", "Orders", f"{PATH}/orders", "list"),
    ("terminals", "Terminals", f"{PATH}/terminals", "terminal"),
    ("webhooks", "Webhooks", f"{PATH}/webhooks", "hooks"),
    ("requests", "Requests", f"{PATH}/requests?sender=applications", "swap"),
)
"""The sections: name, title, path, icon. Additions and those of the setup follow."""
SET_UP = (
    ("applications", "Applications", f"{PATH}/applications", "app"),
    ("sellers", "Sellers", f"{PATH}/sellers", "shop"),
    ("acquirers", "Acquirers", f"{PATH}/acquirers", "plug"),
    ("operators", "Operators", f"{PATH}/operators", "people"),
    ("audit", "Audit trail", f"{PATH}/audit", "history"),
)

OF_NOUNS: dict[str, Any] = {}
"""The functions that templates call to show an object: `service/pages.py` adds those of each noun."""

REFUSED = ErrorKind("console_refused", 409, "The request was refused.")
"""The refusal in the log for a page that shows an error of `/operator/v1`; the page has the status of that error."""
REFUSED_STATUSES = (400, 403, 404)
"""The statuses of such pages besides that of `REFUSED`."""


def screen(work: Screen) -> Handler:
    """Make a handler of a screen."""

    @wraps(work)
    async def handler(call: Call) -> Answer:
        request = ConsoleRequest(call)
        if not await request.open_session():
            return request.to_sign_in()
        if request.is_sent:
            try:
                request.check_form()
            except Refusal as refusal:
                if refusal.kind is not FORM_OUTDATED or not request.is_fragment:
                    raise
                # The script of the page keeps what was typed.
                return html.fragment("", refusal)
        elif not request.is_fragment:
            request.position = call.shared.objects[Hints].position()
        try:
            return request.followed_by_script(await work(request))
        except ApiRefused as refused:
            return problem(request, refused)

    return handler


def render(
    request: ConsoleRequest,
    template: str,
    *,
    section: str,
    title: str,
    live_on: str = "",
    live_every: int = 0,
    refused: ApiRefused | None = None,
    part: str = "live",
    **values: Any,
) -> Answer:
    """Return the page, or only a part of it if its script fetches it: the block `part` of the template.

    `live_every`: the script also fetches it every so many seconds, for what changes with time alone. `refused`: an
    error that the page shows; the page has its status, and the log has its code.
    """
    environment()
    notice, own = request.take_notice()
    common = {
        "r": request,
        "operator": request.operator,
        "section": section,
        "title": title,
        "live_on": f"{live_on} clock" if live_on and request.development else live_on,
        "live_every": live_every,
        "sections": sections_of(request),
        "set_up": SET_UP,
        "path": PATH,
        "address": request.call_target,
        "form_token": request.own_form_token(),
        "notice": notice,
        "refused": refused,
        "now_ms": request.now_ms,
        "ago": view.Ago(request.now_ms),
        **values,
    }
    if request.is_fragment:
        live = block("console.html", "clock", **common) if part == "live" and not request.is_sent else ""
        shown = html.fragment(block(template, part, **common) + live)
    else:
        shown = html.page(template, texts("en"), package=PACKAGE, headers=own, scripts=True, isolated=True, **common)
    if refused is None:
        return shown
    refusal = REFUSED.with_reason(f"{refused.status} {refused.code}")
    return msgspec.structs.replace(shown, status=refused.status, refusal=refusal)


def block(template: str, name: str, **values: Any) -> str:
    """Return one block of a template filled in."""
    source = environment().get_template(template)
    return "".join(source.blocks[name](source.new_context({"t": texts("en"), "scripts": True, **values})))


@cache
def environment() -> Environment:
    """Return the environment of the console's templates: the macros of `parts.html` as `ui`, and some functions."""
    assert OF_NOUNS, "service/pages.py adds them when it is imported"
    console = html.environment(PACKAGE)
    console.globals |= {"view": view, "spelled": spelled, "value_at": value_at, "masked": redacted_url}
    console.globals |= {"order_look": order_look, "recorded_look": recorded_look, "answer_look": answer_look}
    console.globals |= {"scopes_of": for_display, **OF_NOUNS}
    console.globals["ui"] = console.get_template("parts.html").module
    return console


def sections_of(request: ConsoleRequest) -> tuple[tuple[str, str, str, str], ...]:
    """Return the sections of the navigation."""
    return (*SECTIONS, *request.additions.sections)


def problem(request: ConsoleRequest, refused: ApiRefused, section: str = "", *ways: tuple[str, str]) -> Answer:
    """Return the page of an error of `/operator/v1`: what failed, the id of the request, and where to go on.

    `ways` are addresses with their words; the list that the page belongs to follows them. The same request is offered
    again only if it can have another answer.
    """
    here = "/".join(request.call.target.split("/")[:3])
    sections = (*sections_of(request), *SET_UP)
    own = next((one for one in sections if one[2].partition("?")[0] == here and here != PATH), None)
    return render(
        request,
        "problem.html",
        section=section or (own[0] if own else ""),
        title="There is nothing here" if refused.status == 404 else "That did not work",
        refused=refused,
        is_final=refused.status in (403, 404),
        ways=(*ways, *(((own[2], own[1]),) if own and request.call.target != here else ()), (PATH, "Overview")),
    )


@screen
async def nowhere(request: ConsoleRequest) -> Answer:
    """Say that the address leads to no page."""
    sentence = "Check the address. What it led to may have been removed."
    return problem(request, request.refusal(404, "not_found", sentence))


def page(
    path: str,
    handler: Handler,
    *,
    summary: str = "",
    query: tuple[Query, ...] = (),
    errors: tuple[ErrorKind, ...] = (),
    **more: Any,
) -> Operation:
    """Return `GET` of a page below `/console`, with a name and, by the handler's first sentence, a summary."""
    return Operation(
        "GET",
        f"{PATH}{path}",
        f"console_{_NO_WORD.sub('_', path).strip('_') or 'overview'}",
        "console",
        handler,
        summary,
        transaction="none",
        media_type=html.HTML,
        further_statuses=(303, *REFUSED_STATUSES),
        query=query,
        errors=(REFUSED, *errors),
        **more,
    )


def form(path: str, handler: Handler, **more: Any) -> tuple[Operation, Operation]:
    """Return `GET` of a page with a form, and `POST` of the form."""
    sent_by = page(path, handler, **more)
    shown = replace(sent_by, name=f"{sent_by.name}_form", summary=f"{sent_by.summary}: the form")
    sent = replace(
        sent_by,
        method="POST",
        status=303,
        further_statuses=(200, *REFUSED_STATUSES),
        body=ConsoleForm,
        errors=(REFUSED, FORBIDDEN, FORM_OUTDATED),
    )
    return shown, sent
