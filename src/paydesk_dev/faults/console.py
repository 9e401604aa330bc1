"""What the console shows of faults: on the page of a subscription, and in the list of subscriptions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from paydesk.console.api import Document
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import environment
from paydesk_dev.faults.operations import SENTENCES


def fault_of(subscription: Document) -> str:
    """Return what the subscription's fault does; empty if it has none."""
    fault = subscription.get("fault")
    if fault is None:
        return ""
    which = "each notification" if fault["every"] == 1 else f"one of every {fault['every']} notifications"
    delay = f" The delay is {fault['delay_seconds']} s." if "delay_seconds" in fault else ""
    return f"A fault disturbs {which}. {SENTENCES[fault['kind']]}{delay}"


def _shown(macro: str, request: ConsoleRequest, subscription: Document) -> str:
    macros: Any = environment().get_template("faults/console.html").module
    page = f"{PATH}/webhooks/subscriptions/{subscription['id']}"
    shown: str = getattr(macros, macro)(request, subscription, page, fault_of(subscription))
    return shown


ADDITIONS: dict[str, Callable[[ConsoleRequest, Document], str]] = {
    f"subscription.{macro}": partial(_shown, macro) for macro in ("acts", "notice", "state")
}
"""Each macro of the template at its place."""
