"""The programs of the pages about refunds, unknown outcomes and migration, run unchanged."""

from __future__ import annotations

import json
import re
import sys
import time
import urllib.request
from pathlib import Path

import pytest

import docs_programs
from every_operation import OPERATIONS
from paydesk.engine.orders import status
from paydesk.platform.http.refusals.retired import DESCRIBED
from paydesk_process import credentials

DELIVERY_SECONDS_MAX = 30
_NUMBER = r"[0-7][0-9A-HJKMNP-TV-Z]{25}"


def page(name: str) -> str:
    """Return the text of a page."""
    return (docs_programs.DOCS / name).read_text()


def run(folder: Path, name: str, language: str, *command: str) -> str:
    """Run all programs of the page in this language, in order; return their output."""
    return docs_programs.run(folder, "".join(docs_programs.blocks(page(name), language)), *command)


@pytest.mark.long("the page waits for a refund whose answer is lost")
def test_refund_programs(folder: Path) -> None:
    """A partial refund, the rest, one with a lost answer, a declined one, and a repeated one."""
    output = run(folder, "refunds.md", "sh", "sh", "-eu").splitlines()
    part, rest, order, lost, is_refunded, declined, first, repeat = output
    assert [json.loads(line)["status_detail"] for line in (part, rest, order)] == [
        "partially_refunded",
        *["refunded"] * 2,
    ]
    payment = json.loads(order)["transactions"]["payments"][0]
    assert payment["refunded_amount"] == payment["paid_amount"] == "24.90"
    assert json.loads(lost)["transactions"]["refunds"][0]["status"] == "processing"
    assert is_refunded == "Refunded."
    assert json.loads(declined)["error"] == "cannot_refund_order"
    assert first == repeat
    assert json.loads(first)["transactions"]["refunds"][0]["status"] == "processed"


def test_every_error_of_a_refund_is_explained() -> None:
    """The table has each one with its status, and no other."""
    (operation,) = (row for row in OPERATIONS if row.name == "refund_order")
    listed = re.findall(r"^\| (\d{3}) \| `(\w+)` \|", page("refunds.md"), re.MULTILINE)
    assert {(int(code), name) for code, name in listed} == {(kind.status, kind.code) for kind in operation.errors}


def test_unknown_outcome_program(folder: Path) -> None:
    """The outcome is unknown, then the order is processed; the notifications arrive in order."""
    output = run(folder, "unknown-outcomes.md", "sh", "sh", "-eu")
    found = re.match(rf"(ORD{_NUMBER}) is processed\n", output)
    assert found is not None, output
    expected = ["created", "at_terminal", "check_on_terminal", "accredited"]
    deadline = time.monotonic() + DELIVERY_SECONDS_MAX
    while (details := _received_details(folder, found[1])) != expected and time.monotonic() < deadline:
        time.sleep(0.1)
    assert details == expected


def _received_details(folder: Path, order_id: str) -> list[str]:
    """Return the status details in the notifications about the order, in order of arrival."""
    with urllib.request.urlopen(credentials(folder)["webhook"]["inbox_url"]) as answer:  # noqa: S310 - over http
        received = json.load(answer)["data"]
    return [entry["body"]["data"]["status_detail"] for entry in received if entry["order_id"] == order_id]


def test_retired_operation_names_its_successor(folder: Path) -> None:
    """In the message and in a header."""
    output = run(folder, "migrate.md", "sh", "sh", "-eu")
    assert output.startswith("HTTP/1.1 410 ")
    assert 'link: </v1/orders>; rel="successor-version"' in output.lower()
    assert "Use POST /v1/orders instead." in output


def test_migration_program_creates_an_order_from_a_payment_intent(folder: Path) -> None:
    """With every field that a payment intent can have."""
    program = (docs_programs.DOCS.parent / "examples" / "tills" / "migrate_intent.py").read_text()
    output = docs_programs.run(folder, program, sys.executable, "-")
    assert re.fullmatch(rf"ORD{_NUMBER} 15\.00\n", output), output


def test_every_retired_operation_has_a_row() -> None:
    """With its successor; each status and action is mapped."""
    text = page("migrate.md")
    for row in DESCRIBED:
        assert f"`{row.method} {row.path}`" in text
        assert re.search(
            rf"^\| `{re.escape(f'{row.method} {row.path}')}`.* \| `{re.escape(row.successor)}` \|", text, re.MULTILINE
        )
    states = text.partition("\n## States\n")[2].partition("\n## ")[0]
    assert all(f"`{state.status}`" in states for state in status.STATES)
    assert all(f"`{move.action}`" in text for move in status.MOVES)
