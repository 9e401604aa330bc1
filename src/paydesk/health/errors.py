"""The error of `/readyz`."""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

NOT_READY = ErrorKind("not_ready", 503, "This node is not ready for traffic.")
