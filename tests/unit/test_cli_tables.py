"""Tables of lists on a terminal: what a narrow one shows, and what it hides."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from paydesk import commands
from paydesk.commands.client.options import note, show, show_list
from paydesk.commands.tables.cells import FLAT
from tables import each

TERMINAL: dict[str, Any] = {
    "id": "PAYDESK_VIRTUAL__726E9F10F99B",
    "presence": "online",
    "operating_mode": "PDV",
    "last_seen_date": "2026-01-31T14:26:40.109Z",
    "kind": "terminal",
    "live_mode": False,
    "seller_id": 1160535239,
}
LISTED: dict[str, Sequence[str]] = {
    row["command"]: row["columns"]
    for file in Path(commands.__path__[0]).glob("tables/rows/*.json")
    for row in json.loads(file.read_text())
    if "columns" in row
}
"""The columns of each list, by its command."""
COLUMNS = LISTED["terminals list"]


class Tty(io.StringIO):
    """Output that is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def print_table(
    monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]], width: int, columns: Sequence[str] = COLUMNS
) -> tuple[str, str]:
    """Return standard output and standard error of a table, of terminals by default, on a terminal of this width."""
    out, err = Tty(), io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    monkeypatch.setenv("COLUMNS", str(width))
    # Rich takes the width of a dumb terminal from the environment only with its height.
    monkeypatch.setenv("LINES", "50")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    show_list({"data": rows}, columns, as_json=False)
    return out.getvalue(), err.getvalue()


