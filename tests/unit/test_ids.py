"""Ids have their form, come in the order of time, and never twice."""

from __future__ import annotations

import os
import re
import uuid

import unlucky_ids
from paydesk.core import ids


def test_a_ulid_has_its_form_and_sorts_by_time() -> None:
    """48 bits of time before 80 random ones."""
    earlier, later = ids.ulid(1_769_869_602_109), ids.ulid(1_769_869_602_110)
    assert re.fullmatch(ids.ULID_PATTERN, earlier)
    assert earlier[:10] < later[:10]


def test_a_uuid_is_one_of_version_4() -> None:
    """As RFC 9562 has it, in lower case; every other digit is any one."""
    made = [unlucky_ids.random_uuid() for _ in range(2000)]
    for text in made:
        parsed = uuid.UUID(text)
        assert (parsed.version, parsed.variant, str(parsed)) == (4, uuid.RFC_4122, text)
    fixed = {8: "-", 13: "-", 14: "4", 18: "-", 19: "89ab", 23: "-"}
    for place, digits in enumerate(zip(*made, strict=True)):
        assert set(digits) == set(fixed.get(place, "0123456789abcdef"))


def test_no_id_comes_twice() -> None:
    """Also across the end of a pool of randomness."""
    assert len({ids.uuid() for _ in range(5000)} | {ids.ulid(1) for _ in range(5000)}) == 10_000


def test_a_forked_child_makes_other_ids_than_its_parent() -> None:
    """The pool is not shared."""
    ids.uuid()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, ids.uuid().encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        assert pipe.read() != ids.uuid()


def test_ordered_ulids_of_a_millisecond_are_in_order() -> None:
    """Entries of the audit trail that are made within a millisecond are listed as they were made."""
    made = [ids.ordered_ulid(1_769_869_602_109) for _ in range(5000)]
    assert made == sorted(set(made))
    assert all(re.fullmatch(ids.ULID_PATTERN, one) and one.startswith(made[0][:10]) for one in made)
    assert ids.ordered_ulid(1_769_869_602_110) > made[-1]
