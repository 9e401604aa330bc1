"""The first screen: the items that need attention, the last orders with their reasons, and the figures of today."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paydesk.console import view
from paydesk.console.request import ConsoleRequest
from paydesk.console.screen import page, render, screen
from paydesk.operators.list_pages import columns_of
from paydesk.operators.orders.operations import LIST
from paydesk.operators.overview.plot import plot_of
from paydesk.platform.operation import Answer

ORDERS = 10
NONE = "\N{EN DASH}"
"""The text of a tile without a figure."""


@screen
async def show(request: ConsoleRequest) -> Answer:
    """Show the items that need attention, the last ten orders and today's figures."""
    attention = await request.api.get("attention")
    orders = await request.api.get("orders", limit=ORDERS)
    figures = await request.api.get("figures")
    return render(
        request,
        "overview/page.html",
        section="overview",
        title="Overview",
        live_on="terminal delivery webhooks",
        items=attention["data"],
        rows=orders["data"],
        columns=columns_of(LIST, "status", "terminal", "card"),
        figures=figures,
        tiles=tiles(figures),
        plot=plot_of(figures["hours"]),
    )


def tiles(figures: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the figures with their units and labels."""
    amounts = figures["amounts"]
    shown = [("Orders", str(figures["orders"]), "")]
    for name, label in (("processed", "Paid"), ("refunded", "Refunded")):
        paid = [(one[name], one["currency"]) for one in amounts if float(one["processed"])]
        shown += [(label, amount, currency) for amount, currency in paid] or [(label, "0", "")]
    rate, median = figures.get("approval_rate"), figures.get("median_ms")
    shown.append(("Approval rate", NONE if rate is None else f"{rate * 100:.1f}", "" if rate is None else "%"))
    value, _, unit = (NONE, "", "") if median is None else view.duration(median).partition(" ")
    shown.append(("Median time to the payment", value, unit))
    return shown


OPERATIONS = (page("", show),)
