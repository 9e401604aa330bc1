"""A stopped PostgreSQL: connections stay open, the system accepts new ones, and nothing answers."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from postgres_server import PostgresServer


@contextlib.contextmanager
def stopped(server: PostgresServer) -> Iterator[None]:
    """SIGSTOP to the server and all its processes; at the end of the block it goes on."""
    folder = Path(parse_qs(urlsplit(server.url("postgres")).query)["host"][0])
    postmaster = int((folder / "postmaster.pid").read_text().splitlines()[0])
    processes = [postmaster]
    _signal(processes, signal.SIGSTOP)
    processes += _children(postmaster)
    _signal(processes[1:], signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(processes, signal.SIGCONT)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _signal(processes: list[int], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)
