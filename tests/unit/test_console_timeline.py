"""The timeline of each kind of order: its steps, whose time it was, and where it is drawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console_scene import template
from order_documents import (
    DAY,
    NAMES,
    START_MS,
    STORIES,
    Story,
    at,
    by_the_service,
    canceled_at_once,
    clock_went_back,
    confirmed,
    declined,
    late_approval,
    never_taken,
    provisional,
    refunded_later,
    refused,
    released,
    undone,
    undone_by_terminal,
    unknown,
    waiting_for_card,
)
from paydesk.core.clock import rfc3339
from paydesk.engine.orders import status
from paydesk.operators.orders.timeline import drawing as timeline_drawing
from paydesk.operators.orders.timeline.drawing import draw, extent, text_width
from paydesk.operators.orders.timeline.shares import shares_of
from paydesk.operators.orders.timeline.steps import MOVES, timeline_of
from paydesk.operators.orders.timeline.timeline import Label, Timeline, rounded, since
from tables import each

_LINE = re.compile(r'<li id="s(\d+)">.*?<time[^>]*>(.*?)</time>.*?class="lane">(.).*?<b>(.*?)</b>'
                   r'|<li class="gap">.*?class="lane"></span><span[^>]*>(.*?)</span>', re.DOTALL)  # fmt: skip
Texts = Iterator[tuple[str, float, float, float]]
"""Each text with its line, its start and its end."""


def shown(story: Story, later_ms: int = 10**6) -> Timeline:
    """Return the timeline as it is so much later."""
    return timeline_of(story.order, story.requests, START_MS + later_ms)


def lines_of(timeline: Timeline) -> list[str]:
    """Return the lines of the list on the page: time, lane, title."""
    found = _LINE.findall(list_of(timeline))
    return [f"… {gap}" if gap else f"{time} {lane} {title}" for _, time, lane, title, gap in found]


def list_of(timeline: Timeline) -> str:
    """Return the list on the page."""
    parts: Any = template("orders/timeline/timeline.html").module
    return str(parts.list(timeline, "/console", since, rfc3339))


def shares(timeline: Timeline) -> dict[str, int]:
    """Return each party's time."""
    return {name: length_ms for name, _, length_ms in timeline.shares}


def test_declined_order_is_shown_from_its_request_to_the_second_attempt_of_its_webhook() -> None:
    """With the buyer's waits, and each time since the start."""
    assert lines_of(shown(declined())) == [
        "0 A POST /v1/orders",
        "+1 ms P Order created",
        "+19 ms T Offered",
        "+53 ms T Acknowledged",
        "+105 ms T Card asked for",
        "… waits 6.2 s for a card",
        "+6.31 s T Card inserted",
        "+6.40 s T PIN asked for",
        "… waits 4.9 s for the PIN",
        "+11.3 s T PIN entered",
        "+11.3 s P Authorization permitted",
        "+11.3 s A Authorization sent",
        "… takes 1.5 s",
        "+12.8 s A Declined",
        "+12.8 s P Order failed",
        "+12.9 s W order.failed sent",
        "+13.0 s W Answered 500",
        "… waits 20 s until attempt 2",
        "+33.0 s W Sent again",
        "+33.0 s W Answered 200",
    ]


def test_shares_say_whose_time_it_was() -> None:
    """Together they are the time from create to end."""
    timeline = shown(declined())
    assert shares(timeline) == {"The buyer": 11094, "The acquirer": 1477, "The terminal": 222, "Paydesk": 20}
    assert sum(shares(timeline).values()) == timeline.end_ms - timeline.start_ms


@pytest.mark.parametrize("story", [never_taken(), declined(), unknown()])
def test_shares_and_labels_do_not_depend_on_the_words(story: Story) -> None:
    """Other words of the same width leave the times and the places as they are."""
    timeline = shown(story, 400_000)
    places = [bar.label and bar.label.x for bar in draw(timeline).bars]
    for bar in timeline.bars:
        bar.text = "x" * len(bar.text)
    assert shares_of(timeline) == timeline.shares
    assert [bar.label and bar.label.x for bar in draw(timeline).bars] == pytest.approx(places)


def test_order_that_no_terminal_takes_is_the_terminals_time() -> None:
    """And counts on."""
    timeline = shown(never_taken(), 400_000)
    assert lines_of(timeline) == ["0 P Order created", "… waits 7 min for the terminal and counting"]
    assert shares(timeline) == {"The terminal": 400_000}
    assert timeline.summary == "6 min 40 s since it was created"


def test_wait_for_a_card_counts_until_now() -> None:
    """The bar ends at the present."""
    timeline = shown(waiting_for_card(), 7_000)
    assert [(bar.fill, bar.text) for bar in timeline.bars] == [("open", "6.9 s for a card")]
    assert f'data-counts="{START_MS + 100}"' in list_of(timeline)


