"""Which notifications a fault affects, and how an attempt is signed then."""

from __future__ import annotations

import re

import msgspec
import pytest

from paydesk.core.secrets import Secret
from paydesk_dev.faults import kinds as faults
from paydesk_dev.faults.kinds import KINDS, Fault, FaultKind
from tables import each
from written_statements import written_statements

SECRET = Secret("whsec_" + "A" * 44)


def affected(every: int, seed: int | None, last: int = 30) -> list[int]:
    """Return the affected ones of the first notifications."""
    fault = Fault("drop", every, seed=seed)
    return [ordinal for ordinal in range(1, last + 1) if fault.affects(ordinal)]


def test_without_a_seed_every_nth_is_affected() -> None:
    """The third, the sixth and so on; with 1 each."""
    assert affected(3, None, 10) == [3, 6, 9]
    assert affected(1, None, 4) == [1, 2, 3, 4]
    assert affected(1000, None, 2000) == [1000, 2000]


@each("seed", [0, 7, -1, 2**53 - 1])
@each("every", [1, 2, 3, 10])
def test_a_seed_chooses_one_of_every_n(every: int, seed: int) -> None:
    """Exactly one of each `every`, and the same ones each time."""
    found = affected(every, seed, 300)
    assert [(ordinal - 1) // every for ordinal in found] == list(range(300 // every))
    assert found == affected(every, seed, 300)


def test_seeds_choose_differently() -> None:
    """The choice depends on the seed. These values must never change: people note seeds that found a defect."""
    assert affected(3, 7, 12) == [3, 6, 7, 10]
    assert affected(3, 8, 12) == [3, 5, 9, 12]
    assert len({tuple(affected(3, seed)) for seed in range(50)}) > 40


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_is_read_as_it_was_stored(kind: FaultKind) -> None:
    """Only kinds that delay have a delay, which has a default."""
    fault = faults.new_fault(kind, every=3, delay_seconds=None, seed=7)
    assert faults.parse(faults.encode(fault)) == fault
    assert fault.delay_seconds == (10 if kind in ("late", "out_of_order") else None)
    given = faults.new_fault(kind, every=3, delay_seconds=0, seed=7)
    assert given.delay_seconds == (0 if kind in ("late", "out_of_order") else None)


def test_an_unknown_kind_is_not_stored() -> None:
    """A fault of another version of the service is a defect, not a fault that does nothing."""
    with pytest.raises(msgspec.ValidationError):
        faults.parse('{"kind": "upside_down", "every": 1}')


def test_only_notifications_that_can_be_affected_are_counted() -> None:
    """`out_of_order` needs a newer version, and `before_answer` the first one."""
    last = ("order.processed", "order.failed", "order.canceled", "order.refunded")
    assert not any(Fault("out_of_order", 1).counts(action) for action in last)
    assert all(Fault("out_of_order", 1).counts(action) for action in ("order.created", "order.at_terminal"))
    assert Fault("before_answer", 1).counts("order.created")
    assert not Fault("before_answer", 1).counts("order.at_terminal")
    assert all(Fault("late", 1).counts(action) for action in (*last, "order.created", None))


def test_bad_signatures_are_made_with_other_secrets() -> None:
    """As many as there are valid ones, of the same form, and at the right time."""
    secrets = [SECRET, Secret("whsec_" + "B" * 44)]
    others, seconds = faults.signing("bad_signature", secrets, 1000)
    assert seconds == 1000
    assert len({secret.reveal() for secret in [*secrets, *others]}) == 4
    assert all(len(secret.reveal()) == len("whsec_") + 44 for secret in others)


@pytest.mark.parametrize("kind", [None, *KINDS])
def test_other_faults_do_not_change_the_signature(kind: FaultKind | None) -> None:
    """An old time is signed correctly."""
    if kind != "bad_signature":
        assert faults.signing(kind, [SECRET], 1000) == ([SECRET], 400 if kind == "old_timestamp" else 1000)


def test_only_the_kit_reads_and_writes_the_columns_of_faults() -> None:
    """No statement of what one operates depends on them."""
    naming = {name for name, sql in written_statements().items() if re.search(r"\bfault(_count|_ordinal)?\b", sql)}
    assert {name.partition(".")[0] for name in naming} == {"paydesk_dev"}
