"""The rows, totals, figures and plot of the console."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from console_scene import template
from paydesk.console import view
from paydesk.operators.attention.items import TITLES, link_of
from paydesk.operators.attention.sentences import KINDS
from paydesk.operators.orders import rows as order_rows
from paydesk.operators.orders.rows import card_of, totals
from paydesk.operators.overview.page import tiles
from paydesk.operators.overview.plot import HEIGHT, plot_of
from paydesk.platform.web import assets


def order(status: str, detail: str, payment_detail: str, **payment: Any) -> dict[str, Any]:
    """Return an order of the list."""
    return {
        "id": "ORD01J67CQQH5904WDBVZEM4JMEP3",
        "status": status,
        "status_detail": detail,
        "created_date": "2026-01-31T14:26:42.109Z",
        "total_amount": "24.90",
        "currency": "BRL",
        "live_mode": False,
        "config": {"point": {"terminal_id": "NEWLAND_N950__N950NCB801293324"}},
        "transactions": {"payments": [{"status": status, "status_detail": payment_detail, **payment}]},
    }


@pytest.mark.parametrize(
    ("states", "word", "why"),
    [
        (("processed", "processed", "accredited"), "Processed", ""),
        (("processed", "partially_refunded", "partially_refunded"), "Partly refunded", ""),
        (("failed", "failed", "high_risk"), "Failed", "Declined by the acquirer: fraud is suspected"),
        (("canceled", "expired", "expired"), "Expired", "Expired: it was not paid in time"),
    ],
)
def test_a_row_says_why_an_order_is_not_paid(states: tuple[str, str, str], word: str, why: str) -> None:
    """And nothing where the status says all."""
    document = order(*states)
    assert (order_rows.look_of(document).word, order_rows.reason_of(document)) == (word, why)


def test_a_row_has_the_card() -> None:
    """Its brand if it paid; the last digits also if it was declined."""
    approved = order(
        "processed",
        "processed",
        "accredited",
        payment_method={"id": "visa", "type": "credit_card"},
        card={"first_digits": "503175", "last_digits": "6351"},
    )
    assert card_of(approved) == "Visa •••• 6351"
    assert card_of({**order("failed", "failed", "high_risk"), "last_digits": "6351"}) == "•••• 6351"
    assert card_of(order("created", "created", "created")) == ""


def test_totals_are_by_currency() -> None:
    """With as many decimals as each has."""
    paid = order("processed", "processed", "accredited", paid_amount="24.90", refunded_amount="4.90")
    chile = {**order("processed", "processed", "accredited", paid_amount="2490"), "currency": "CLP"}
    assert totals([paid, paid, chile]) == ["3 orders", "49.80 BRL paid", "2490 CLP paid", "9.80 BRL refunded"]
    assert totals([order("created", "created", "created")]) == ["1 order"]


def hours(**of: tuple[int, int, int]) -> list[dict[str, Any]]:
    """Return the hours of a day with these orders, processed and failed ones."""
    names = ("orders", "processed", "failed")
    return [
        {"date": f"2026-01-31T{hour:02}:00:00.000Z", **dict(zip(names, of.get(f"h{hour}", (0, 0, 0)), strict=True))}
        for hour in range(24)
    ]


def test_a_bar_has_a_visible_part_for_each_outcome() -> None:
    """The highest one has the full height; the others are to scale, but at least visible."""
    plot = plot_of(hours(h3=(200, 190, 10), h9=(50, 20, 0), h23=(1, 0, 1)))
    assert (plot.largest, len(plot.bars)) == (200, 24)
    assert plot.says == "Orders by hour: 251 in all, 11 failed; most between 03:00 and 04:00 UTC, 200."
    full, half, last = plot.bars[3], plot.bars[9], plot.bars[23]
    assert [kind for kind, _, _ in full.parts] == ["ok", "bad"]
    assert sum(height for _, _, height in full.parts) == pytest.approx(HEIGHT)
    assert [kind for kind, _, _ in half.parts] == ["ok", "rest"]
    assert last.parts[0][2] >= 3
    assert last.x + plot.width <= 100
    assert [bar.label for bar in plot.bars if bar.label] == ["00:00", "06:00", "12:00", "18:00"]
    for bar in plot.bars:
        assert all(0 <= y <= HEIGHT for _, y, _ in bar.parts)


def test_a_day_without_orders_has_a_plot() -> None:
    """Without bars."""
    plot = plot_of(hours())
    assert (plot.largest, plot.says) == (0, "Orders by hour: 0 in all, 0 failed.")
    assert not any(bar.parts for bar in plot.bars)


def test_figures_have_units() -> None:
    """And a dash where there is none."""
    figures = {"orders": 3, "amounts": [], "hours": []}
    assert [value for _, value, _ in tiles(figures)] == ["3", "0", "0", "\u2013", "\u2013"]
    amounts = [
        {"currency": "BRL", "processed": "10.00", "refunded": "0.00"},
        {"currency": "CLP", "processed": "0", "refunded": "0"},
    ]
    shown = tiles({"orders": 3, "amounts": amounts, "hours": [], "approval_rate": 0.9231, "median_ms": 12_840})
    assert [(value, unit) for _, value, unit in shown] == [
        ("3", ""),
        ("10.00", "BRL"),
        ("0.00", "BRL"),
        ("92.3", "%"),
        ("12.8", "s"),
    ]


def test_every_kind_of_attention_has_a_title_with_an_icon() -> None:
    """Each leads to a page."""
    assert set(TITLES) == set(KINDS)
    icons = Path(assets.__file__).with_name("static").joinpath("icons.svg").read_text()
    assert all(f'id="{icon}"' in icons for _, icon, _ in TITLES.values())
    for kind in KINDS:
        about = {"order_id": "ORD1"} if "unknown" in kind or kind.startswith(("re", "order", "cancel")) else {}
        href, _ = link_of({"kind": kind, "subject": "x", "terminal_id": "A__1/2", **about})
        assert href.startswith("/console/")
        assert "A__1/2" not in href


@pytest.mark.parametrize(("after_ms", "is_offered"), [(-1, False), (0, True)])
def test_an_unknown_outcome_can_be_set_from_its_date_on(after_ms: int, *, is_offered: bool) -> None:
    """Whatever the sentence says; that is shown as text."""
    date = "2026-01-31T14:29:42.109Z"
    item = {
        "kind": "outcome_unknown",
        "subject": "ORD1",
        "order_id": "ORD1",
        "since_date": "2026-01-31T14:26:42.109Z",
        "message": f"It <b> stands until {date}.",
        "do": "Ask the acquirer.",
        "live_mode": True,
        "resolvable_date": date,
    }
    now_ms = view.instant_ms(date) + after_ms
    page = {"ago": view.Ago(now_ms), "now_ms": now_ms, "r": SimpleNamespace(may_change=True, development=True)}
    parts: Any = template("attention/parts.html").make_module(page)
    shown = parts.needs([item])
    assert ("/console/orders/ORD1/resolve" in shown) is is_offered
    assert "&lt;b&gt;" in shown


def test_times_in_sentences_are_short() -> None:
    """The day is said unless it is today; the exact time is the tooltip."""
    day = "2026-07-14"
    now_ms = view.instant_ms(f"{day}T12:00:00Z")

    def words(date: str) -> str:
        return view.short_times(f"Since {date}, <so>.", now_ms).striptags()

    assert words(f"{day}T09:05:59.123Z") == "Since 09:05 UTC, <so>."
    assert words("2026-07-02T09:05:59Z") == "Since Jul 2, 09:05 UTC, <so>."
    assert words("2025-07-14T09:05:59.123Z") == "Since 2025-07-14 09:05 UTC, <so>."
    exact = f"{day}T09:05:59.123Z"
    assert f'title="{exact}"' in view.short_times(exact, now_ms)
    assert view.short_times("No time <b>.", now_ms) == "No time &lt;b&gt;."
    for name in ("2026-99-99T99:99:99Z", "2026-01-01T::::::::Z", "0000-01-01T00:00:00Z"):
        assert view.short_times(name, now_ms) == name
