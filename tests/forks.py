"""Processes that start at once: a parent that has imported everything forks them, as many as a test wants to kill.

`python forks.py MODULE` is the parent: a line of JSON asks for a child, which calls the module's `main(arguments)`, or
asks whether a child has ended. It ends, and its children with it, when the test that started it does.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

POLL_SECONDS = 0.002
STREAMS = (os.O_RDONLY, *[os.O_WRONLY | os.O_APPEND | os.O_CREAT] * 2)
"""How a child's standard streams are opened."""


class Forks:
    """The parent of processes that run `main` of one module."""

    def __init__(self, module: str) -> None:
        self._command = [sys.executable, __file__, module]
        self._parent: subprocess.Popen[str] | None = None
        self._one_at_a_time = threading.Lock()

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        *,
        errors: Path | None = None,
        folder: Path | None = None,
    ) -> Fork:
        """A new process with these arguments and variables, in `folder`.

        What it writes is added to the log; to `errors`, if given, what it writes to standard error.
        """
        asked = {"arguments": list(arguments), "environment": dict(environment), "folder": str(folder or ".")}
        return Fork(self, self.ask({**asked, "streams": [os.devnull, str(log), str(errors or log)]}))

    def ask(self, question: dict[str, Any]) -> Any:
        """One line to the parent, and its answer."""
        with self._one_at_a_time:
            if self._parent is None:
                self._parent = subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
                )
            assert self._parent.stdin is not None
            assert self._parent.stdout is not None
            self._parent.stdin.write(json.dumps(question) + "\n")
            return json.loads(self._parent.stdout.readline())

    def end(self) -> None:
        """End the parent and whatever is left of its children."""
        if self._parent is not None:
            self._parent.communicate()
            self._parent = None


class Fork:
    """One process."""

    def __init__(self, parent: Forks, pid: int) -> None:
        self._parent = parent
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        if self.returncode is None:
            self.returncode = self._parent.ask({"pid": self.pid})
        return self.returncode

    def wait(self, seconds_max: float = 10) -> int:
        """Its exit status once it has ended, as it must within `seconds_max`."""
        deadline = time.monotonic() + seconds_max
        while (status := self.poll()) is None:
            assert time.monotonic() < deadline, f"process {self.pid} did not end"
            time.sleep(POLL_SECONDS)  # Another process gives no sign of its own.
        return status

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send it SIGTERM, unless it has ended."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send it SIGKILL, unless it has ended."""
        self.send_signal(signal.SIGKILL)


def _serve(module: str) -> None:
    main = importlib.import_module(module).main
    gc.freeze()
    children: set[int] = set()
    for line in sys.stdin:
        asked = json.loads(line)
        if "pid" in asked:
            answer = _status(asked["pid"])
            if answer is not None:
                children.discard(asked["pid"])
        else:
            # Opened before the answer, so that the one who asked may close what it leads to.
            streams = [os.open(path, flags) for path, flags in zip(asked["streams"], STREAMS, strict=True)]
            answer = os.fork()
            if not answer:
                _run(main, asked, streams)
            children.add(answer)
            for stream in streams:
                os.close(stream)
        print(json.dumps(answer), flush=True)  # noqa: T201 - the answer
    for pid in children:
        os.kill(pid, signal.SIGKILL)


def _status(pid: int) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def _run(main: Any, asked: dict[str, Any], streams: Sequence[int]) -> NoReturn:
    """The child: standard streams, variables and arguments of its own, then `main`, to the end of the interpreter."""
    for descriptor, stream in enumerate(streams):
        os.dup2(stream, descriptor)
        os.close(stream)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.exit(main(asked["arguments"]))


if __name__ == "__main__":
    _serve(sys.argv[1])
