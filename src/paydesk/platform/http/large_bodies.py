"""Admission of requests with large bodies: limits how many are in memory at once, of one caller and of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from paydesk.platform.http.rate_limit import too_many
from paydesk.platform.operation import Caller

BODIES_MAX, BODIES_OF_CALLER_MAX = 32, 8


class LargeBodies:
    """The large bodies that a process reads or handles now."""

    def __init__(self) -> None:
        self._of_callers: Counter[bytes] = Counter()

    @contextmanager
    def admit(self, caller: Caller) -> Iterator[None]:
        """Count a body of this caller until the end of its request. Raises `too_many_requests`."""
        token = caller.token_digest
        if self._of_callers[token] >= BODIES_OF_CALLER_MAX:
            raise too_many("too many large bodies of one token at once", 1)
        if self._of_callers.total() >= BODIES_MAX:
            raise too_many("too many large bodies at once", 1)
        self._of_callers[token] += 1
        try:
            yield
        finally:
            self._of_callers[token] -= 1
            self._of_callers += Counter()  # drops callers without one
