"""What tests and scripts may wait for, and whether an order can still get there: by the tables of the engine."""

from __future__ import annotations

from paydesk.engine.orders.status import DETAILS, PAYMENT_DETAILS, STATES, legal
from paydesk.engine.orders.status_labels import EXTENDED
from paydesk.engine.webhooks.schemas import ACTIONS_OF

ACTIONS = tuple(action for actions in ACTIONS_OF.values() for action in actions)


def known_status(status: str) -> str:
    """Return the status. Raises `ValueError` for one that no order has."""
    if status not in EXTENDED.all:
        raise ValueError(f"No order is {status!r}. The statuses are {', '.join(EXTENDED.all)}.")
    return status


def known_state(name: str) -> str:
    """Return the status or detail. Raises `ValueError` for one that no order has."""
    return name if name in (*DETAILS, *PAYMENT_DETAILS) else known_status(name)


def known_action(action: str) -> str:
    """Return the action of a notification. Raises `ValueError` for one that none has."""
    if action not in ACTIONS:
        raise ValueError(f"No webhook has the action {action!r}. The actions are {', '.join(ACTIONS)}.")
    return action


def can_become(status: str, detail: str, current: str) -> bool:
    """Return whether an order can still get the status, and the payment's detail if it is not empty.

    `current` is the detail of its payment now, which names its state.
    """
    states = [state for state in STATES if state.payment_detail == current]
    if not states:
        return True
    for state in states:
        states += (target for target in STATES if target not in states and legal(state, target))
    return any(
        status in (state.status, EXTENDED.of_status(state.status, state.detail))
        and detail in ("", state.payment_detail)
        for state in states[1:]
    )
