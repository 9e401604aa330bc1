"""The programs of the pages about refunds, unknown outcomes and the earlier interface, run as they stand."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from paydesk.api import OPERATIONS
from paydesk.http.retired import DESCRIBED
from paydesk.orders import status
from paydesk_process import credentials, dev, environment

DOCS = Path(__file__).parents[2] / "docs"
PROGRAM_SECONDS_MAX = 90
DELIVERY_SECONDS_MAX = 30
_NUMBER = r"[0-7][0-9A-HJKMNP-TV-Z]{25}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which `paydesk dev` runs, as a reader's clone is after `make run`."""
    folder = tmp_path_factory.mktemp("clone")
    with dev(folder):
        yield folder


def page(name: str) -> str:
    """The text of a page."""
    return (DOCS / name).read_text()


def run(folder: Path, name: str, language: str, *command: str) -> str:
    """What all programs of the page in this language, one after the other, say."""
    program = "".join(re.findall(rf"^```{language}\n(.*?)^```$", page(name), re.MULTILINE | re.DOTALL))
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(NO_PROXY="127.0.0.1"),
        input=program,
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_refunds(folder: Path) -> None:
    """A part, the rest, one whose answer gets lost, one that is declined, and one that is asked for twice."""
    said = run(folder, "refunds.md", "sh", "sh", "-eu").splitlines()
    part, rest, order, lost, is_back, declined, first, repeat = said
    assert [json.loads(line)["status_detail"] for line in (part, rest, order)] == [
        "partially_refunded",
        *["refunded"] * 2,
    ]
    payment = json.loads(order)["transactions"]["payments"][0]
    assert payment["refunded_amount"] == payment["paid_amount"] == "24.90"
    assert json.loads(lost)["transactions"]["refunds"][0]["status"] == "processing"
    assert is_back == "Refunded."
    assert json.loads(declined)["error"] == "cannot_refund_order"
    assert first == repeat
    assert json.loads(first)["transactions"]["refunds"][0]["status"] == "processed"


def test_every_refusal_of_a_refund_is_explained() -> None:
    """The page's table has each of them with its status, and no other."""
    (operation,) = (row for row in OPERATIONS if row.name == "refund_order")
    listed = re.findall(r"^\| (\d{3}) \| `(\w+)` \|", page("refunds.md"), re.MULTILINE)
    assert {(int(code), name) for code, name in listed} == {(kind.status, kind.code) for kind in operation.errors}


def test_an_unknown_outcome(folder: Path) -> None:
    """The order is checked on and then processed; the notifications tell of both, in order."""
    said = run(folder, "unknown-outcomes.md", "sh", "sh", "-eu")
    found = re.match(rf"(ORD{_NUMBER}) is processed\n", said)
    assert found is not None, said
    wanted = ["created", "at_terminal", "check_on_terminal", "accredited"]
    deadline = time.monotonic() + DELIVERY_SECONDS_MAX
    while (details := _told_of(folder, found[1])) != wanted and time.monotonic() < deadline:
        time.sleep(0.1)
    assert details == wanted


def _told_of(folder: Path, order_id: str) -> list[str]:
    """The details in what the inbox was told of the order, in the order in which it was."""
    with urllib.request.urlopen(credentials(folder)["webhook"]["inbox_url"]) as answer:  # noqa: S310 - over http
        received = json.load(answer)["data"]
    return [one["body"]["data"]["status_detail"] for one in received if one["order_id"] == order_id]


def test_a_retired_operation_names_its_successor(folder: Path) -> None:
    """For people in the message, for programs in a header."""
    said = run(folder, "migrate.md", "sh", "sh", "-eu")
    assert said.startswith("HTTP/1.1 410 ")
    assert 'link: </v1/orders>; rel="successor-version"' in said.lower()
    assert "POST /v1/orders." in said


def test_an_intent_becomes_an_order(folder: Path) -> None:
    """The page's program makes an order out of everything that a payment intent could say."""
    said = run(folder, "migrate.md", "python", sys.executable, "-")
    assert re.fullmatch(rf"ORD{_NUMBER} 15\.00\n", said), said


def test_everything_that_is_retired_has_its_row() -> None:
    """Each earlier operation stands beside the one that took over, and each status and action is mapped to."""
    text = page("migrate.md")
    for row in DESCRIBED:
        assert f"`{row.method} {row.path}`" in text
        assert re.search(
            rf"^\| `{re.escape(f'{row.method} {row.path}')}`.* \| `{re.escape(row.successor)}` \|", text, re.MULTILINE
        )
    states = text.partition("\n## States\n")[2].partition("\n## ")[0]
    assert all(f"`{state.status}`" in states for state in status.STATES)
    assert all(f"`{move.action}`" in text for move in status.MOVES)
