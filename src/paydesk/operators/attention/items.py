"""The icon, the title and the link with which the console shows an item that needs attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from paydesk.console.request import PATH

TITLES: Mapping[str, tuple[str, str, str]] = {
    "acquirer_unreachable": ("bad", "plug", "Acquirer unreachable"),
    "outcome_unknown": ("look", "triangle", "Outcome unknown"),
    "confirmation_refused": ("bad", "cross", "Not paid out"),
    "confirmation_unanswered": ("look", "clock", "Payment not confirmed"),
    "reversal_unconfirmed": ("look", "back", "Reversal not confirmed"),
    "refund_slow": ("look", "back", "Refund not confirmed"),
    "terminals_offline": ("bad", "wifi-off", "Terminals offline"),
    "order_stuck": ("bad", "wifi-off", "Terminal offline"),
    "cancel_unanswered": ("look", "clock", "Cancel not answered"),
    "subscription_paused": ("bad", "hooks", "Notifications paused"),
    "deliveries_exhausted": ("bad", "hooks", "Not delivered"),
    "subscription_failing": ("look", "hooks", "Notifications fail"),
    "print_stuck": ("look", "printer", "Printing stuck"),
}
"""The colour, the icon and the title of each kind."""
ABOUT_TERMINALS = ("terminals_offline", "order_stuck", "cancel_unanswered", "print_stuck")


def link_of(item: Mapping[str, Any]) -> tuple[str, str]:
    """Return the address of the page about an item of `GET attention`, and the words of the link."""
    if item["kind"] == "terminals_offline":
        seller = f"&seller={item['seller_id']}" if "seller_id" in item else ""
        return f"{PATH}/terminals?presence=offline{seller}", "Open terminals"
    if item["kind"] in ABOUT_TERMINALS:
        return f"{PATH}/terminals/{quote(item['terminal_id'], safe='')}", "Open terminal"
    if item["kind"] == "acquirer_unreachable":
        return f"{PATH}/acquirers", "Open acquirers"
    if "order_id" in item:
        return f"{PATH}/orders/{item['order_id']}", "Open order"
    return f"{PATH}/webhooks/subscriptions/{item['subject']}", "Open subscription"
