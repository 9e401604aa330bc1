"""The load: wrk in a process of its own, with a Lua script for each operation, and what the service spent meanwhile."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).with_name("wrk")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class WrkMissing(Exception):
    """There is no wrk on this machine; the message says how to get it."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One operation under one number of connections."""

    operation: str
    connections: int
    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    memory_mb: float
    requests: int


def measure(
    operation: str, connections: int, seconds: float, *, url: str, pid: int, seed: Path, first: int, run: int
) -> Measured:
    """Load `operation` for `seconds`; every request must be answered as it should."""
    before = cpu_seconds(pid)
    summary = _wrk(
        operation,
        connections,
        seconds,
        url,
        {"BENCH_SEED": str(seed), "BENCH_FIRST": str(first), "BENCH_RUN": str(run)},
    )
    spent = cpu_seconds(pid) - before
    assert not summary["refused"], f"{operation}: {summary['refused']} of {summary['requests']} were refused"
    assert not summary["broken"], f"{operation}: {summary['broken']} connections broke"
    return Measured(
        operation,
        connections,
        summary["requests"] / summary["seconds"],
        summary["p50_ms"],
        summary["p99_ms"],
        spent / summary["requests"] * 1e6,
        memory_mb(pid),
        summary["requests"],
    )


def _wrk(operation: str, connections: int, seconds: float, url: str, variables: dict[str, str]) -> dict[str, Any]:
    wrk = shutil.which("wrk")
    if wrk is None:
        raise WrkMissing("wrk is missing. Debian, Ubuntu: apt-get install wrk    macOS: brew install wrk")
    command = [wrk, "-t1", f"-c{connections}", f"-d{seconds:.0f}s", "--timeout", "30s"]
    ended = subprocess.run(
        [*command, "-s", str(SCRIPTS / f"{operation}.lua"), url],
        env={**os.environ, **variables, "BENCH_FOLDER": str(SCRIPTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    _, found, summary = ended.stdout.partition("SUMMARY ")
    assert found, ended.stdout + ended.stderr
    read: dict[str, Any] = json.loads(summary)
    return read


def cpu_seconds(pid: int) -> float:
    """What the process and its threads have spent, in user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def memory_mb(pid: int) -> float:
    """What the process holds in memory now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES / 1e6
