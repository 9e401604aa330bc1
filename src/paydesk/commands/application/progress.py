"""The lines of `paydesk pay` and `orders watch` about an order: its status changes, its webhooks, and its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from paydesk.commands.client.failure import Failure
from paydesk.commands.client.options import harmless
from paydesk.core.money import spelled

if TYPE_CHECKING:
    from rich.console import Console

Order = Mapping[str, Any]

OPEN = ("created", "at_terminal", "action_required")
POLL_INTERVAL_SECONDS, LATER_INTERVAL_SECONDS = 0.1, 0.5
"""The pause between two requests: at first, and once the order has not changed for `LATER_SECONDS`."""
LATER_SECONDS = 30
INBOX_SECONDS_MAX = 5
"""Maximum wait for the webhooks to the demo inbox after the end of the order."""
STYLES = {"processed": "bold green", "failed": "bold red", "canceled": "yellow", "at_terminal": "cyan"}
MEANINGS = {
    ("created", "created"): "waiting for the terminal",
    ("at_terminal", "at_terminal"): "the terminal has the order",
    ("at_terminal", "check_on_terminal"): "outcome unknown, inquiry pending",
    ("processed", "processed"): "paid",
    ("action_required", "check_on_terminal"): "outcome unknown, inquiry pending",
    ("canceled", "expired"): "expired before payment",
    ("expired", "expired"): "expired before payment",
    ("canceled", "canceled"): "canceled",
}


class Progress:
    """Prints each line about an order once. Only the webhooks to `inbox_url` are awaited; an empty text means none."""

    def __init__(self, console: Console, inbox_url: str) -> None:
        self._console, self._inbox_url = console, inbox_url
        self._printed: set[str] = set()

    def print_start(self, order: Order) -> None:
        """Print the order's id and amount."""
        amount = spelled(order["total_amount"], order["currency"])
        self._console.print(f"[bold]{order['id']}[/]  {amount} {order['currency']}")

    def print_new(self, order: Order) -> None:
        """Print the status changes and webhooks that were not printed yet, by time."""
        from rich.markup import escape

        lines, actions = [], {event["version"]: event["action"] for event in order["events"]}
        for event in order["events"]:
            meaning = MEANINGS.get((event["status"], event["status_detail"]), event["payment_status_detail"])
            change = f"[{STYLES.get(event['status'], 'bold')}]{event['status']:<12}[/] {meaning}"
            lines.append((event["created_date"], f"event {event['version']}", change))
        # The end of each delivery, and each failed last attempt.
        for delivery in order["deliveries"]:
            # The query may have the receiver's secrets.
            to = "" if self._is_to_inbox(delivery) else f" to {delivery['url'].partition('?')[0]}"
            webhook, key = f"webhook {actions[delivery['version']]}{to}", f"webhook {delivery['id']}"
            last = delivery.get("last_attempt")
            if last is not None and not 200 <= last.get("status", 0) < 300:
                answer = last.get("error") or f"the receiver answered {last['status']}"
                line = f"{webhook} failed, attempt {last['number']}: {answer}"
                lines.append((last["date"], f"{key} {last['number']}", f"{'':<12} [yellow]{escape(line)}[/]"))
            if delivery["status"] != "pending":
                line = f"{webhook} {delivery['status']}"
                lines.append((delivery["ended_date"], key, f"{'':<12} [dim]{escape(line)}[/]"))
        for when, key, line in sorted(lines):
            if key not in self._printed:
                self._printed.add(key)
                self._console.print(harmless(f"[dim]{when[11:23]}[/]  {line}"))

    def follow(self, read: Callable[[], Order]) -> Order:
        """Print new lines until the order is final and the demo inbox has its webhooks, at most 5 s more; return it."""
        ended, version, changed = 0.0, 0, time.monotonic()
        while True:
            order, now = read(), time.monotonic()
            self.print_new(order)
            if order["version"] != version:
                version, changed = order["version"], now
            if order["status"] not in OPEN:
                ended = ended or now
                if now > ended + INBOX_SECONDS_MAX or not self.awaited(order):
                    return order
            time.sleep(POLL_INTERVAL_SECONDS if now < changed + LATER_SECONDS else LATER_INTERVAL_SECONDS)

    def awaited(self, order: Order) -> int:
        """Return how many webhooks to the inbox are still to be delivered."""
        return sum(
            delivery["status"] == "pending" and not delivery.get("paused") and self._is_to_inbox(delivery)
            for delivery in order["deliveries"]
        )

    def _is_to_inbox(self, delivery: Mapping[str, Any]) -> bool:
        return bool(self._inbox_url) and delivery["url"] == self._inbox_url


def with_current_state(order: Order) -> Order:
    """Return an order as an application reads it with its current state as its only event, and no deliveries."""
    event = {
        "version": order["version"],
        "created_date": order["last_updated_date"],
        "status": order["status"],
        "status_detail": order["status_detail"],
        "payment_status_detail": order["transactions"]["payments"][0]["status_detail"],
        "action": "",
    }
    return {**order, "events": [event], "deliveries": []}


def refuse_unpaid(order: Order) -> None:
    """Raise `Failure` unless the order was paid and not refunded since."""
    if order["status"] != "processed":
        detail = order["transactions"]["payments"][0]["status_detail"]
        reason = "" if detail == order["status"] else f": {detail}"
        raise Failure(f"The order ended as {order['status']}{reason}.")
