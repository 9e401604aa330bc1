"""The rows of lists as tables show them: nested values are copied to the top, and codes become words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from paydesk.core.money import CURRENCIES, decimal_string, spelled
from paydesk.operators.acquirers.looks import connection, takes
from paydesk.operators.orders.reasons import payment_of, reason_of

Row = Mapping[str, Any]


def flat_order(order: Row) -> dict[str, Any]:
    """Return the order with nested values copied to the top for display."""
    return {
        **order,
        "seller": order["user_id"],
        "amount": f"{spelled(order['total_amount'], order['currency'])} {order['currency']}",
        "terminal": order["config"]["point"]["terminal_id"],
        "kind": "live" if order["live_mode"] else "test",
        "reason": reason_of(order["status"], payment_of(order)["status_detail"]),
    }


def flat_amount(row: Row) -> Row:
    """Return a confirmation, refund or reversal with its amount and currency as one text."""
    currency = row.get("currency", "")
    minor = row.get("amount_minor")
    decimals = CURRENCIES[currency].decimals if currency else 0
    amount = row.get("amount", "") if minor is None else decimal_string(minor, decimals)
    if minor is not None and not currency:
        amount = ""  # Minor units alone would be read as whole ones.
    return {**row, "amount": f"{spelled(amount, currency)} {currency}".rstrip()}


def flat_terminal(terminal: Row) -> dict[str, Any]:
    """Return the terminal with its order as one text."""
    order = terminal.get("current_order")
    return {**terminal, "order": order and f"{order['id']} {order['status']}"}


def flat_entry(entry: Row) -> dict[str, Any]:
    """Return the entry with what has changed: fields that differ, or all of something new or deleted."""
    before, after = entry.get("before") or {}, entry.get("after") or {}
    changes = []
    for name in {**before, **after}:
        if before.get(name) != after.get(name):
            values = [side[name] for side in (before, after) if name in side]
            words = (one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in values)
            changes.append(f"{name}: {' → '.join(words)}")
    return {**entry, "name": entry.get("name", entry["operator_id"]), "changed": "; ".join(changes)}


def flat_acquirer(acquirer: Row) -> Row:
    """Return the acquirer with the state of its connection, and the orders that it takes, as texts."""
    return {**acquirer, "breaker": connection(acquirer), "takes": takes(acquirer)}


FLAT: Mapping[str, Callable[[Row], Row]] = {
    "acquirers list": flat_acquirer,
    "audit list": flat_entry,
    "orders list": flat_order,
    "confirmations list": flat_amount,
    "refunds list": flat_amount,
    "reversals list": flat_amount,
    "terminals list": flat_terminal,
}
"""The functions that prepare a row for display, by the command that lists it."""
