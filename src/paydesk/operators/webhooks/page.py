"""The screens of webhooks: the subscriptions, failing ones first, with the last deliveries; and one subscription."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from paydesk.console.api import Document, present
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import page, render, screen
from paydesk.operators.deliveries.operations import LIST as DELIVERIES
from paydesk.operators.list_pages import address, columns_of, filters_in, next_page
from paydesk.operators.subscriptions import looks as webhook_looks
from paydesk.operators.subscriptions.operations import LIST as SUBSCRIPTIONS
from paydesk.platform.operation import Answer, Query

HERE, SECTION = f"{PATH}/webhooks", "webhooks"
DELIVERIES_MAX = 25
SUBSCRIPTIONS_MAX = 50
TABS = (("", "All"), ("exhausted", "Given up"), ("pending", "Pending"), ("delivered", "Delivered"))
"""The filters of deliveries by status."""
LIVE_ON = "delivery subscriptions deliveries terminal"
OF_DELIVERIES = "#deliveries"
FILTERS = ("status", "failed", "subscription", "order", "since")


@screen
async def show(request: ConsoleRequest) -> Answer:
    """List the subscriptions and the deliveries."""
    after = request.query.get("subscriptions_after")
    subscriptions = await request.api.get("subscriptions", sort="urgency", limit=SUBSCRIPTIONS_MAX, after=after)
    filters = filters_in(request, FILTERS)
    listed = await _listed(request, filters)
    is_first = not filters and "after" not in request.query
    failed = await _listed(request, {"failed": "true"}) if is_first else {"data": []}
    first = {one["id"] for one in failed["data"]}
    return render(
        request,
        "webhooks/list.html",
        section=SECTION,
        title="Webhooks",
        live_on=LIVE_ON,
        here=HERE,
        subscriptions=subscriptions["data"],
        applications=await names(request, {one["client_id"] for one in subscriptions["data"] if "client_id" in one}),
        more_subscriptions=next_page(HERE, {}, subscriptions, "subscriptions_after", fragment="#subscriptions"),
        is_rest=bool(after),
        failed=failed["data"],
        more_failed=next_page(HERE, {"failed": "true"}, failed, fragment=OF_DELIVERIES),
        subscription_columns=columns_of(SUBSCRIPTIONS),
        columns=columns_of(DELIVERIES),
        deliveries=[one for one in listed["data"] if one["id"] not in first],
        filters=filters,
        tabs=tabs(HERE, filters),
        older=next_page(HERE, filters, listed, fragment=OF_DELIVERIES),
    )


@screen
async def show_subscription(request: ConsoleRequest) -> Answer:
    """Show a subscription: its state, its secrets, its deliveries."""
    subscription = await request.api.get("subscriptions/{}", request.path)
    client_id = subscription.get("client_id")
    application = await request.api.get("applications/{}", client_id) if client_id else {"name": "Operators"}
    here = f"{PATH}/webhooks/subscriptions/{subscription['id']}"
    filters = filters_in(request, ("status",))
    listed = await _listed(request, {**filters, "subscription": subscription["id"]})
    return render(
        request,
        "webhooks/subscription.html",
        section=SECTION,
        title=webhook_looks.host(subscription["url"]),
        live_on=f"delivery subscriptions:{subscription['id']} deliveries terminal",
        here=here,
        subscription=subscription,
        application=application["name"],
        may_change=request.may_change if client_id else request.is_owner,
        columns=columns_of(DELIVERIES, "url"),
        deliveries=listed["data"],
        filters=filters,
        tabs=tabs(here, filters),
        older=next_page(here, filters, listed, fragment=OF_DELIVERIES),
    )


async def _listed(request: ConsoleRequest, filters: Mapping[str, str]) -> Document:
    """Return a page of deliveries; an empty one of an unknown order."""
    after = request.query.get("after")
    getting = request.api.get("deliveries", limit=DELIVERIES_MAX, after=after, **filters)
    return await present(getting) or {"data": []}


async def names(request: ConsoleRequest, wanted: Collection[str]) -> dict[str, str]:
    """Return the names of these applications by their ids."""
    by_id, after = dict[str, str](), None
    while not all(one in by_id for one in wanted):
        listed = await request.api.get("applications", after=after)
        by_id |= {str(one["client_id"]): str(one["name"]) for one in listed["data"]}
        if "next" not in listed:
            break
        after = listed["next"]
    return by_id


def tabs(here: str, filters: Mapping[str, str]) -> list[tuple[str, str, bool]]:
    """Return the tabs of a list of deliveries: address, label, and whether it is the current one."""
    chosen = filters.get("status", "")
    return [
        (address(here, {**filters, "status": status}) + OF_DELIVERIES, label, status == chosen)
        for status, label in TABS
    ]


_FILTERS = (
    Query("status", {"type": "string"}, "Only deliveries with this status."),
    Query("after", {"type": "string"}, "Where the page begins."),
)
_MORE: tuple[Any, ...] = (
    Query("failed", {"enum": ["true"]}, "Only deliveries that were given up, or have failed and wait for a retry."),
    Query("subscriptions_after", {"type": "string"}, "Where the page of subscriptions begins."),
    Query("subscription", {"type": "string"}, "Only deliveries to this subscription."),
    Query("order", {"type": "string"}, "Only deliveries of this order."),
    Query("since", {"type": "string"}, "Only deliveries created at this time or later."),
)

OPERATIONS = (
    page("/webhooks", show, query=(*_FILTERS, *_MORE)),
    page("/webhooks/subscriptions/{subscription_id}", show_subscription, query=_FILTERS),
)
