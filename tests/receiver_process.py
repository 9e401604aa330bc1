"""The receivers of webhooks in examples, run as processes in a folder of their own."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import node_clients
from free_port import free_port

EXAMPLES = Path(__file__).parents[1] / "examples"
COMMANDS = {
    "receiver_starlette.py": ("-m", "uvicorn", "receiver_starlette:app", "--port"),
    "receiver_flask.py": ("-m", "flask", "--app", "receiver_flask", "run", "--port"),
    "receiver_express.mjs": (),
    "verify_x_signature.py": ("-m", "flask", "--app", "verify_x_signature", "run", "--port"),
    "notified.py": ("-m", "flask", "--app", "notified", "run", "--port"),
}
START_SECONDS_MAX = 30
_CHANGE = re.compile(r"(ORD\w+) is (\w+), version (\d+)")


class ReceiverProcess:
    """A running receiver; `changes` are the changes of orders that it printed."""

    def __init__(self, name: str, folder: Path, port: int, **variables: str) -> None:
        self.name, self.folder, self.port = name, folder, port
        self.url = f"http://127.0.0.1:{port}/webhooks"
        self._variables = variables
        self._lines: list[str] = []
        self._start()

    @property
    def changes(self) -> list[tuple[str, str, int]]:
        """Each change's order, status and version."""
        found = (_CHANGE.fullmatch(line.strip()) for line in self._lines)
        return [(match[1], match[2], int(match[3])) for match in found if match]

    @property
    def printed(self) -> str:
        """All that it printed so far."""
        return "".join(self._lines)

    def restart(self) -> None:
        """Kill the process and start it again in the same folder."""
        self.kill()
        self._start()

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait(20)
        self._reader.join(20)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _start(self) -> None:
        is_node = self.name.endswith(".mjs")
        command = ["node", self.name] if is_node else [sys.executable, *COMMANDS[self.name], str(self.port)]
        self._process = subprocess.Popen(
            command,
            cwd=self.folder,
            env={**os.environ, "PORT": str(self.port), "NO_PROXY": "127.0.0.1", **self._variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._accepts():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError("".join(self._lines))
            time.sleep(0.05)

    def _accepts(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)


@contextmanager
def receiver(name: str, folder: Path, *, port: int = 0, **variables: str) -> Iterator[ReceiverProcess]:
    """Copy an example into `folder` and run it there, as its first lines say, until the block ends."""
    if name.endswith(".mjs"):
        node_clients.require()
        (folder / "node_modules").symlink_to(node_clients.FOLDER / "node_modules")
    (source,) = EXAMPLES.glob(f"*/{name}")
    shutil.copy(source, folder)
    running = ReceiverProcess(name, folder, port or free_port(), **variables)
    try:
        yield running
    finally:
        running.kill()
