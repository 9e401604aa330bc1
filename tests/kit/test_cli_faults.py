"""`paydesk faults` against a running `paydesk dev`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from command_line import command
from docs_programs import DOCS, blocks
from tables import each


def faults(*arguments: str, folder: Path) -> Any:
    """Return what `paydesk faults …` prints with `--json`."""
    ended = command("faults", *arguments, "--json", folder=folder)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_a_fault_is_added_shown_released_and_removed(folder: Path) -> None:
    """Options are fields; several of `--set` are one object."""
    options = ("--every", "3", "--times", "0", "--seed", "7", "--reference", "s1", "--skip", "1")
    added = faults("add", "till", "GET /v1/orders/{id}", "slow", "--delay", "0.5s", *options, folder=folder)
    assert added["line"] == "till get_order slow reference=s1 every=3 times=0 skip=1 delay=0.5s seed=7"
    altered = faults(
        "add", "till", "get_order", "altered", "--set", "/status=weird", "--set", "/version=7", folder=folder
    )
    assert altered["set"] == {"/status": "weird", "/version": 7}
    assert [one["id"] for one in faults("list", "--edge", "till", folder=folder)] == [added["id"], altered["id"]]
    assert faults("show", added["id"], "--wait", "0", folder=folder) == added
    assert faults("release", added["id"], folder=folder) == {"id": added["id"], "released": True}
    assert faults("clear", added["id"], folder=folder)["id"] == added["id"]
    listed = command("faults", "list", folder=folder)
    assert listed.stdout.split("\t")[:4] == [altered["id"], "till", "get_order", "altered"]
    assert [one["id"] for one in faults("clear", "--edge", "till", folder=folder)] == [altered["id"]]
    assert faults("clear", folder=folder) == []


@each(
    "arguments, message",
    [
        (("add", "till", "create_order", "explode"), "'$.kind' - must be one of reset, late"),
        (("add", "till", "create_order", "slow", "--delay", "soon"), "delay must be a time such as 5s"),
        (("add", "webhook", "*", "slow"), "'$.kind' - must be one of reset, late, twice"),
        (("show", "FLT01J67CQQH5904WDBVZEM4JMEP3"), "There is no such fault. (fault_not_found)"),
        (("clear", "FLT01J67CQQH5904WDBVZEM4JMEP3", "--edge", "till"), "Give either the id of a fault"),
    ],
)
def test_a_mistake_is_refused(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    """With what to change."""
    ended = command("faults", *arguments, folder=folder)
    assert (ended.returncode in (1, 2), ended.stdout) == (True, "")
    assert message in " ".join(ended.stderr.split())


@each(
    "arguments, line",
    [
        (("late", "--every", "3"), "paydesk faults add webhook '*' late --every 3 --times 0 --delay 10s"),
        (("drop", "--subscription", "1"), "paydesk faults add webhook '*' drop --subscription 1 --times 0"),
        (("clear",), "paydesk faults clear --edge webhook"),
    ],
)
def test_the_earlier_command_names_its_successor(folder: Path, arguments: tuple[str, ...], line: str) -> None:
    """And ends as a wrong usage."""
    ended = command("webhooks", "fault", *arguments, folder=folder)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert line in " ".join(ended.stderr.split())


def test_the_commands_of_the_page_run(folder: Path) -> None:
    """In their order."""
    page = (DOCS / "faults.md").read_text()
    lines = [line for line in blocks(page, "sh")[0].splitlines() if line.startswith("paydesk ")]
    assert len(lines) == 6
    for line in lines:
        ended = command(*shlex.split(line)[1:], folder=folder)
        assert ended.returncode == 0, (line, ended.stderr)
