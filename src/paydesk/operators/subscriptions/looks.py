"""What pages show of subscriptions and deliveries: their looks, and what their states mean."""

from __future__ import annotations

from urllib.parse import urlsplit

from paydesk.console import statuses
from paydesk.console.api import Document
from paydesk.console.statuses import Look


def host(url: str) -> str:
    """Return the host of a URL, with its port if it has one."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2] or url
    except ValueError:
        return url


def look_of(subscription: Document) -> Look:
    """Return how the state of a subscription is shown."""
    if subscription["status"] == "paused":
        by_failures = subscription.get("paused_by") == "failures"
        return Look("bad", "cross", "Paused after failures") if by_failures else Look("off", "dash", "Paused")
    if "failing_since_date" in subscription:
        return Look("look", "triangle", "Failing")
    return Look("ok", "check", "Active")


def state_of(subscription: Document) -> str:
    """Return what the state of a subscription means, and what to do; empty if it is active and has nothing exhausted.

    The page adds since when it is so.
    """
    if subscription["status"] == "paused":
        kept = "Nothing is sent. Its notifications are kept for 30 days from their event."
        if subscription.get("paused_by") == "failures":
            return f"No notification succeeded for five days, so it was paused. {kept} Repair the receiver and resume."
        return f"An operator paused it. {kept}"
    if "failing_since_date" in subscription:
        return (
            "No notification has succeeded since the first failure. Each is retried with growing pauses; after five"
            " days without a success the subscription is paused. The deliveries below show what the receiver answered."
        )
    if subscription.get("exhausted"):
        return "Some notifications were given up: they are not sent again by themselves."
    return ""


def delivery_look(delivery: Document) -> Look:
    """Return how a delivery is shown."""
    if delivery["status"] == "pending":
        if delivery.get("paused"):
            return Look("off", "dash", "Paused")
        if delivery["attempts"]:
            return Look("look", "triangle", f"Failing, {delivery['attempts']} {attempts(delivery['attempts'])}")
    return statuses.look_in(statuses.DELIVERIES, delivery["status"])


def attempts(count: int) -> str:
    """Return the word for this number of attempts."""
    return "attempt" if count == 1 else "attempts"
