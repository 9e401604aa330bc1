"""The supervisor beside processes that break the rules of its channel, see `misbehaving_process`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import misbehaving_process
from paydesk_process import environment
from serve_process import runs
from waiting import HANGS_SECONDS, wait_until


@contextmanager
def _supervised(log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as written:
        process = subprocess.Popen([sys.executable, misbehaving_process.__file__], stderr=written, env=environment())
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for line in _lines(log, "process_ready"):
            if runs(line["pid"]):
                os.kill(line["pid"], signal.SIGKILL)


def _lines(log: Path, event: str) -> list[dict[str, Any]]:
    lines = (json.loads(line) for line in log.read_text().splitlines() if line.endswith("}"))
    return [line for line in lines if line["event"] == event]


@pytest.mark.long("it starts six processes and replaces some")
def test_processes_that_misbehave_delay_and_break_nothing(tmp_path: Path) -> None:
    """One that stops in the middle of an answer is left out, also when it is killed then, and replaced.

    One that announces too much is ended and replaced. One of an earlier version is asked nothing, and goes on. The one
    that asks has the answers of the others all the time, and the supervisor ends all when it ends.
    """
    log = tmp_path / "supervisor.log"
    with _supervised(log) as supervisor:

        def wait_for(event: str, count: int = 1, **fields: Any) -> list[dict[str, Any]]:
            def found() -> list[dict[str, Any]]:
                return [line for line in _lines(log, event) if fields.items() <= line.items()]

            wait_until(lambda: len(found()) >= count, lambda: log.read_text()[-3000:])
            return found()

        wait_for("process_ready", 5)
        wait_for("process_exited", number=3, code=0)
        wait_for("process_ready", 2, number=3)
        wait_for("asked", 2, answers=["five"])
        stopped = wait_for("process_ready", number=2)[0]["pid"]
        os.kill(stopped, signal.SIGKILL)
        wait_for("process_exited", number=2, code=-signal.SIGKILL)
        wait_for("process_ready", 2, number=2)
        wait_for("asked", len(_lines(log, "asked")) + 2)
        assert all(line["answers"] in ([], ["five"]) for line in _lines(log, "asked"))
        assert {line["number"] for line in _lines(log, "process_exited")} == {2, 3}
        last = {line["number"]: line["pid"] for line in _lines(log, "process_ready")}
        supervisor.kill()
        supervisor.wait(HANGS_SECONDS)
        wait_until(lambda: not any(runs(last[number]) for number in (1, 4, 5)))
