"""The operations of the page of a virtual terminal, `/virtual/{terminal_id}` (development only)."""

from __future__ import annotations

from paydesk.operation import Operation

OPERATIONS: tuple[Operation, ...] = ()
