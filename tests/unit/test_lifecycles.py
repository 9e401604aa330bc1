"""The lifecycles of refunds, reversals, inquiries and deliveries: what is derived from them, and the schema."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

import paydesk
from paydesk.core.lifecycle import Lifecycle
from paydesk.engine.orders.order import RefundStatus
from paydesk.engine.payments.lifecycles import INQUIRIES, REFUNDS, REVERSALS, InquiryStatus, ReversalStatus
from paydesk.engine.webhooks.schedule import DELIVERIES, DeliveryStatus
from paydesk.platform.storage.migrate import shipped

LIFECYCLES = (REFUNDS, REVERSALS, INQUIRIES, DELIVERIES)
SCRIPT = "\n".join(migration.script for migration in shipped())
SOURCES = Path(paydesk.__file__).parent

each = pytest.mark.parametrize("lifecycle", LIFECYCLES, ids=lambda lifecycle: lifecycle.table)


@each
def test_every_state_is_reached_and_left_unless_it_is_final(lifecycle: Lifecycle) -> None:
    """One state is open at least."""
    assert {move.target for move in lifecycle.moves} == set(lifecycle.states)
    assert lifecycle.final
    assert {move.target for move in lifecycle.moves if not move.sources} - set(lifecycle.final)


@each
def test_a_guard_holds_in_the_sources_of_its_move_only(lifecycle: Lifecycle) -> None:
    """What the sources have in common holds in no other state."""
    for move in lifecycle.moves:
        if move.sources:
            holds = {state for state in lifecycle.states if set(move.guard.split(" AND ")) <= set(state.conditions)}
            assert holds == set(move.sources), move.name


@each
def test_the_index_of_due_rows_is_of_the_open_states(lifecycle: Lifecycle) -> None:
    """The condition is written as in the schema; otherwise the index does not serve."""
    assert re.search(rf"CREATE INDEX \w+_due ON {lifecycle.table} \([^)]*\) WHERE {re.escape(lifecycle.open)};", SCRIPT)


@pytest.mark.parametrize("lifecycle", [REFUNDS, REVERSALS, DELIVERIES], ids=lambda lifecycle: lifecycle.table)
def test_the_schema_accepts_exactly_the_states(lifecycle: Lifecycle) -> None:
    """The constraint of the column `status` has their names."""
    table = SCRIPT.partition(f"CREATE TABLE {lifecycle.table} (")[2].partition("\n);")[0]
    found = re.search(r"CHECK \(status IN \(([^)]*)\)\)", table)
    assert found is not None
    assert tuple(found[1].replace("'", "").split(", ")) == lifecycle.names


@pytest.mark.parametrize(
    ("lifecycle", "names"),
    [
        (REFUNDS, RefundStatus),
        (REVERSALS, ReversalStatus),
        (INQUIRIES, InquiryStatus),
        (DELIVERIES, DeliveryStatus),
    ],
)
def test_the_types_of_responses_have_the_states(lifecycle: Lifecycle, names: Any) -> None:
    """In the same order."""
    assert get_args(names) == lifecycle.names


def test_no_statement_names_a_state_itself() -> None:
    """Statements take states from the table: `WHERE … AND {PENDING}`, `SET {DELIVER.target}`."""
    typed = re.compile(rf"'({'|'.join(name for lifecycle in LIFECYCLES for name in lifecycle.names)})'")
    for folder in (
        *("engine/payments", "engine/payments/refunds", "engine/webhooks", "engine/webhooks/delivery"),
        *("engine/webhooks/subscriptions", "operators"),
    ):
        for path in (SOURCES / folder).glob("*.py"):
            assert not typed.findall(path.read_text("utf-8")), path.name
