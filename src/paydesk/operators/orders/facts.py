"""The values that sentences about an order name besides its properties: its amounts, and what it waits for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from paydesk.core.money import CURRENCIES, decimal_string, minor_units, spelled
from paydesk.engine.orders.status import LIVE

LIVE_LABELS = (*LIVE, "action_required")
"""The statuses of orders that hold a terminal, also with extended statuses."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d)(\.\d+)?Z")


def of_order(order: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of an order.

    `left` is the amount that can still be refunded, `waits` what it waits for, `late` the status of an approval that
    came after it was canceled. `unrefundable` is the reason why the order's acquirer refunds nothing, or "".
    """
    total, payment = order["total_amount"], order["transactions"]["payments"][0]
    reversals = [one["status"] for one in order.get("reversals", ()) if order["status"] == "canceled"]
    return {
        "is_live": order["status"] in LIVE_LABELS,
        "total": spelled(total, order["currency"]),
        "paid": spelled(payment.get("paid_amount", total), order["currency"]),
        "left": remaining(order),
        "unrefundable": unrefundable(order),
        "refunds_parts": order.get("acquirer", {}).get("partial_refunds", True),
        "waits": waiting_sentence(order),
        "late": next((one for one in ("pending", "reversed") if one in reversals), ""),
    }


def unrefundable(order: Mapping[str, Any]) -> str:
    """Return why the acquirer refunds nothing: `refused`, `gone`, `none`, `currency` or `part`; "" if it may."""
    acquirer = order.get("acquirer", {})
    has_part = any(one["status"] != "failed" for one in order.get("order_refunds", ()))
    reasons = {
        "refused": order.get("confirmation", {}).get("status") == "refused",
        "gone" if "name" in acquirer else "none": not acquirer.get("is_configured", True),
        "currency": not acquirer.get("accepts_currency", True),
        "part": has_part and not acquirer.get("partial_refunds", True),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def remaining(order: Mapping[str, Any]) -> str:
    """Return the paid amount that can still be refunded; empty if there is none."""
    payment = order["transactions"]["payments"][0]
    if order["status"] != "processed" or "paid_amount" not in payment:
        return ""
    decimals = CURRENCIES[order["currency"]].decimals
    paid = minor_units(payment["paid_amount"], decimals) or 0
    # Only the answer to `GET` has all refunds, also those that failed.
    refunds = order.get("order_refunds", order["transactions"].get("refunds", ()))
    taken = sum(minor_units(one["amount"], decimals) or 0 for one in refunds if one["status"] != "failed")
    return decimal_string(paid - taken, decimals) if paid > taken else ""


def waiting_sentence(order: Mapping[str, Any]) -> str:
    """Return what a live order waits for, with short times; "" without `waiting`."""
    message = (order.get("waiting") or {}).get("message", "")
    return _TIME.sub(r"\1 UTC", message)