def test_order_canceled_at_once_has_a_picture() -> None:
    """Though it took no time."""
    timeline = shown(canceled_at_once(), 0)
    assert lines_of(timeline) == ["0 P Order created", "0 P Order canceled"]
    assert timeline.shares == []
    assert draw(timeline).width == timeline_drawing.WIDTH_MIN


def test_provisional_approval_waits_for_the_terminals_result() -> None:
    """And counts on: that is the terminal's time."""
    timeline = shown(provisional(), 9_000)
    assert lines_of(timeline)[-3:] == [
        "… takes 1.0 s",
        "+3.10 s A Approved, provisionally",
        "… waits 5.9 s for the result and counting",
    ]
    assert shares(timeline)["The terminal"] == 5900 + 182


def test_confirmed_payment_is_shown_with_the_third_message() -> None:
    """After the terminal's result, which decides."""
    timeline = shown(confirmed())
    assert lines_of(timeline)[-6:] == [
        "… waits 1.9 s for the result",
        "+5.00 s T Result reported",
        "+5.00 s P Order processed",
        "+5.00 s A Confirmation sent",
        "… 2 attempts in 10 s",
        "+15.1 s A Payment confirmed",
    ]
    assert lines_of(shown(refused()))[-1] == "+15.1 s A Confirmation refused"


def test_undone_approval_is_shown_with_its_reversal() -> None:
    """By the time that ended, or by the terminal's result; also when a refund takes the place of the reversal."""
    assert lines_of(shown(undone()))[-6:] == [
        "… waits 39 s for the result",
        "+42.1 s P Approval undone",
        "+42.1 s P Outcome unknown",
        "+42.1 s A Reversal begins",
        "+42.9 s A Reversed",
        "+42.9 s P Order failed",
    ]
    assert lines_of(shown(undone_by_terminal(), 20_000))[-6:] == [
        "+5.00 s T Canceled at the terminal",
        "+5.00 s A Reversal begins",
        "… 2 attempts, 15 s and counting",
        "+5.00 s P Approval undone",
        "+5.00 s P Order failed",
        "+6.00 s A Reversal becomes a refund",
    ]


def test_many_attempts_are_one_bar() -> None:
    """Between the first and the last one."""
    lines = lines_of(shown(unknown(), 10**8))
    assert lines[-4:] == [
        "+55.2 s W connection refused",
        "… 8 more attempts in 3 h",
        "+3 h 00 W Sent again",
        "+3 h 00 W Answered 200",
    ]
    assert "… takes 40 s, no answer" in lines
    assert "… 2 attempts in 11 s" in lines


def test_late_approval_and_its_reversal_follow_the_end() -> None:
    """They are not part of the shares."""
    timeline = shown(late_approval(), 10**7)
    assert [line.partition(" s ")[2] for line in lines_of(timeline)[-3:]] == [
        "T Reported approved",
        "A Reversal begins",
        "A Reversed",
    ]
    assert "The acquirer" not in shares(timeline)


def test_refunds_days_later_are_shown() -> None:
    """With the operator who requested one, and how long the other takes already."""
    timeline = shown(refunded_later(), 3 * DAY + 6000)
    details = {step.detail for step in timeline.shown if step.title == "Refund sent"}
    assert details == {"10.00 by Ana: Returned.", "5.00"}
    assert lines_of(timeline)[-1] == "… 4 attempts, 6.0 s and counting"
    assert len(draw(timeline).folds) == 2


def test_operators_change_says_who_and_why() -> None:
    """In the step of its move."""
    assert shown(released()).shown[-1].detail == "by Ana: The terminal is broken."


def test_authorization_by_the_service_ends_with_the_order() -> None:
    """The terminal's report that repeats it is no failure."""
    timeline = shown(by_the_service())
    assert [(step.title, step.kind) for step in timeline.shown[-4:]] == [
        ("Authorization sent", "ring"),
        ("Approved", "disc"),
        ("Order processed", "diamond"),
        ("Result reported", "ring"),
    ]


def test_differing_clocks_give_no_negative_time() -> None:
    """Every bar ends after it begins, and no step is before the start."""
    timeline = shown(clock_went_back())
    assert all(step.at_ms >= timeline.start_ms for step in timeline.steps)
    assert all(bar.length_ms >= 0 for bar in timeline.bars)


def test_every_move_has_words() -> None:
    """A new move needs a title."""
    assert set(MOVES) == {move.name for move in status.MOVES}


