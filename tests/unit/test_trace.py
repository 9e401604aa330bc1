"""Trace Context: which headers are read, and what is sent on."""

from __future__ import annotations

from paydesk.core import trace
from paydesk.core.trace import SAMPLED, Trace
from tables import each

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


@each(
    "sent, flags",
    [
        (PARENT, 1),
        (f"00-{TRACE}-{SPAN}-00", 0),
        (f"00-{TRACE}-{SPAN}-03", 3),
        (f"00-{TRACE}-{SPAN}-ff", 3),
        (f"01-{TRACE}-{SPAN}-01", 1),
        (f"fe-{TRACE}-{SPAN}-01-what-comes-later", 1),
    ],
)
def test_a_valid_header_is_read(sent: str, flags: int) -> None:
    """Of a later version too, whose further fields are unknown; of the flags the known ones are kept."""
    assert trace.read(sent) == Trace(TRACE, SPAN, flags)


@each(
    "sent",
    [
        "",
        "nonsense",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}",
        f"{PARENT}-later",
        f"{PARENT}-",
        f"{PARENT} ",
        f"{PARENT},{PARENT}",
        f"01-{TRACE}-{SPAN}-01later",
        f"00-{TRACE}-{SPAN}-0g",
        f"{PARENT}\n",
    ],
)
def test_a_malformed_header_is_ignored(sent: str) -> None:
    """As the standard says; two headers are one with a comma."""
    assert trace.read(sent, "vendor=1") is None


@each(
    "sent, kept",
    [
        ("vendor=1,other=a b", "vendor=1,other=a b"),
        ("v=" + "x" * 510, "v=" + "x" * 510),
        ("v=" + "x" * 511, ""),
        ("vendor=ü", ""),
        ("vendor=\t1", ""),
        ("card=5031433215406351", ""),
        ("card=5031 4332 1540 6351", ""),
    ],
)
def test_a_state_that_could_not_be_stored_is_dropped(sent: str, kept: str) -> None:
    """The parent is kept without it."""
    assert trace.read(PARENT, sent) == Trace(TRACE, SPAN, SAMPLED, kept)


def test_a_child_is_a_new_span_of_the_same_trace() -> None:
    """What is sent within it names it, with the flags and the state of the trace."""
    parent = trace.read(PARENT, "vendor=1")
    assert parent is not None
    child = parent.child()
    assert (child.trace_id, child.parent_id, len(child.span_id)) == (TRACE, SPAN, 16)
    assert child.span_id != SPAN
    assert child.headers == {"traceparent": f"00-{TRACE}-{child.span_id}-01", "tracestate": "vendor=1"}
    assert trace.read(*child.headers.values()) == Trace(TRACE, child.span_id, SAMPLED, "vendor=1")


def test_a_new_trace_is_valid() -> None:
    """The ratio decides whether its spans are recorded."""
    for ratio, flags in ((1.0, 3), (0.0, 2)):
        first = trace.first(ratio)
        assert first.flags == flags
        assert trace.read(first.headers["traceparent"]) == first
