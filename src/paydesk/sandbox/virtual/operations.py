"""The operations of `/virtual/v1`: private virtual terminals, driven step by step (development only)."""

from __future__ import annotations

from paydesk.operation import Operation

OPERATIONS: tuple[Operation, ...] = ()
