"""`paydesk scenario`: a path for a till that is a program, and for one of a person."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dev_thread
from command_line import command
from paydesk_dev.paths.path import all_paths
from paydesk_process import credentials, request, start
from waiting import HANGS_SECONDS, wait_until

TILL = Path(__file__).parents[2] / "examples" / "till" / "till.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a folder with the credentials file of a running service."""
    path = tmp_path_factory.mktemp("scenario")
    with dev_thread.dev(path):
        yield path


def test_the_list_has_each_path_with_its_end(folder: Path) -> None:
    """On a pipe and as JSON."""
    listed = command("scenario", "list", "--json", folder=folder)
    assert [one["id"] for one in json.loads(listed.stdout)] == list(all_paths())
    assert (
        "declined\tAcquirer\tThe card is declined, and the buyer has another one\tfailed insufficient_amount, then"
        in (command("scenario", "list", folder=folder).stdout)
    )


def test_an_unknown_path_is_wrong_usage(folder: Path) -> None:
    """It names those that there are."""
    ended = command("scenario", "run", "nope", folder=folder)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "There is no path nope." in ended.stderr
    assert "create-answer-lost" in ended.stderr


def test_what_cannot_be_used_is_refused_in_words(folder: Path) -> None:
    """A program that is not there, and an address that takes no notifications."""
    ended = command("scenario", "run", "paid-by-tap", "--", "no-such-till", folder=folder)
    assert (ended.returncode, ended.stderr) == (2, "There is no program no-such-till.\n")
    ended = command("scenario", "run", "paid-by-tap", "--webhook-url", "ftp://x", "--", "true", folder=folder)
    assert ended.returncode == 2
    assert "$.url" in ended.stderr


@pytest.mark.long("it starts a service")
def test_a_path_that_moves_the_clock_has_a_service_of_its_own(folder: Path) -> None:
    """The orders of the running one would expire."""
    ended = command("scenario", "run", "nobody-comes", "--seconds", "1", "--", "true", folder=folder)
    assert (ended.returncode, ended.stdout.splitlines()[0]) == (
        1,
        "Starting a service for this run: the path moves the clock.",
    )


@pytest.mark.long("a till runs as a program")
def test_a_path_is_played_with_a_program(folder: Path, tmp_path: Path) -> None:
    """Its output goes to standard error; standard output is the result, and nothing is left at the end."""
    till = (sys.executable, str(TILL))
    arguments = ("scenario", "run", "wrong-pin", "--json", "--seconds", "20", "--", *till)
    ended = command(*arguments, folder=folder, TILL_FILE=str(tmp_path / "till.db"))
    result = json.loads(ended.stdout)
    assert (ended.returncode, result["problems"]) == (0, []), ended.stderr
    assert [(one["status"], one["detail"]) for one in result["orders"]] == [("failed", "max_attempts_exceeded")]
    assert "> terminal insert wrong_pin" in ended.stderr
    found = credentials(folder)
    _, listed = request("GET", f"{found['base_url']}/operator/v1/terminals", found["operator"]["token"])
    assert {one["seller_id"] for one in listed["data"]} == {found["seller"]["user_id"]}


def test_a_till_that_does_nothing_is_found(folder: Path) -> None:
    """Exit code 1, with what was seen instead."""
    ended = command("scenario", "run", "paid-by-tap", "--seconds", "1", "--", "true", folder=folder)
    assert ended.returncode == 1
    assert "paid-by-tap has not ended as it has to." in ended.stderr
    assert "it shows idle" in ended.stderr


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (1, "is paid, and the till says that it is unpaid."),
        (3, "The till leaves the sale to a person"),
        (4, "has ended, and the till still says that it is open."),
    ],
)
def test_the_exit_code_is_the_word_of_a_program(code: int, problem: str, folder: Path, tmp_path: Path) -> None:
    """A till that sells and then says what is wrong is found."""
    till = tmp_path / "till.py"
    till.write_text(
        f"import subprocess, sys\nsubprocess.run([sys.executable, {str(TILL)!r}, *sys.argv[1:]])\nsys.exit({code})"
    )
    arguments = ("scenario", "run", "paid-by-tap", "--json", "--seconds", "3", "--", sys.executable, str(till))
    ended = command(*arguments, folder=folder, TILL_FILE=str(tmp_path / "till.db"))
    assert ended.returncode == 1
    assert problem in " ".join(json.loads(ended.stdout)["problems"])


def test_notifications_without_an_address_are_not_shown(folder: Path, tmp_path: Path) -> None:
    """The output says so, and that the demo inbox gets them."""
    arguments = ("scenario", "run", "never-comes", "--json", "--seconds", "20", "--", sys.executable, str(TILL))
    ended = command(*arguments, folder=folder, TILL_FILE=str(tmp_path / "till.db"))
    assert (ended.returncode, json.loads(ended.stdout)["not_shown"]) == (0, ["notifications"]), ended.stderr
    assert "Not shown: what the till does with notifications." in ended.stderr


@pytest.mark.long("the command runs as a process that waits for a person")
def test_a_person_is_asked_and_sees_what_happens(folder: Path, tmp_path: Path) -> None:
    """The variables for the till, what to do now, each status; in the end, that it is as it has to be."""
    out, errors = tmp_path / "out", tmp_path / "errors"
    file = str(folder / ".paydesk" / "credentials.json")
    running = start(
        ("scenario", "run", "declined", "--seconds", "20", "--credentials", file), {}, tmp_path, out, errors
    )
    try:
        for key, sentence in (("key-1", "NOW: Sell 24.90."), ("key-2", "NOW: Press again, for the same sale.")):
            wait_until(lambda sentence=sentence: sentence in out.read_text(), errors.read_text)  # type: ignore[misc]
            wait_until(lambda key=key: _has_sold(out.read_text(), key), out.read_text)  # type: ignore[misc]
        code = running.wait(HANGS_SECONDS)
    finally:
        running.kill()
    assert code == 0, out.read_text() + errors.read_text()
    assert re.search(r"^  ORD\w+ order\.failed$", out.read_text(), re.MULTILINE)
    assert out.read_text().endswith("It has ended as it has to, and the buyer was not charged more than once.\n")


def _has_sold(output: str, key: str) -> bool:
    """Create an order as the till of the person does, with the variables that were printed."""
    given = dict(re.findall(r"^export PAYDESK_(\w+)=(.*)$", output, re.MULTILINE))
    order = {
        "type": "point",
        "transactions": {"payments": [{"amount": "24.90"}]},
        "config": {"point": {"terminal_id": given["TERMINAL_ID"]}},
    }
    headers = {"X-Idempotency-Key": key}
    return request("POST", f"{given['BASE_URL']}/v1/orders", given["ACCESS_TOKEN"], order, headers)[0] == 201
