"""What `/metrics` says of the database. Both drivers count it."""

from __future__ import annotations

from paydesk.core.metrics import Counter, Gauge, Histogram
from paydesk.platform.storage.database import DiskFull, Locked, Overtaken, ReadOnly, Unavailable

BATCH_SIZE = Histogram(
    "paydesk_database_batch_size", "Units of work in a commit.", bounds=(1, 2, 4, 8, 16, 32, 64, 128, 256)
).of()
_WAIT = Histogram("paydesk_database_wait_seconds", "From the request for a unit of work until it begins.", "kind")
WRITE_WAIT, READ_WAIT, HEAVY_WAIT = map(_WAIT.of, ("write", "read", "heavy"))
CONNECTIONS = Gauge("paydesk_database_connections", "Connections to the database: in_use by work, or idle.", "state")
ERRORS = Counter(
    "paydesk_database_errors_total",
    "Units of work that failed because of the database or its load. One that other work has overtaken is tried again.",
    "reason",
)
_FAILURES = (Unavailable, Locked, Overtaken)
_REASONS = {DiskFull: "disk_full", ReadOnly: "read_only", Locked: "locked", Overtaken: "overtaken"}


def note_failure(error: BaseException) -> None:
    """Count a unit of work that failed, unless its own refusal is the reason."""
    if isinstance(error, _FAILURES):
        ERRORS.add(_REASONS.get(type(error), "unavailable"))
