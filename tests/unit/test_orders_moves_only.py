"""An order's state changes by moves only: each is guarded, counts the version, and has its event and its deliveries."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import paydesk

SOURCES = Path(paydesk.__file__).parents[1]
STATE = {"status", "status_detail", "payment_status_detail", "version"}
_UPDATE = re.compile(r"\bUPDATE\s+orders\s+SET\s+(?P<changes>.*?)(?:\bWHERE\b|$)", re.IGNORECASE | re.DOTALL)
_INSERT = re.compile(r"\bINSERT\s+INTO\s+orders\b|\bDELETE\s+FROM\s+orders\b", re.IGNORECASE)
_CHANGED = re.compile(r"(?:^|,)\s*(\w+|\{\})\s*(?:=|,|$|\{)")


def _texts(source: str) -> Iterator[str]:
    """Every string of a module; in an f-string `{}` is in the place of a value."""
    nodes = list(ast.walk(ast.parse(source)))
    within = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield "".join(str(part) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in within:
            yield node.value


def _sets_state(sql: str) -> bool:
    """Whether the statement sets a column of the state, or one whose name is put in while running."""
    found = (_CHANGED.findall(update["changes"].strip()) for update in _UPDATE.finditer(sql))
    return any((STATE | {"{}"}) & set(columns) for columns in found)


@cache
def _written() -> list[tuple[str, str]]:
    """The strings that name orders, each after its file."""
    return [
        (str(file.relative_to(SOURCES)), text)
        for file in sorted(SOURCES.rglob("*.py"))
        if "orders" in (source := file.read_text()).lower()
        for text in _texts(source)
    ]


def _places(wanted: re.Pattern[str] | None) -> list[str]:
    return [
        f"{file}: {' '.join(text.split())[:120]}"
        for file, text in _written()
        if (wanted.search(text) if wanted else _sets_state(text))
    ]


def test_only_a_move_sets_the_state_of_an_order() -> None:
    """`engine.orders.store.move` makes the one statement that does."""
    move = "paydesk/engine/orders/store.py: UPDATE orders SET version = version + 1"
    others = [place for place in _places(None) if not place.startswith(move)]
    assert others == [], "change an order's state with `engine.orders.store.move` and a move of engine/orders/status.py"
    assert len(_places(None)) == 1


def test_only_create_inserts_an_order() -> None:
    """And no statement deletes one."""
    others = [
        place
        for place in _places(_INSERT)
        if not place.startswith("paydesk/engine/orders/store.py: INSERT INTO orders")
    ]
    assert others == [], "insert orders with `engine.orders.store.create`; they are history and stay"
    assert len(_places(_INSERT)) == 2, "`CREATE`, and the same for a terminal that is free"


@pytest.mark.parametrize(
    ("sql", "sets"),
    [
        ("UPDATE orders SET detached_ms = $3 WHERE status = 'at_terminal' AND version = $2", False),
        ("UPDATE orders SET refunds = COALESCE(refunds, $3), origin = $4", False),
        ("UPDATE orders SET detached_ms = $3, status = 'failed' WHERE seller_id = $1", True),
        ("WITH old AS (SELECT 1) UPDATE orders\n   SET version = version + 1", True),
        ("UPDATE orders SET {} WHERE seller_id = $1", True),
        ("UPDATE orders SET origin = $3, {} WHERE seller_id = $1", True),
        ("UPDATE orders SET origin = $3, {} = $4 WHERE seller_id = $1", True),
        ("UPDATE refunds SET status = $3", False),
    ],
)
def test_the_check_finds_what_sets_the_state(sql: str, *, sets: bool) -> None:
    """A comparison of a column does not set it; one whose name is not in the text may be any."""
    assert _sets_state(sql) is sets
