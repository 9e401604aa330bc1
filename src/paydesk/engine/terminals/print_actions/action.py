"""A print action: its row, and its lifecycle as one table."""

from __future__ import annotations

from typing import Literal

import msgspec

from paydesk.core.lifecycle import Lifecycle, Move, states_of

ActionStatus = Literal["created", "on_terminal", "processed", "failed", "canceled"]
Subtype = Literal["custom", "image"]

CREATED, ON_TERMINAL, PROCESSED, FAILED, CANCELED = states_of(ActionStatus)

CREATE = Move("create", "POST /terminals/v1/actions", (), CREATED)
HAND_OUT = Move("hand_out", "the terminal gets it with a poll", (CREATED,), ON_TERMINAL)
PRINT = Move("print", "the terminal has printed it", (ON_TERMINAL,), PROCESSED)
FAIL = Move("fail", "the terminal could not print it", (ON_TERMINAL,), FAILED)
CANCEL = Move("cancel", "POST …/cancel", (CREATED,), CANCELED)
RELEASE = Move("release", "an operator releases the terminal", (CREATED, ON_TERMINAL), CANCELED)
EXPIRE = Move("expire", "15 minutes pass", (CREATED, ON_TERMINAL), CANCELED)

PRINT_ACTIONS = Lifecycle(
    "print_actions",
    (CREATED, ON_TERMINAL, PROCESSED, FAILED, CANCELED),
    (CREATE, HAND_OUT, PRINT, FAIL, CANCEL, RELEASE, EXPIRE),
)


class PrintAction(msgspec.Struct, frozen=True):
    """One row of `print_actions`, its columns in order, without the content."""

    seller_id: int
    action_id: str
    application_id: int
    live: int
    terminal_id: str
    external_reference: str
    subtype: Subtype
    status: ActionStatus
    created_ms: int
    updated_ms: int
    expires_ms: int

    @property
    def is_open(self) -> bool:
        """Return whether it holds its terminal."""
        return self.status in (CREATED.name, ON_TERMINAL.name)
