"""Processes that start at once: a parent that has imported everything forks them, as many as a test wants to kill.

`python forks.py` is the parent: a line of JSON asks for a child, which calls the `main(arguments)` of a module, or asks
whether a child has ended. Each module is imported once, before the first child that needs it, so what it changes on
import it changes for all processes of its parent. The parent ends, and its children with it, when the test process that
started it does.
"""

from __future__ import annotations

import atexit
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
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

POLL_SECONDS = 0.002
STREAMS = (os.O_RDONLY, *[os.O_WRONLY | os.O_APPEND | os.O_CREAT] * 2)
"""How a child's standard streams are opened."""


class Forks:
    """Processes that run `main` of one module; those of all modules have one parent, unless it has another name."""

    def __init__(self, module: str, *, parent: str = "") -> None:
        self._module, self._parent = module, _parent(parent)

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
        streams = [os.devnull, str(log), str(errors or log)]
        asked = {"module": self._module, "arguments": list(arguments), "environment": dict(environment)}
        return Fork(self._parent, self._parent.ask({**asked, "folder": str(folder or "."), "streams": streams}))


class _Parent:
    """The parent of processes, which starts with the first of them."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._one_at_a_time = threading.Lock()

    def ask(self, question: dict[str, Any]) -> Any:
        """One line to the parent, and its answer."""
        with self._one_at_a_time:
            if self._process is None:
                command = [sys.executable, __file__]
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
                )
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(question) + "\n")
            return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        """End the parent and whatever is left of its children."""
        if self._process is not None:
            self._process.communicate()
            self._process = None


@cache
def _parent(name: str) -> _Parent:
    """Return the parent of that name."""
    del name
    parent = _Parent()
    atexit.register(parent.end)
    return parent


class Fork:
    """One process."""

    def __init__(self, parent: _Parent, pid: int) -> None:
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


def _serve() -> None:
    children: set[int] = set()
    for line in sys.stdin:
        asked = json.loads(line)
        if "pid" in asked:
            answer = _status(asked["pid"])
            if answer is not None:
                children.discard(asked["pid"])
        else:
            main = _main_of(asked["module"])
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


def _main_of(module: str) -> Any:
    if module not in sys.modules:
        importlib.import_module(module)
        gc.freeze()
    return sys.modules[module].main


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
    _serve()
