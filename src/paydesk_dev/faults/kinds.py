"""Webhook faults, for development: what goes wrong with the notifications of a subscription, and with which of them.

Pure functions; `courier` applies them.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from paydesk.core.response import Closed, one_of
from paydesk.core.secrets import Secret
from paydesk.engine.webhooks.signatures.signature import PREFIX

FaultKind = Literal["late", "twice", "out_of_order", "before_answer", "bad_signature", "old_timestamp", "drop"]
KINDS: tuple[FaultKind, ...] = get_args(FaultKind)
DELAYING: tuple[FaultKind, ...] = ("late", "out_of_order")
"""The kinds that use `delay_seconds`."""

EVERY_MAX = 1000
DELAY_SECONDS_DEFAULT, DELAY_SECONDS_MAX = 10, 600
OLD_SECONDS = 600
"""How old the time of an `old_timestamp` is: twice what receivers accept."""

DROPPED = "Not sent: dropped by the subscription's fault"
"""The error of the attempt that records a dropped notification."""

_COUNTED: dict[FaultKind, tuple[str | None, ...]] = {
    # After the others usually no newer version follows that could be sent first.
    "out_of_order": ("order.created", "order.at_terminal", "order.action_required", None),
    "before_answer": ("order.created",),
}


class Fault(Closed, frozen=True):
    """The fault of a subscription, as it is stored and shown."""

    kind: Annotated[FaultKind, one_of(KINDS)]
    every: Annotated[int, Meta(ge=1, le=EVERY_MAX, description="3 affects every third notification, 1 each.")]
    delay_seconds: Annotated[int | None, Meta(description="With `late` and `out_of_order` only.")] = None
    seed: Annotated[int | None, Meta(description="Chooses which one; without it the last of each `every`.")] = None

    def counts(self, action: str | None) -> bool:
        """Return whether notifications of this action of orders are counted; others are never affected.

        None is an action of another topic.
        """
        return self.kind not in _COUNTED or action in _COUNTED[self.kind]

    def affects(self, ordinal: int) -> bool:
        """Return whether the notification with this number, counted from 1, is affected.

        Exactly one of each `every` is: the last one, or with a seed one that depends on the seed and the place in the
        sequence alone, so that a run can be repeated.
        """
        turn, place = divmod(ordinal - 1, self.every)
        if self.seed is None:
            return place == self.every - 1
        digest = hashlib.sha256(f"{self.seed}:{turn}".encode()).digest()
        return place == int.from_bytes(digest[:8]) % self.every


def new_fault(kind: FaultKind, *, every: int, delay_seconds: int | None, seed: int | None) -> Fault:
    """Return a fault with the default delay if it needs one, and without a delay if it does not."""
    delay = DELAY_SECONDS_DEFAULT if delay_seconds is None else delay_seconds
    return Fault(kind, every, delay if kind in DELAYING else None, seed)


def parse(stored: str) -> Fault:
    """Return the fault from its JSON in the database."""
    return msgspec.json.decode(stored, type=Fault)


def encode(fault: Fault) -> str:
    """Return the fault as JSON for the database."""
    return msgspec.json.encode(fault).decode()


def signing(kind: FaultKind | None, secrets: Sequence[Secret], seconds: int) -> tuple[Sequence[Secret], int]:
    """Return the secrets and the time that sign an attempt that this fault affects."""
    match kind:
        case "bad_signature":
            # As with another secret for each.
            digests = [hashlib.sha256(b"bad_signature" + secret.reveal().encode()).digest() for secret in secrets]
            return [Secret(PREFIX + b64encode(digest).decode()) for digest in digests], seconds
        case "old_timestamp":
            return secrets, seconds - OLD_SECONDS
        case _:
            return secrets, seconds
