"""`paydesk terminals conformance`: its output, its exit codes, and a program as the terminal."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from command_line import command as command_here
from paydesk_dev.conformance.terminals.rules import RULES
from paydesk_dev.conformance.terminals.runner import CASES
from paydesk_process import command
from tables import each

CONFORMANCE = ("terminals", "conformance")
FREE = ("--listen", "127.0.0.1:0")
PROGRAM = """
import asyncio, os, pathlib, sys
from paydesk_dev.virtual.fleet import Fleet

async def main(folder):
    fleet = Fleet(os.environ["PAYDESK_BASE_URL"], folder)
    await fleet.start()
    if not fleet.terminals():
        await fleet.add("T__1", os.environ["PAYDESK_DEVICE_TOKEN"], "approve:0.2s")
    await asyncio.Event().wait()

asyncio.run(main(pathlib.Path(sys.argv[1])))
"""


def test_lists_the_cases(tmp_path: Path) -> None:
    """And the rules, without playing any."""
    printed = command_here(*CONFORMANCE, "--list", folder=tmp_path)
    assert printed.returncode == 0
    assert [line.split("\t")[0] for line in printed.stdout.splitlines()] == [*CASES, *RULES]
    listed = json.loads(command_here(*CONFORMANCE, "--list", "--json", folder=tmp_path).stdout)
    assert {one["name"] for one in listed} == {*CASES, *RULES}


@each(
    "options, message",
    [
        (("--only", "dance"), "There is no case dance"),
        (("--listen", "8390"), "8390 is no address with a port"),
        (("--listen", "127.0.0.1:70000"), "no address with a port"),
        (("--virtual", "--run", "x"), "exclude each other"),
        (("--virtual", "--pair"), "leave --pair out"),
    ],
)
def test_wrong_usage_exits_2(options: tuple[str, ...], message: str, tmp_path: Path) -> None:
    """Nothing is started."""
    ended = command_here(*CONFORMANCE, *options, folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert message in ended.stderr


def test_prints_what_held_and_exits_0(tmp_path: Path) -> None:
    """Tab-separated where it is not a terminal; the progress is on standard error, the log in its file."""
    options = (*FREE, "--virtual", "--only", "payment", "--log", "kit.log")
    ended = command(*CONFORMANCE, *options, folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    rows = [line.split("\t") for line in ended.stdout.splitlines()]
    assert [(row[0], row[2]) for row in rows] == [(name, "held") for name in ("payment", *RULES)]
    assert "present a card that is approved" in ended.stderr
    assert "/device/v1/hello" in (tmp_path / "kit.log").read_text()


@pytest.mark.slow
def test_a_program_is_restarted(tmp_path: Path) -> None:
    """It is killed and started again, with the address and the token in its environment."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    run = f"{sys.executable} {program} {tmp_path / 'journal'}"
    ended = command(*CONFORMANCE, *FREE, "--run", run, "--only", "restart-acknowledged", "--json", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert {one["status"] for one in json.loads(ended.stdout)} == {"held"}


@pytest.mark.slow
def test_a_terminal_that_says_no_hello_exits_1(tmp_path: Path) -> None:
    """So does a program that cannot be run."""
    ended = command(*CONFORMANCE, *FREE, "--run", "sleep 60", "--timeout", "1", folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "The terminal sent no hello" in ended.stderr
    missing = command(*CONFORMANCE, *FREE, "--run", "./missing", folder=tmp_path)
    assert missing.returncode == 1
    assert "./missing cannot be run" in missing.stderr
