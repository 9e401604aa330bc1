"""The screens of applications: all of them, and one with its secrets, its subscriptions and its last changes."""

from __future__ import annotations

from paydesk.console import view
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import page, render, screen
from paydesk.core.ids import NUMBER_PATTERN
from paydesk.operators.applications import operations
from paydesk.operators.applications.fields import SCOPES
from paydesk.operators.audit_trail import page as audit_trail
from paydesk.operators.authorizations import page as authorizations
from paydesk.operators.list_pages import ListScreen
from paydesk.platform.operation import Answer

SUBSCRIPTIONS_MAX = 20
LIST = ListScreen(
    operations.LIST,
    lead="OAuth clients that act for sellers",
    empty=(
        "No application yet. Add one:",
        "paydesk apps create --name 'Corner shop' --redirect-uri https://shop.example/callback",
    ),
    adds=(operations.ADD,),
    sheet="operators.css",
    table="applications",
    sort=lambda one: ("suspended_date" in one, one["name"].casefold(), one["client_id"]),
)


@screen
async def show_one(request: ConsoleRequest) -> Answer:
    """Show an application: its state, its settings, its secrets and its subscriptions."""
    application = await request.api.get("applications/{}", request.path)
    client_id, name = application["client_id"], application["name"]
    here = f"{PATH}/applications/{client_id}"
    subscribed = await request.api.get("subscriptions", client_id=client_id, sort="urgency", limit=SUBSCRIPTIONS_MAX)
    return render(
        request,
        "applications/page.html",
        section="applications",
        title=name,
        live_on=f"applications:{client_id} subscriptions grants codes",
        here=here,
        application=application,
        valid={
            one["id"]
            for one in application["secrets"]
            if "expires_date" not in one or view.instant_ms(one["expires_date"]) > request.now_ms
        },
        scopes=SCOPES,
        subscriptions=subscribed["data"],
        authorizations=await authorizations.page_of(request, here, application=client_id),
        more_subscriptions=f"{PATH}/webhooks#subscriptions" if "next" in subscribed else "",
        **await audit_trail.newest(request, {client_id: name}, subject=client_id),
    )


OPERATIONS = (
    LIST.page(),
    page(
        "/applications/{client_id}",
        show_one,
        path_pattern=NUMBER_PATTERN,
        query=authorizations.QUERY,
    ),
)
