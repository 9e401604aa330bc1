"""`pytest --unlucky-ids`: every id that is drawn at random in the tests' process has the digits of a card number.

A random UUID in a text does so once in 760 times, a number of 16 digits once in 16. A test that fails with these ids
would fail by chance without them, and a service that refuses or masks one would do so in production.
"""

from __future__ import annotations

import os
import uuid
from itertools import count

from paydesk.core import ids

OF_A_CHILD = 1_000_000
"""So many further on counts a forked process, which draws other ids than its parent."""
random_uuid = ids.uuid
"""The service's own, which `install` replaces."""
_drawn = count(1)


def unlucky_number() -> int:
    """Return a new number of 16 digits that is a Visa card number."""
    return int(_with_check_digit(f"4{next(_drawn):014}"))


def unlucky_uuid() -> str:
    """Return a new UUID (version 4) whose first 16 digits are a Visa card number."""
    drawn = next(_drawn)
    digits = _with_check_digit(f"4{drawn % 10_000_000:07}0000400")
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:]}-8abc-{drawn:012x}"


def _with_check_digit(digits: str) -> str:
    """Return 15 digits and the check digit of ISO/IEC 7812-1."""
    doubled = sum(sum(divmod(int(digit) * 2, 10)) for digit in digits[::2])
    return f"{digits}{-(doubled + sum(map(int, digits[1::2]))) % 10}"


def _count_further() -> None:
    global _drawn  # noqa: PLW0603 - there is one count in a process
    _drawn = count(next(_drawn) + OF_A_CHILD)


def install() -> None:
    """Draw such ids from now on."""
    os.register_at_fork(after_in_child=_count_further)
    uuid.uuid4 = lambda: uuid.UUID(unlucky_uuid())
    ids.uuid = unlucky_uuid
    ids.application_number = ids.event_number = unlucky_number
