"""Refusals that a broken or hostile client can cause without end: a line for the first, then their number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from paydesk.core.errors import Refusal
from paydesk.core.limits.rates import network
from paydesk.core.limits.repetitions import Repetitions

INTERVAL_SECONDS = 60.0
CALLERS_MAX, UNKNOWN_CALLERS_MAX = 1_000, 500
"""Pairs of a caller and an error that are counted by themselves; unknown callers leave room for the known ones."""
STATUSES = frozenset((401, 403, 421, 429))
"""The refusals of known callers that are counted; those of unknown callers all are."""
KNOWN = ("application_id", "seller_id", "terminal_id", "operator_id")
OTHERS = (("callers", "others"),)

log = structlog.get_logger("request")

Key = tuple[str, tuple[tuple[str, Any], ...]]
"""The code of an error, and the fields of the log that name its caller."""


class RepeatedRefusals:
    """Counts the refusals of each caller and error for `INTERVAL_SECONDS` after the first one.

    Refusals of work, such as a conflict with the state of an order, are never counted: each has a line of its own.
    """

    def __init__(self) -> None:
        self.events: Repetitions[Key] = Repetitions(INTERVAL_SECONDS, _log_count)

    def counts(self, refusal: Refusal, address: str, ids: Mapping[str, Any]) -> bool:
        """Return whether the refusal is counted instead of logged. `ids` are those of its log line.

        A caller is known if its credential is valid or was so once.
        """
        known = {name: ids[name] for name in KNOWN if name in ids}
        if refusal.kind.status >= 500 or (known and refusal.kind.status not in STATUSES):
            return False
        caller = known or {**ids, "address": network(address)}
        key, counted = (refusal.kind.code, tuple(caller.items())), self.events.counted
        if key not in counted and len(counted) >= (CALLERS_MAX if known else UNKNOWN_CALLERS_MAX):
            key = refusal.kind.code, OTHERS
        return not self.events.is_first(key)


def _log_count(key: Key, count: int) -> None:
    code, caller = key
    log.info("requests_refused", error=code, count=count, within_seconds=INTERVAL_SECONDS, **dict(caller))