@pytest.mark.parametrize(
    ("length_ms", "text"),
    [(0, "0"), (31, "31 ms"), (6310, "6.31 s"), (200_000, "3 min 20 s"), (3 * DAY // 24, "3 h 00"), (3 * DAY, "3 d")],
)
def test_time_since_the_start_is_short(length_ms: int, text: str) -> None:
    """In at most two units."""
    assert since(length_ms) == text


@pytest.mark.parametrize(
    ("length_ms", "text"),
    [(134, "134 ms"), (6206, "6.2 s"), (9960, "10 s"), (20_000, "20 s"), (400_000, "7 min"), (9 * 10**8, "10 days")],
)
def test_labels_round(length_ms: int, text: str) -> None:
    """To the nearest unit."""
    assert rounded(length_ms) == text


# The drawing. --------------------------------------------------------------------------------------------------------


def texts_of(timeline: Timeline, ticks: list[Label]) -> Texts:
    """Yield every text of the drawing."""

    def placed(line: str, label: Label) -> tuple[str, float, float, float]:
        return line, *extent(label), 0.0

    yield from (placed(f"bar {bar.start.y}", bar.label) for bar in timeline.bars if bar.label is not None)
    yield from (placed("axis", label) for label in ticks)
    for band in timeline.bands:
        if band.text_x is not None:
            yield "band", band.text_x, band.text_x + text_width(band.status) - 8, 0.0


def check_drawing(timeline: Timeline) -> None:
    """Check that points and texts of a line do not overlap, and that all are inside."""
    drawing = draw(timeline)
    texts = list(texts_of(timeline, drawing.ticks))
    for one, other in combinations(texts, 2):
        assert one[0] != other[0] or one[2] <= other[1] + 0.01 or other[2] <= one[1] + 0.01, (one, other)
    assert all(start >= 0 and end <= drawing.width for _, start, end, _ in texts)
    points = sorted((step.y, step.x) for step in timeline.shown)
    for (y, left), (below, right) in pairwise(points):
        assert y != below or right - left >= timeline_drawing.GAP_MIN - 0.01
    assert set(drawing.bars) == set(timeline.bars)
    for bar in drawing.bars:
        assert bar.start.x <= bar.end.x <= drawing.width
    assert all(band.start.x + band.width <= drawing.width for band in timeline.bands)


def check_list(timeline: Timeline) -> None:
    """Check that the list has each step once, in order."""
    numbers = [int(number) for number, *_ in _LINE.findall(list_of(timeline)) if number]
    assert numbers == list(range(1, len(timeline.shown) + 1))
    assert all(first.at_ms <= second.at_ms for first, second in pairwise(timeline.steps))


@each("make, later_ms", STORIES, ids=NAMES)
def test_every_kind_of_order_is_drawn(make: Callable[[], Story], later_ms: int) -> None:
    """Without texts that overlap."""
    timeline = shown(make(), later_ms)
    check_drawing(timeline)
    check_list(timeline)
    assert timeline.bands[-1].text_x is not None


TIMES = st.one_of(st.integers(0, 200), st.integers(0, 120_000), st.integers(0, 10 * DAY))


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Return an order with any times, also ones out of order."""
    story = Story()
    if draw(st.booleans()):
        story.request("POST", "/v1/orders", draw(st.integers(-100, 100)), draw(st.integers(0, 40_000)))
    if draw(st.booleans()):
        story.taken(draw(TIMES), draw(TIMES))
    names = draw(st.lists(st.sampled_from(["card_requested", "card_presented", "pin_requested", "printing"])))
    for name in names:
        story.steps(**{name: draw(TIMES)})
    if draw(st.booleans()):
        story.permitted(draw(TIMES))
    outcome = draw(st.sampled_from(["", "approved", "declined", "unknown", "canceled"]))
    if outcome:
        verdict = draw(st.sampled_from(["taken", "finished", "late_approval", "unreadable"]))
        story.result(outcome, draw(TIMES), verdict, card={"last_digits": "6351"})
    move, state = draw(
        st.sampled_from(
            [
                (status.APPROVE, status.PROCESSED),
                (status.DECLINE, status.FAILED["high_risk"]),
                (status.EXPIRE, status.EXPIRED),
                (status.CHECK, status.CHECK_ON_TERMINAL),
                (status.REQUEST_CANCEL, status.CANCELLATION_REQUESTED),
            ]
        )
    )
    if draw(st.booleans()):
        story.move(move, state, draw(TIMES))
    for number in range(draw(st.integers(0, 4))):
        answers: st.SearchStrategy[int | str] = st.sampled_from([200, 500, "connection refused"])
        tries = st.tuples(TIMES, st.integers(0, 30_000), answers)
        story.delivery(f"order.action{number}", *draw(st.lists(tries, max_size=6)))
    for number in range(draw(st.integers(0, 3))):
        refund = {
            "id": f"REF{number}",
            "amount": "1.00",
            "attempts": draw(st.integers(0, 9)),
            "created_date": "",
            "status": "",
        }
        begun = draw(TIMES)
        ended = draw(st.one_of(st.none(), TIMES))
        more = {"status": "processing"} if ended is None else {"status": "failed", "ended_date": at(begun + ended)}
        story.more["order_refunds"].append({**refund, "created_date": at(begun), **more})
    return story


@given(story=stories(), later_ms=TIMES)
def test_any_order_is_drawn_without_overlaps(story: Story, later_ms: int) -> None:
    """The shares add up, and nothing hides a text."""
    timeline = shown(story, later_ms)
    check_drawing(timeline)
    check_list(timeline)
    assert sum(shares(timeline).values()) == timeline.end_ms - timeline.start_ms
