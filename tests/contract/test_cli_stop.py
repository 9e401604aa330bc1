"""SIGTERM ends `serve` and `dev` from their first moment, and neither needs a reader of its output."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from threading import Timer

import pytest

from command_line import command
from free_port import free_port
from paydesk_process import PAYDESK, environment, request
from waiting import HANGS_SECONDS, wait_until

PORT = free_port()
SERVE = {
    "PAYDESK_PUBLIC_URL": "http://127.0.0.1:1",
    "PAYDESK_LISTEN": f"127.0.0.1:{PORT}",
    "PAYDESK_OPERATOR_LISTEN": "127.0.0.1:0",
    "PAYDESK_LOG_FORMAT": "json",
}
COMMANDS = {
    "serve": ("serve",),
    "serve, supervised": ("serve", "--processes", "1"),
    "dev": ("dev", "--port", "0"),
}
SECONDS_MAX = 2.0
IS_LINUX = sys.platform == "linux"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the keys and the database of `serve`, which no start changes."""
    folder = tmp_path_factory.mktemp("stop")
    for arguments in (("keys", "add"), ("migrate",)):
        assert command(*arguments, folder=folder, **SERVE).returncode == 0
    return folder


@contextmanager
def started(folder: Path, *arguments: str, **streams: int) -> Iterator[subprocess.Popen[str]]:
    """Start `paydesk …` with a fresh interpreter, and kill it if it still runs."""
    with subprocess.Popen(
        arguments,
        cwd=folder,
        env=environment(**SERVE),
        stdin=subprocess.DEVNULL,
        text=True,
        **{"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, **streams},  # type: ignore[call-overload]
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def as_process_1(*arguments: str) -> tuple[str, ...]:
    """Return the command that runs `paydesk …` as the first process of a namespace, as the image starts it."""
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    return ("unshare", *user, "--fork", "--pid", "--kill-child", "env", "--block-signal=TERM", PAYDESK, *arguments)


def process_1_of(process: subprocess.Popen[str]) -> int:
    """Return the id of the first process of the namespace, once it runs `env` or what follows it."""
    found = list[int]()

    def is_there() -> bool:
        text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        found[:] = [pid for pid in map(int, text.split()) if Path(f"/proc/{pid}/exe").resolve().name != "unshare"]
        return bool(found) and blocks_or_catches(found[0])

    wait_until(is_there)
    return found[0]


def blocks_or_catches(pid: int) -> bool:
    """Whether SIGTERM is not lost at this process."""
    masks = re.findall(r"^Sig(?:Blk|Cgt):\t(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return any(int(mask, 16) & 1 << (signal.SIGTERM - 1) for mask in masks)


def imports(pid: int) -> bool:
    """Whether it is in the middle of its imports, which take most of the time of a start."""
    return "pydantic_core" in Path(f"/proc/{pid}/maps").read_text()


MOMENTS: dict[str, Callable[[int], bool]] = {"at once": lambda _: True, "while it imports": imports}


@pytest.mark.skipif(not IS_LINUX, reason="namespaces are Linux's")
@pytest.mark.parametrize(("name", "moment"), list(product(COMMANDS, MOMENTS)))
def test_sigterm_ends_process_1_while_it_starts(folder: Path, name: str, moment: str) -> None:
    """With exit code 0, although the system gives the first process no default action."""
    with started(folder, *as_process_1(*COMMANDS[name])) as process:
        pid = process_1_of(process)
        wait_until(lambda: MOMENTS[moment](pid))
        os.kill(pid, signal.SIGTERM)
        assert process.wait(HANGS_SECONDS) == 0, process.communicate()[1]


@pytest.mark.slow
@pytest.mark.skipif(not IS_LINUX, reason="namespaces are Linux's")
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(("name", "seconds"), list(product(COMMANDS, (0, 0.1, 0.2, 0.4, 0.8, 1.6))))
def test_sigterm_ends_it_in_less_than_2_s(folder: Path, name: str, seconds: float, is_first: bool) -> None:  # noqa: FBT001
    """At each of these times. The system itself ends a process that is not the first and does not catch it yet."""
    arguments = COMMANDS[name]
    with started(folder, *(as_process_1(*arguments) if is_first else (PAYDESK, *arguments))) as process:
        pid = process_1_of(process) if is_first else process.pid
        codes = [0]

        def stop() -> None:
            if not (is_first or blocks_or_catches(pid)):
                codes.append(-signal.SIGTERM)
            os.kill(pid, signal.SIGTERM)

        Timer(seconds, stop).start()
        assert process.wait(seconds + SECONDS_MAX) in codes


@pytest.mark.skipif(not IS_LINUX, reason="namespaces are Linux's")
def test_sigterm_ends_another_command_with_143(folder: Path) -> None:
    """It is not done, so a container that waits for it must not go on."""
    with started(folder, *as_process_1("migrate")) as process:
        os.kill(process_1_of(process), signal.SIGTERM)
        assert process.wait(HANGS_SECONDS) == 128 + signal.SIGTERM


GONE, CLOSED = "its reader has gone", "it was closed by the shell"


@pytest.mark.skipif(not IS_LINUX, reason="/proc is Linux's")
@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("dev", GONE),
        ("serve", CLOSED),
        pytest.param("dev", CLOSED, marks=pytest.mark.slow),
        pytest.param("serve", GONE, marks=pytest.mark.slow),
    ],
)
def test_a_service_goes_on_without_its_output(folder: Path, name: str, how: str) -> None:
    """Standard output and the log. It serves, and ends in order."""
    reader, writer = os.pipe()
    os.close(reader)
    shell = () if how == GONE else ("sh", "-c", 'exec "$@" >&- 2>&-', "sh")
    arguments = ("dev", "--port", str(PORT)) if name == "dev" else ("serve",)
    try:
        with started(folder, *shell, PAYDESK, *arguments, stdout=writer, stderr=writer) as process:
            # `serve` has logged two lines when it is ready, `dev` prints the greeting a little later.
            wait_until(
                lambda: process.poll() is not None or (is_ready() and (name == "serve" or leads_nowhere(process.pid)))
            )
            process.terminate()
            assert process.wait(HANGS_SECONDS) == 0
    finally:
        os.close(writer)


def leads_nowhere(pid: int) -> bool:
    """Whether its standard output is discarded."""
    return Path(f"/proc/{pid}/fd/1").resolve() == Path(os.devnull)


def is_ready() -> bool:
    """Whether a service answers at the port."""
    try:
        return request("GET", f"http://127.0.0.1:{PORT}/readyz")[0] == 200
    except OSError:
        return False
