"""docs/webhooks.md: its programs are the files in examples/receivers, and its commands run unchanged."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import pytest
from tools.docs import webhook_events, webhook_pictures

import dev_thread
from command_line import paydesk_on_path
from docs_programs import blocks, run, section
from free_port import free_port
from paydesk.engine.orders.openapi import WEBHOOKS
from paydesk.engine.webhooks.schedule import DeliveryStatus
from paydesk.engine.webhooks.schemas import ACTIONS_OF
from paydesk.platform.settings import Settings
from paydesk_process import credentials, environment, request

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "webhooks.md").read_text()
EVENTS = (ROOT / "docs" / "webhook-events.md").read_text()
SECONDS_MAX = 60


@pytest.mark.parametrize("file", sorted((ROOT / "examples" / "receivers").iterdir()), ids=lambda file: file.name)
def test_every_program_is_named_in_the_page(file: Path) -> None:
    """By a link, or as a whole and unchanged."""
    if file.is_file():
        assert f"](../examples/receivers/{file.name})" in PAGE or file.read_text() in blocks(PAGE, "python")


def test_the_request_is_the_generated_one() -> None:
    """The headers and the body are those that the code makes."""
    assert blocks(section(PAGE, "## What arrives"), "http") == [webhook_events.request_text() + "\n"]
    (body,) = blocks(section(PAGE, "## What arrives"), "json")
    assert json.loads(body) == next(one.example for one in WEBHOOKS if one.action == "order.processed")


def test_the_schedule_is_that_of_the_settings() -> None:
    """In the picture and in its text."""
    assert f"![{webhook_pictures.alternative_text()}](webhook-retries.svg)" in PAGE
    assert webhook_pictures.alternative_text().startswith(
        "11 attempts: the first at once, the others after 15 s, 1 min,"
    )
    assert f"within {Settings.model_fields['webhook_timeout_seconds'].default} seconds" in PAGE
    picture = webhook_pictures.retries()
    assert [f">{attempt}<" in picture for attempt in range(1, 13)] == [True] * 11 + [False]
    assert "2 d 22 h" in picture


@pytest.mark.parametrize(
    ("seconds", "words"), [(15, "15 s"), (75, "1 min 15 s"), (3600, "1 h"), (86_399, "23 h 59 min"), (172_800, "2 d")]
)
def test_durations_have_at_most_two_units(seconds: int, words: str) -> None:
    """The smaller ones are left out."""
    assert webhook_pictures.duration(seconds) == words


def test_every_status_is_explained() -> None:
    """In the table of "Send again"."""
    listed = re.findall(r"^\| `(\w+)` \|", section(PAGE, "## Send again"), re.MULTILINE)
    assert listed == list(get_args(DeliveryStatus))


def test_every_action_is_on_the_page_of_events() -> None:
    """With a section of its own, and a complete notification of each form."""
    actions = [action for of_topic in ACTIONS_OF.values() for action in of_topic]
    assert re.findall(r"^### (\S+)$", EVENTS, re.MULTILINE) == actions
    assert tuple(json.loads(block)["action"] for block in blocks(EVENTS, "json")) == webhook_events.COMPLETE


class Shell:
    """A folder in which `paydesk dev` runs, and a shell there with the page's commands on the port of this test."""

    def __init__(self, folder: Path, path: str, *, port: int) -> None:
        self.folder, self.path, self.port = folder, path, port
        (folder / "examples").symlink_to(ROOT / "examples")
        paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = environment(PATH=paths, NO_PROXY="127.0.0.1", PYTHONDONTWRITEBYTECODE="1")
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, script: str, name: str, *, until: str) -> None:
        """Run a script that does not end, and wait until its output contains `until`."""
        with (self.folder / name).open("wb") as output:
            self._started.append(
                subprocess.Popen(
                    ["sh", "-eu", "-c", self._of_this_port(script)],
                    cwd=self.folder,
                    env=self.environment,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )
        self.wait(name, until)

    def wait(self, name: str, pattern: str) -> str:
        """Wait until the output of a started script contains the pattern; return all of it."""
        deadline = time.monotonic() + SECONDS_MAX
        while not re.search(pattern, text := (self.folder / name).read_text()):
            assert time.monotonic() < deadline, text
            assert all(process.poll() is None for process in self._started), text
            time.sleep(0.05)
        return text

    def run(self, script: str) -> str:
        """Run a script, its commands of Paydesk in this process; return its output."""
        return run(self.folder, self._of_this_port(script), "sh", "-eu", PATH=self.path, PYTHONDONTWRITEBYTECODE="1")

    def end(self) -> None:
        """End what was started, with its children."""
        for process in self._started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _of_this_port(self, script: str) -> str:
        return script.replace(":3000/", f":{self.port}/").replace("--port 3000", f"--port {self.port}")


@contextmanager
def shell(folder: Path) -> Iterator[Shell]:
    """Yield a shell beside a running `paydesk dev`."""
    with dev_thread.dev(folder), paydesk_on_path(folder) as path:
        made = Shell(folder, path, port=free_port())
        try:
            yield made
        finally:
            made.end()


def test_quick_start(tmp_path: Path) -> None:
    """The receiver prints the payment's three changes, and a sample that is sent two times once."""
    listen, receive, pay, trigger = blocks(section(PAGE, "## Quick start"), "sh")
    with shell(tmp_path) as window:
        window.start(listen, "listen.log", until="Listening for test events")
        window.start(receive, "receiver.log", until="Running on")
        window.run(pay)
        window.wait("receiver.log", "is processed, version 3")
        assert "order.action_required" in window.run(trigger)
        output = window.wait("receiver.log", "is failed, version 3")
    changes = re.findall(r"^ORD\w{26} is (\w+), version (\d)$", output, re.MULTILINE)
    assert changes == [("created", "1"), ("at_terminal", "2"), ("processed", "3"), ("failed", "3")]
    assert len(re.findall(r'"POST /webhooks\?.* 200', output)) == 5


LIST = "paydesk deliveries list --status delivered >"
DELIVERED = f"""\
until {LIST}delivered.txt && grep -q "$SUBSCRIPTION" delivered.txt; do sleep 0.02; done
rm delivered.txt
"""
"""Waits until the receiver's answer is recorded: `paydesk pay` waits for the demo inbox alone."""


def test_commands_of_a_subscription(tmp_path: Path) -> None:
    """From the subscription to the rotation, in order; in the end its secret is the second one, and nothing failed."""
    subscribe, receive, *others = blocks(PAGE.partition("\n## Subscribe\n")[2], "sh")
    with shell(tmp_path) as window:
        window.run(subscribe)
        # The variables of the first block are known to the others, as in one window.
        window.start(_variables_of(subscribe) + receive, "receiver.log", until="Running on")
        window.run(_variables_of(subscribe) + "".join(others).replace(LIST, DELIVERED + LIST))
        output = window.wait("receiver.log", "is processed, version 3")
        service = credentials(tmp_path)
        url, token = f"{service['base_url']}/operator/v1", service["operator"]["token"]
        _, found = request("GET", f"{url}/subscriptions", token)
        (made,) = [one for one in found["data"] if one["topic"] == "orders" and str(window.port) in one["url"]]
        _, deliveries = request("GET", f"{url}/deliveries?subscription={made['id']}", token)
    assert [secret["id"] for secret in made["secrets"]] == ["2"]
    assert made["actions"] == ["order.processed", "order.failed", "order.canceled"]
    assert [delivery["status"] for delivery in deliveries["data"]] == ["delivered"]
    assert " 401 " not in output


def _variables_of(block: str) -> str:
    """Return the block without the command that creates the subscription, whose output is in a file."""
    return re.sub(r"^paydesk subscriptions create .*\n", "", block, flags=re.MULTILINE)
