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
"""The refusals of known callers that are counted, and not those of their work; of unknown callers all are."""
KNOWN = ("application_id", "seller_id", "terminal_id", "operator_id")

log = structlog.get_logger("request")


class RepeatedRefusals:
    """Counts the refusals of each caller and error for `INTERVAL_SECONDS` after the first one, and so on."""

    def __init__(self) -> None:
        # By the code of the error, and the fields of the log that name the caller.
        self.events: Repetitions[tuple[str, tuple[tuple[str, Any], ...]]] = Repetitions(INTERVAL_SECONDS, _log_count)

    def counts(self, refusal: Refusal, address: str, ids: Mapping[str, Any]) -> bool:
        """Return whether it is counted instead of logged. A caller is known by `ids` that a credential has or had."""
        known = {name: ids[name] for name in KNOWN if name in ids}
        if refusal.kind.status >= 500 or (known and refusal.kind.status not in STATUSES):
            return False
        caller, counted = known or {**ids, "address": network(address)}, self.events.counted
        key = refusal.kind.code, tuple(caller.items())
        if key not in counted and len(counted) >= (CALLERS_MAX if known else UNKNOWN_CALLERS_MAX):
            key = refusal.kind.code, (("callers", "others"),)
        return not self.events.is_first(key)


def _log_count(key: tuple[str, tuple[tuple[str, Any], ...]], count: int) -> None:
    log.info("requests_refused", error=key[0], count=count, within_seconds=INTERVAL_SECONDS, **dict(key[1]))
