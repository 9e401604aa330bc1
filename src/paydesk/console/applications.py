"""The screens of applications: all of them, and one with its secrets, its subscriptions and its last changes."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from paydesk.console import application_secrets, audit_rows, authorizations, webhooks
from paydesk.console.api import Document
from paydesk.console.application_paths import HERE, SECTION, path_of
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import page, render, screen
from paydesk.core.ids import NUMBER_PATTERN
from paydesk.core.redaction import redacted_url
from paydesk.oauth import scopes
from paydesk.operation import Answer, Query
from paydesk.operators.applications.fields import ON_REPLAY, SCOPES
from paydesk.web.statuses import Look

ROWS, CHANGES, SUBSCRIPTIONS_MAX = 50, 10, 20


@dataclass(frozen=True, slots=True)
class ApplicationRow:
    """One application."""

    client_id: str
    name: str
    look: Look
    is_suspended: bool
    scopes: tuple[str, ...]
    redirect_uri: str
    more_uris: int
    created_date: str
    href: str


@screen
async def show(request: ConsoleRequest) -> Answer:
    """List the applications; if there is only one page, active ones first."""
    after = request.query.get("after")
    found = await request.api.get("applications", limit=ROWS, after=after)
    rows = [row_of(one) for one in found["data"]]
    if not after and "next" not in found:
        rows.sort(key=lambda row: (row.is_suspended, row.name.casefold(), row.client_id))
    return render(
        request,
        "applications.html",
        section=SECTION,
        title="Applications",
        live_on="applications",
        here=HERE,
        rows=rows,
        is_rest=bool(after),
        more=f"{HERE}?after={quote(found['next'])}" if "next" in found else "",
    )


@screen
async def show_one(request: ConsoleRequest) -> Answer:
    """Show an application: its state, its settings, its secrets and its subscriptions."""
    application = await request.api.get("applications/{}", request.path)
    client_id, row = application["client_id"], row_of(application)
    secrets = application_secrets.rows_of(request, application)
    subscribed = await request.api.get("subscriptions", client_id=client_id, sort="urgency", limit=SUBSCRIPTIONS_MAX)
    changes = await request.api.get("audit", subject=client_id, limit=CHANGES)
    return render(
        request,
        "application.html",
        section=SECTION,
        title=row.name,
        live_on=f"applications:{client_id} subscriptions grants codes",
        here=row.href,
        applications_path=HERE,
        application=application,
        row=row,
        state=state_of(application, has_secret=any(one.is_valid for one in secrets)),
        scopes=SCOPES,
        on_replay=ON_REPLAY,
        secrets=secrets,
        subscriptions=subscribed["data"],
        authorizations=await authorizations.of_application(request, client_id),
        more_subscriptions=f"{PATH}/webhooks#subscriptions" if "next" in subscribed else "",
        subscription_look=webhooks.look_of,
        host=webhooks.host,
        masked=redacted_url,
        entries=[audit_rows.row_of(one, {client_id: row.name}) for one in changes["data"]],
        trail=f"{PATH}/audit?subject={client_id}",
        of_orders=f"{PATH}/orders?application={client_id}",
        of_requests=f"{PATH}/requests?application={client_id}",
    )


def row_of(application: Document) -> ApplicationRow:
    """Return the row of an application."""
    uris, is_suspended = application["redirect_uris"], "suspended_date" in application
    return ApplicationRow(
        client_id=application["client_id"],
        name=application["name"],
        look=Look("off", "dash", "Suspended") if is_suspended else Look("ok", "check", "Active"),
        is_suspended=is_suspended,
        scopes=tuple(scopes.for_display(application["scopes"])),
        redirect_uri=uris[0] if uris else "",
        more_uris=max(len(uris) - 1, 0),
        created_date=application["created_date"],
        href=path_of(application["client_id"]),
    )


def state_of(application: Document, *, has_secret: bool) -> str:
    """Return what the state of an application means, and what to do; empty if there is nothing to do."""
    if "suspended_date" in application:
        return "It gets no tokens, its tokens are refused, and sellers cannot authorize it. Open orders continue."
    if not has_secret:
        return "It has no valid secret, so it gets no tokens. Add one, and give it to its developers."
    return ""


OPERATIONS = (
    page(
        "/applications",
        "applications",
        "List the applications",
        show,
        query=(Query("after", {"type": "string"}, "Where the page begins."),),
    ),
    page(
        "/applications/{client_id}",
        "application",
        "Show an application",
        show_one,
        path_pattern=NUMBER_PATTERN,
        query=authorizations.QUERY,
    ),
)
