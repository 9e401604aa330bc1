"""Chance that can be repeated: a test makes the same choices in every run, and other ones in each `make test-all`."""

from __future__ import annotations

import os
import random

SEED = 7


def seeded() -> random.Random:
    """Return random choices; a failing test prints how to repeat them."""
    return random.Random(seed())


def seed() -> int:
    """Return the seed of a test, or `PAYDESK_TEST_SEED`."""
    is_new = os.environ.get("HYPOTHESIS_PROFILE") == "random"
    chosen = int(os.environ.get("PAYDESK_TEST_SEED", "0")) or (random.randrange(10**9) if is_new else SEED)
    print(f"seed {chosen}: PAYDESK_TEST_SEED={chosen} makes the same choices")  # noqa: T201 - shown when it fails
    return chosen
