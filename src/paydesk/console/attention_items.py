"""What needs a person, as the console shows it: with an icon and a link to the page about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from paydesk.console import view
from paydesk.console.request import PATH

TITLES: Mapping[str, tuple[str, str, str]] = {
    "outcome_unknown": ("look", "triangle", "Outcome unknown"),
    "reversal_unconfirmed": ("look", "back", "Reversal not confirmed"),
    "refund_slow": ("look", "back", "Refund not confirmed"),
    "order_stuck": ("bad", "wifi-off", "Terminal offline"),
    "cancel_unanswered": ("look", "clock", "Cancel not answered"),
    "subscription_paused": ("bad", "hooks", "Notifications paused"),
    "deliveries_exhausted": ("bad", "hooks", "Not delivered"),
    "subscription_failing": ("look", "hooks", "Notifications fail"),
    "print_stuck": ("look", "printer", "Printing stuck"),
}
"""The colour, the icon and the title of each kind."""
ABOUT_TERMINALS = ("order_stuck", "cancel_unanswered", "print_stuck")


@dataclass(frozen=True, slots=True)
class Item:
    """One item. `href` is the page about it, `link` the text of the link."""

    key: str
    colour: str
    icon: str
    title: str
    since_date: str
    message: Markup
    do: Markup
    href: str
    link: str
    live_mode: bool
    resolve: str = ""
    """The address of the form that sets the outcome, once it can be set."""


def item_of(document: Mapping[str, Any], now_ms: int) -> Item:
    """Return the item of a document of `GET attention`."""
    colour, icon, title = TITLES.get(document["kind"], ("look", "triangle", "Look at this"))
    href, link = _target(document)
    resolvable = document.get("resolvable_date")
    is_resolvable = resolvable is not None and view.instant_ms(resolvable) <= now_ms
    return Item(
        key=f"{document['kind']}-{document['subject']}",
        colour=colour,
        icon=icon,
        title=title,
        since_date=document["since_date"],
        message=view.short_times(document["message"], now_ms),
        do=view.short_times(document["do"], now_ms),
        href=href,
        link=link,
        live_mode=document["live_mode"],
        resolve=f"{href}/resolve" if is_resolvable else "",
    )


def _target(document: Mapping[str, Any]) -> tuple[str, str]:
    """Return the address of the page about an item, and the words of the link."""
    kind, order_id = document["kind"], document.get("order_id")
    if kind in ABOUT_TERMINALS:
        return f"{PATH}/terminals/{quote(document['terminal_id'], safe='')}", "Open terminal"
    if order_id is not None:
        return f"{PATH}/orders/{order_id}", "Open order"
    return f"{PATH}/webhooks/subscriptions/{document['subject']}", "Open subscription"