@each("name", LISTED)
def test_every_list_has_headers_on_a_terminal_and_none_elsewhere(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """There its columns are separated by tabs."""
    columns = LISTED[name]
    row = {column: f"value{number}" for number, column in enumerate(columns)}
    shown, _ = print_table(monkeypatch, [row], 400, columns)
    assert shown.splitlines()[1].split() == list(columns)
    assert shown.splitlines()[3].split() == list(row.values())
    piped = io.StringIO()
    monkeypatch.setattr("sys.stdout", piped)
    show_list({"data": [row]}, columns, as_json=False)
    assert piped.getvalue() == "\t".join(row.values()) + "\n"


def test_list_of_orders_says_why_in_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """In words, which are not broken; the status alone would repeat itself."""
    order = {
        "id": "ORD01J67CQQH5904WDBVZEM4JMEP3",
        "status": "failed",
        "status_detail": "failed",
        "created_date": "2026-01-31T14:26:40.109Z",
        "user_id": 1160535239,
        "live_mode": False,
        "total_amount": "24.90",
        "currency": "BRL",
        "config": {"point": {"terminal_id": "NEWLAND_N950__N950NCB801293324"}},
        "transactions": {"payments": [{"status_detail": "invalid_installments"}]},
    }
    shown, hidden = print_table(monkeypatch, [dict(FLAT["orders list"](order))], 80, LISTED["orders list"])
    assert all(word in shown.split() for word in ("Declined", "acquirer:", "cannot", "installments"))
    assert "failed" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert "reason" not in hidden


def test_words_are_not_broken_beside_a_longer_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """The narrowest column gets the room of its longest word before others get more."""
    columns = ("id", "amount", "status", "by", "reason")
    row = {"id": "REF01J67CQQH5904WDBVZEM4JMEP3", "amount": "1.00", "status": "processed", "by": "the application"}
    shown, hidden = print_table(monkeypatch, [{**row, "reason": "It was broken."}], 80, columns)
    assert all(word in shown.split() for word in ("the", "application", "It", "was", "broken."))
    assert hidden == ""


def test_piped_row_is_one_line_with_all_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its values have in them."""
    piped = io.StringIO()
    monkeypatch.setattr("sys.stdout", piped)
    show_list({"data": [{"name": "a\tb\r\nc\u2028d", "id": 7}]}, ("name", "more", "id"), as_json=False)
    assert piped.getvalue() == "a b c d\t\t7\n"


def headers(
    monkeypatch: pytest.MonkeyPatch, row: dict[str, Any], width: int, columns: Sequence[str] = COLUMNS
) -> list[str]:
    """Return the columns that a table on a terminal of this width shows."""
    out, _ = print_table(monkeypatch, [row], width, columns)
    return out.splitlines()[1].split()


def test_wide_terminal_shows_every_column(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty ones too."""
    assert headers(monkeypatch, TERMINAL, 200) == list(COLUMNS)


@each("width", range(40, 200, 10))
def test_no_value_is_cut_off_at_any_width(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """A column is shown in full or hidden, and no line is longer than the window."""
    out, hidden = print_table(monkeypatch, [TERMINAL], width)
    shown = out.splitlines()[1].split()
    assert shown[0] == "id"
    assert all(column in shown or column in hidden for column in COLUMNS if column in TERMINAL)
    assert out.splitlines()[3].split() == [
        "no" if column == "live_mode" else str(TERMINAL[column]) for column in shown if column in TERMINAL
    ]
    assert max(map(len, out.splitlines())) <= width


def test_narrow_terminal_leaves_out_empty_columns_without_mention(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost with them."""
    assert headers(monkeypatch, TERMINAL, 80) == ["id", "presence", "operating_mode", "kind"]
    assert "script" not in print_table(monkeypatch, [TERMINAL], 80)[1]


def test_narrow_terminal_shows_the_order_that_holds_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than its mode."""
    held = {**TERMINAL, "order": "ORD01K2M8Q4Z7W3F9T6B1XNCE5RHA at_terminal"}
    assert headers(monkeypatch, held, 80) == ["id", "presence", "order"]


def test_narrow_terminal_shows_how_requests_were_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long paths are folded."""
    row = {"created_date": TERMINAL["last_seen_date"], "status": 404, "method": "DELETE", "path": "/v1/orders/x" * 9}
    assert {"status", "path"} <= set(headers(monkeypatch, row, 80, LISTED["requests list"]))


def test_narrow_table_names_the_hidden_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """On standard error, with what to do."""
    out, err = print_table(monkeypatch, [TERMINAL], 80)
    assert TERMINAL["id"] in out
    assert "\u2026" not in out
    assert err == ("Hidden for lack of space: last_seen_date, live_mode, seller_id. Widen the window, or use --json.\n")


def test_last_column_of_text_is_folded_rather_than_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the reasons of the conformance kit."""
    row = {"name": "restart-hold", "must": "Charges nothing after the verdict, and does not ask for the permit again."}
    out, hidden = print_table(monkeypatch, [row], 50, ("name", "must"))
    assert " ".join(out.split()).endswith(row["must"].rpartition("not ")[2])
    assert hidden == ""


def test_two_texts_share_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A longer one does not leave the other one narrow."""
    row = {"id": "REF01J67CQQH5904WDBVZEM4JMEP3", "message": "a message " * 20, "do": "what to do " * 20}
    out, _ = print_table(monkeypatch, [row], 90, ("id", "message", "do"))
    _, _, rule, line, *_ = out.splitlines()
    assert line.split()[:5] == [row["id"], "a", "message", "a", "message"]
    assert len(line.partition("what to do")[0]) < len(rule) - 20


def test_empty_list_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of a table without rows."""
    assert print_table(monkeypatch, [], 80) == ("", "The list is empty.\n")


CONTROLS = "\x1b[2J \x9b31m \a\b\r\x7f \u202e \ud800"
"""Sequences that clear a screen and set a colour, a bell, a text direction, and what is not UTF-8."""


def assert_harmless(text: str) -> None:
    """Assert that a terminal would print the text as it is."""
    assert not set(text) & set(CONTROLS) - set("[2J31m ")
    text.encode()


def test_an_answer_of_another_server_does_not_control_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver's answer is part of `paydesk deliveries show`, and an error may have the texts of any server."""
    row = {"outcome": f"{CONTROLS}end\nline", "more": {"text": CONTROLS}}
    shown, _ = print_table(monkeypatch, [row], 400, ("outcome", "more"))
    assert_harmless(shown)
    assert "end" in shown
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    show_list({"data": [row]}, ("outcome", "more"), as_json=False)
    assert out.getvalue().count("\n") == 1, "one line for each row"
    show(row, as_json=False)
    note(row["outcome"])  # type: ignore[arg-type]
    assert_harmless(out.getvalue())
    assert_harmless(err.getvalue())


def test_json_escapes_what_could_control_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its value stays the same."""
    row = {"outcome": CONTROLS, "café": "\u2003ü"}
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    show(row, as_json=True)
    assert_harmless(out.getvalue())
    assert json.loads(out.getvalue()) == row
    assert "café" in out.getvalue()


DELIVERY: dict[str, Any] = {
    "id": "0b9d1c4e-3f6a-4c55-9d0e-8f2f6f1f0a11.5f0c3ad1-8f1e-4f0b-9d5c-2b7a90c1e4d6",
    "status": "pending",
    "action": "order.processed",
    "url": "https://shop.example/a/long/path/webhooks",
    "attempts": 2,
    "version": 3,
    "order_id": "ORD01K2M8Q4Z7W3F9T6B1XNCE5RHA",
    "next_date": "2026-01-31T14:26:40.109Z",
    "created_date": "2026-01-31T14:26:40.109Z",
    "topic": "orders",
}
SUBSCRIPTION: dict[str, Any] = {
    "id": "0b5cf9b0-6c6e-4ff4-9b0e-0f3a3f3c6a51",
    "status": "active",
    "url": "https://shop.example/a/long/path/webhooks",
    "topic": "orders",
    "live_mode": False,
    "client_id": "3676047501096810",
    "created_date": "2026-01-31T14:26:40.109Z",
}


@pytest.mark.parametrize("width", [80, 100, 120])
def test_narrow_list_of_deliveries_shows_their_progress(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Folded ids leave the room for it."""
    out, _ = print_table(monkeypatch, [DELIVERY], width, LISTED["deliveries list"])
    header = out.splitlines()[1].split()
    assert header[:3] == ["id", "status", "action"]
    assert width < 100 or header[3] == "url"


def test_wide_list_of_deliveries_has_their_ids_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that they can be copied; a column without values is left out for it, without mention."""
    out, err = print_table(monkeypatch, [DELIVERY], 242, LISTED["deliveries list"])
    assert DELIVERY["id"] in out
    assert "client_id" not in out
    assert err == ""


@pytest.mark.parametrize("width", [80, 90, 100, 140])
def test_narrow_list_of_subscriptions_folds_urls_and_no_id(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """A subscription is recognized by its URL."""
    out, _ = print_table(monkeypatch, [SUBSCRIPTION, SUBSCRIPTION], width, LISTED["subscriptions list"])
    assert out.splitlines()[1].split()[:3] == ["id", "status", "url"]
    assert out.count(SUBSCRIPTION["id"]) == 2
    assert "https://" in out


def test_objects_are_shown_as_names_with_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the secrets of a subscription; `--json` has them as JSON."""
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    secrets = [{"id": "1", "is_primary": False}, {"id": "2", "is_primary": True}]
    show({"secrets": secrets, "fault": {"kind": "drop", "every": 1}, "actions": []}, as_json=False)
    assert out.getvalue().splitlines() == [
        "secrets  id 1, is_primary no; id 2, is_primary yes",
        "fault    kind drop, every 1",
        "actions  ",
    ]
