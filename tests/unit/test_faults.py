"""The grammar of faults: lines, their mistakes, and which requests are chosen."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paydesk.core import faults
from paydesk.core.faults import Fault, FaultRefused, Kind
from tables import each

LINES = (
    "till create_order answer_lost",
    "till 'GET /v1/orders/{id}' slow application=2727 reference=s1 every=3 delay=5s seed=7",
    "terminal device_acknowledge answer_lost terminal=PAYDESK_VIRTUAL__1",
    "terminal '*' answer_lost,reset,twice,late,out_of_order every=20 times=0 seed=7",
    "acquirer payment decline:insufficient_amount every=20 times=0",
    "acquirer payment reset times=2 per=key",
    "webhook order.processed twice",
    "till get_order altered set=/status=weird 'set=/transactions/payments/0/amount=\"1.00\"'",
    "till create_order error:500",
)


@each("line", LINES)
def test_a_line_is_read_and_written_alike(line: str) -> None:
    """The same words in commands, settings and answers."""
    assert faults.parse(line).line == line or faults.parse(faults.parse(line).line) == faults.parse(line)


TEXTS = st.text(min_size=1, max_size=20)
VALUES = st.one_of(TEXTS, st.integers(), st.booleans(), st.none(), st.lists(TEXTS, max_size=2))
NUMBERS = st.one_of(st.none(), st.integers(min_value=1, max_value=500))


@given(
    TEXTS,
    TEXTS,
    st.one_of(st.none(), st.floats(min_value=0, max_value=600)),
    NUMBERS,
    NUMBERS,
    st.dictionaries(TEXTS.map(lambda text: "/" + text.replace("=", "")), VALUES, min_size=1, max_size=3),
)
def test_the_line_of_every_fault_makes_it_again(
    request: str, reference: str, delay: float | None, every: int | None, seed: int | None, altered: dict[str, Any]
) -> None:
    """Also beside others, whatever its values are."""
    fields = {"every": every, "seed": seed, "times": 0, "delay": delay, "set": altered}
    fault = faults.create("till", request, "altered,late", {"reference": reference, "mode": "test"}, **fields)
    assert faults.parse(fault.line) == fault
    assert faults.parse_all(f"{fault.line}; {fault.line};") == [fault, fault]


def test_a_fault_has_its_fields() -> None:
    """An argument of a single kind is its delay; what is not given has its default."""
    assert faults.parse("till create_order slow:5s every=3 seed=-7 reference=s1") == Fault(
        edge="till", request="create_order", kinds=(Kind("slow"),), match={"reference": "s1"}, every=3, seed=-7, delay=5
    )
    altered = faults.parse("till get_order altered set=/status=weird set=/version=7")
    assert altered.set == {"/status": "weird", "/version": 7}
    kinds = faults.parse("till * slow:200ms,late:2m,answer_lost").kinds
    assert [(kind.name, faults.parse("till * late").delay_of(kind)) for kind in kinds] == [
        ("slow", 0.2),
        ("late", 120),
        ("answer_lost", None),
    ]
    error = faults.parse("till * error_after status=502")
    assert error.status_of(error.kinds[0], 503) == 502


def test_several_lines_are_separated_by_semicolons() -> None:
    """As the setting has them; a mistake quotes its line."""
    text = "till create_order slow:5s every=3 seed=7; acquirer payment answer_lost every=20 times=0;"
    assert [fault.edge for fault in faults.parse_all(text)] == ["till", "acquirer"]
    with pytest.raises(FaultRefused, match="'till create_order explode': kind must be one of reset, late"):
        faults.parse_all("acquirer payment answer_lost; till create_order explode")


@each(
    "line, mistake",
    [
        ("till create_order", "line must be"),
        ("till 'create_order reset", "line must be"),
        ("x" * 2001, "line must have at most"),
        ("shop create_order reset", "edge must be one of till, terminal"),
        ("till create_order decline:x", "kind must be one of"),
        ("webhook '*' answer_lost", "kind must be one of"),
        ("terminal '*' empty", "kind must be one of"),
        ("acquirer authorize reset", "request must be one of"),
        ("acquirer payment decline", "kind must name the detail"),
        ("till '*' error:200", "kind must have a status from 400 to 599"),
        ("till '*' reset:5s", "kind has no argument with reset"),
        ("till '*' late:soon", "delay must be a time"),
        ("till '*' slow:601", "delay must be from 0 to 600"),
        ("till '*' dribble", "delay is needed with dribble"),
        ("till '*' reset delay=5s", "delay is only for"),
        ("till '*' reset status=503", "status is only for"),
        ("till '*' altered", "set is needed with altered"),
        ("till '*' reset set=/a=1", "set is needed with altered"),
        ("till '*' altered set=a=1", "set must name a place"),
        ("till '*' altered \"set=/a=" + "'" * 600 + '"', "set is too long"),
        ("till '*' altered set=/a=NaN", "set must have text and numbers that JSON can have"),
        ("till '*' altered 'set=/a=[\"\\ud800\"]'", "set must have text and numbers that JSON can have"),
        ("till '*' reset mode=production", "match.mode must be one of test, live"),
        ("till '*' reset every=0", "every must be a whole number from 1"),
        ("till '*' reset times=two", "times must be a whole number"),
        ("till '*' reset seed=99999999999999999", "seed must be a whole number"),
        ("till '*' reset per=key", "per must be all"),
        ("till '*' reset subscription=1", "match.subscription is not known at this edge"),
        ("till '*' reset reference=", "match.reference must have 1 to 200"),
        ("till '*' reset sometimes=1", "sometimes is not a field"),
        ("till '*' reset sometimes", "sometimes must be followed by ="),
        ("till '*' " + ",".join(["reset"] * 11), "kind must name at most 10"),
    ],
)
def test_a_mistake_is_named(line: str, mistake: str) -> None:
    """With the field and the rule, so that a person knows what to change."""
    with pytest.raises(FaultRefused, match=mistake.replace("*", r"\*")):
        faults.parse(line)


def hit(line: str, last: int) -> list[int]:
    """Return the chosen ones of the first matching requests."""
    fault = faults.parse(line)
    return [number for number in range(1, last + 1) if fault.hits(number)]


def test_one_of_every_n_is_chosen_after_those_that_pass() -> None:
    """The last of each turn, or with a seed one that never changes: people note seeds that found a defect."""
    assert hit("till * reset every=3", 10) == [3, 6, 9]
    assert hit("till * reset every=3 skip=2", 10) == [5, 8]
    assert hit("till * reset every=3 seed=7", 12) == [3, 6, 7, 10]
    assert hit("till * reset every=3 seed=8", 12) == [3, 5, 9, 12]


def test_of_several_kinds_one_is_chosen() -> None:
    """In turn, or by the seed."""
    fault = faults.parse("terminal * reset,twice,late")
    assert [fault.kind_at(firing).name for firing in range(1, 5)] == ["reset", "twice", "late", "reset"]
    seeded = faults.parse("terminal * reset,twice,late seed=7")
    drawn = [seeded.kind_at(firing).name for firing in range(1, 31)]
    assert drawn == [seeded.kind_at(firing).name for firing in range(1, 31)]
    assert set(drawn) == {"reset", "twice", "late"}
