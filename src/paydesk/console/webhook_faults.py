"""What the fault of a subscription does to its notifications, in development, as its page says it."""

from __future__ import annotations

from paydesk.console.reasons import Document
from paydesk.operators.subscription_faults import SENTENCES


def sentence_of(subscription: Document) -> str:
    """Return what the subscription's fault does; empty if it has none."""
    fault = subscription.get("fault")
    if fault is None:
        return ""
    which = "each notification" if fault["every"] == 1 else f"one of every {fault['every']} notifications"
    delay = f" The delay is {fault['delay_seconds']} s." if "delay_seconds" in fault else ""
    return f"A fault disturbs {which}. {SENTENCES[fault['kind']]}{delay}"
