"""`paydesk acquirers conformance`: its output, its exit codes, and what it says before it begins."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

from command_line import command as command_here
from paydesk_dev.conformance.acquirers.runner import CASES
from paydesk_process import command
from tables import each

CONFORMANCE = ("acquirers", "conformance")


def test_lists_the_cases(tmp_path: Path) -> None:
    """With what to repair, without playing any."""
    printed = command_here(*CONFORMANCE, "--list", folder=tmp_path)
    assert printed.returncode == 0
    assert [line.split("\t")[0] for line in printed.stdout.splitlines()] == [*CASES]
    listed = json.loads(command_here(*CONFORMANCE, "--list", "--json", folder=tmp_path).stdout)
    assert all(one["must"] and one["repair"] for one in listed)


@each(
    "arguments, code, message",
    [
        ((), 2, "Name the acquirer"),
        (("simulator", "--only", "dance"), 2, "There is no case dance"),
        (("main",), 1, "PAYDESK_ACQUIRERS_FILE names no file. There is: simulator."),
        (("simulator", "--log", "missing/kit.log"), 1, "missing/kit.log cannot be written to"),
    ],
)
def test_wrong_usage_is_refused(arguments: tuple[str, ...], code: int, message: str, tmp_path: Path) -> None:
    """Nothing is started."""
    ended = command_here(*CONFORMANCE, *arguments, folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert message in ended.stderr


def test_prints_what_held_and_exits_0(tmp_path: Path) -> None:
    """Tab-separated where it is not a terminal, and as JUnit XML; the progress and what was not tested on the other."""
    options = ("--only", "approve", "--only", "delivered_twice", "--only", "confirm_once", "--junit", "kit.xml")
    ended = command(*CONFORMANCE, "simulator", *options, folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    rows = [line.split("\t")[:2] for line in ended.stdout.splitlines()]
    assert rows[:3] == [["approve", "held"], ["delivered_twice", "not tested"], ["confirm_once", "not applicable"]]
    assert "approve: held." in ended.stderr
    assert ended.stderr.splitlines()[-2:] == [
        "Not tested: lost, late and doubled answers: the adapter has no `url` that the kit can stand in for.",
        "All 2 held, 1 not applicable, 1 not tested.",
    ]
    suite = ET.parse(tmp_path / "kit.xml").getroot()  # noqa: S314  # our own
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("paydesk.acquirers.simulator", "4", "0")
    assert suite.get("skipped") == "2"


def test_a_case_that_does_not_hold_exits_1(tmp_path: Path) -> None:
    """It is a failure in the JUnit XML, with what to repair."""
    options = ("--only", "decline", "--declined-amount", "100", "--junit", "kit.xml")
    ended = command(*CONFORMANCE, "simulator", *options, folder=tmp_path)
    assert ended.returncode == 1
    assert "1 of 2 did not hold: decline." in ended.stderr
    failure = ET.parse(tmp_path / "kit.xml").getroot().find("testcase/failure")  # noqa: S314  # our own
    assert failure is not None
    assert (failure.get("type"), failure.text) == ("not shown", CASES["decline"].repair)
    assert "--declined-amount" in (failure.get("message") or "")
