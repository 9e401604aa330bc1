"""Run wrk with a Lua script for each operation, and measure the CPU time of the servers meanwhile."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).with_name("wrk")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
STALLS_MAX = 3
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class BenchError(Exception):
    """The benchmark cannot continue; the message says why and what to do."""


class WrkMissing(BenchError):
    """wrk is not installed; the message says how to install it."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of one operation and number of connections; `postgres_us` is PostgreSQL's CPU time per request."""

    operation: str
    connections: int
    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float | None
    memory_mb: float | None
    requests: int
    postgres_us: float | None = None


def measure(
    operation: str, connections: int, seconds: float, *, url: str, pid: int, seed: Path, **numbers: float
) -> Measured:
    """Load `operation` for `seconds`; `numbers` are for its script. Raises `BenchError` for an unexpected response."""
    variables = {"BENCH_SEED": str(seed), **{f"BENCH_{name.upper()}": f"{it:.0f}" for name, it in numbers.items()}}
    for _ in range(STALLS_MAX):
        before = cpu_seconds(pid)
        summary = _wrk(operation, connections, seconds, url, variables)
        spent = cpu_seconds(pid) - before
        # A machine that was suspended during the run has measured nothing.
        if summary["requests"]:
            break
        sys.stderr.write(f"{operation} from {connections}: nothing was answered for {seconds:.0f} s.\n")
    if summary["refused"] or summary["broken"] or not summary["requests"]:
        raise BenchError(
            f"{operation} from {connections}: of {summary['requests']} requests {summary['refused']} were answered"
            f" otherwise than they should be, {summary['broken']} connections broke. {summary['complaint']}"
        )
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


def find_wrk() -> str:
    """Return the path of wrk. Raises `WrkMissing`."""
    wrk = shutil.which("wrk")
    if wrk is None:
        raise WrkMissing("wrk is missing. Debian, Ubuntu: apt-get install wrk    macOS: brew install wrk")
    return wrk


def _wrk(operation: str, connections: int, seconds: float, url: str, variables: dict[str, str]) -> dict[str, Any]:
    command = [find_wrk(), "-t1", f"-c{connections}", f"-d{seconds:.0f}s", "--timeout", "30s"]
    ended = subprocess.run(
        [*command, "-s", str(SCRIPTS / f"{operation}.lua"), url],
        env={**os.environ, **variables, "BENCH_FOLDER": str(SCRIPTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    _, found, summary = ended.stdout.partition("SUMMARY ")
    if not found:
        raise BenchError(f"{operation} from {connections}: wrk failed: {ended.stdout}{ended.stderr}")
    return {**json.loads(summary), "complaint": ended.stderr.strip()}


def cpu_seconds(pid: int) -> float:
    """Return the user and system CPU seconds of the process."""
    user, system, *_ = _times(pid)
    return (user + system) / TICKS_PER_SECOND


def family_cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of the process and of its children, including ended ones."""
    spent = 0
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        # A child that ends meanwhile is included in its parent's times.
        with suppress(FileNotFoundError, ProcessLookupError):
            spent += sum(_times(int(child))[:2])
    return (spent + sum(_times(pid))) / TICKS_PER_SECOND


def _times(pid: int) -> list[int]:
    """Return user and system time, and both of ended children, in ticks."""
    return [int(field) for field in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]]


def memory_mb(pid: int) -> float:
    """Return the memory of the process in MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES / 1e6
