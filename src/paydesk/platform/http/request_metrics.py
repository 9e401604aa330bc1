"""What `/metrics` says of requests: how many, with which status, and how long they take."""

from __future__ import annotations

from bisect import bisect_left

from paydesk.core.metrics import SECONDS, Counter, Histogram, Labels
from paydesk.platform.operation import Operation

REQUESTS = Counter(
    "paydesk_http_requests_total", "Requests by operation, or by surface, and by status.", "operation", "code"
)
DURATION = Histogram(
    "paydesk_http_request_duration_seconds", "From the head of a request to its response; polls wait.", "operation"
)
TOKEN_REFUSALS = Counter(
    "paydesk_token_refusals_total", "Refusals of the token endpoints and of bearer tokens, by their code.", "reason"
)
_requests, FIRST = REQUESTS.values, SECONDS[0]
NAMED = frozenset({"application", "token", "device"})
"""The surfaces whose operations are named; of the others the surface is."""


class Served:
    """The requests of one operation. Every request adds, so this is `Counter.add` and `Observed.add` in one call."""

    __slots__ = ("_buckets", "_duration", "_labels", "_name")

    def __init__(self, name: str) -> None:
        self._name, self._duration, self._labels = name, DURATION.of(name), dict[int, Labels]()
        self._buckets = self._duration.buckets

    def add(self, status: int, seconds: float) -> None:
        """Count a request."""
        try:
            _requests[self._labels[status]] += 1
        except KeyError:
            labels = self._labels[status] = (self._name, str(status))
            REQUESTS.add(*labels)
        self._buckets[0 if seconds <= FIRST else bisect_left(SECONDS, seconds)] += 1
        self._duration.total += seconds


def of(operation: Operation) -> Served:
    """Return what counts the requests of an operation."""
    return Served(operation.name if operation.surface in NAMED else operation.surface)


NOWHERE = Served("unknown")
"""Counts requests that reach no operation."""
