"""Budgets of processor time: what has a slow search exceeds them, timed and counted."""

from __future__ import annotations

import re
from functools import partial

import pytest

from cost import Within, each_way

DIGITS = "1" * 12_000
LINEAR, QUADRATIC = partial(re.search, "^[0-9]+x"), partial(re.search, "[0-9]+x")


@each_way
def test_a_quadratic_search_exceeds_the_budget(within: Within) -> None:
    """A linear one of the same text doesn't."""
    within(50, LINEAR, DIGITS)
    with pytest.raises(AssertionError, match="1111"):
        within(50, QUADRATIC, DIGITS)
