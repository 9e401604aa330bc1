"""Objects that are found by their type."""

from __future__ import annotations

import pytest

from paydesk.core.limits.recent import Recent
from paydesk.core.limits.throttle_log import ThrottleLog
from paydesk.core.objects import Objects


def test_an_object_is_found_by_its_type() -> None:
    """Each type has its own."""
    log, recent = ThrottleLog(), Recent()
    objects = Objects(log, recent)
    assert objects[ThrottleLog] is log
    assert objects[Recent] is recent


def test_a_missing_object_is_named() -> None:
    """The error has the type's module and name; `get` returns None."""
    objects = Objects(ThrottleLog())
    with pytest.raises(LookupError, match=r"no paydesk\.core\.limits\.recent\.Recent\."):
        objects[Recent]
    assert objects.get(Recent) is None


def test_an_object_replaces_the_one_of_its_type() -> None:
    """In what `including` returns; the objects it is called on stay as they are."""
    first, second, log = Recent(), Recent(), ThrottleLog()
    objects = Objects(first, log)
    assert objects.including(second)[Recent] is second
    assert objects.including(second)[ThrottleLog] is log
    assert objects.get(Recent) is first
