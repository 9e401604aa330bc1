"""A change of orders: what every function below a handler or a worker needs to make a move."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from paydesk.engine.orders.status_labels import Labels, labels_of
from paydesk.platform.operation import Call
from paydesk.platform.storage.database import Transaction

if TYPE_CHECKING:
    from paydesk.platform.settings import Settings


class Change(msgspec.Struct, frozen=True):
    """A unit of work on orders: its transaction, its time, and the status labels that its events show."""

    tx: Transaction
    now_ms: int
    labels: Labels


def change_of(call: Call) -> Change:
    """Return the change that a handler makes in its transaction."""
    return Change(call.tx, call.now_ms, call.shared.objects[Labels])


def change_at(tx: Transaction, now_ms: int, settings: Settings) -> Change:
    """Return the change that a worker makes in a transaction of its own."""
    return Change(tx, now_ms, labels_of(settings))
