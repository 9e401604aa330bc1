"""The one line that a request writes into the log."""

from __future__ import annotations

import time
from typing import Any

import structlog

from paydesk.errors import Refusal

PATH_CHARACTERS_MAX = 200

log = structlog.get_logger("request")


def write(method: str, path: str, status: int, request_id: str, started: float, refusal: Refusal | None) -> None:
    """Write it; `started` is by `time.perf_counter`. Of a refusal it has the code and the precise reason."""
    fields: dict[str, Any] = {
        "method": method,
        "path": path[:PATH_CHARACTERS_MAX],
        "status": status,
        "ms": round((time.perf_counter() - started) * 1000, 1),
        "request_id": request_id,
    }
    if refusal is not None:
        fields["error"] = refusal.kind.code
        fields["reason"] = refusal.reason
    log.info("request", **fields)
