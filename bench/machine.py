"""A description of the machine on which the figures are measured."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import apsw

WRITES = 200
CALLS = 200_000
BLOCK = b"\0" * 8192


def description() -> dict[str, str]:
    """Return the properties of the machine by name."""
    folder = Path(tempfile.gettempdir())
    return {
        "Paydesk": paydesk(),
        "CPU": f"{_cpu()}, {len(os.sched_getaffinity(0))} cores",
        "Memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB",
        "Kernel": f"{platform.system()} {platform.release().partition('-')[0]}",
        "Disk": f"{_file_system(folder)}; a write of 8 KiB with fdatasync takes {fsync_ms(folder):.2f} ms (median)",
        "Python": _python(),
        "uvloop, uvicorn": f"{version('uvloop')}, {version('uvicorn')}",
        "SQLite": apsw.sqlite_lib_version(),
    }


def paydesk() -> str:
    """Return Paydesk's version, and the commit if this is a git checkout."""
    asked = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        commit = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return version("paydesk")
    return f"{version('paydesk')}, commit {commit}"


def _python() -> str:
    """Return Python's version and speed: builds of one version differ by a third."""
    return f"{platform.python_version()}; {CALLS:,} calls, each with a dict and a list made, take {calls_ms():.0f} ms"


def calls_ms() -> float:
    """Return the time of calls and small allocations: the median of five runs."""

    def called(number: int) -> dict[str, object]:
        return {"number": number, "some": [number]}

    taken = []
    for _ in range(5):
        began = time.perf_counter()
        for number in range(CALLS):
            called(number=number)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1000


def check() -> None:
    """Raise if the system has no /proc to inspect processes."""
    if not Path("/proc/self/stat").exists():
        sys.exit("The bench reads what processes spend from /proc, so it runs on Linux alone.")


def fsync_ms(folder: Path) -> float:
    """Return the median time of a small durable write."""
    taken = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(WRITES):
            began = time.perf_counter()
            file.write(BLOCK)
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1000


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "Model")):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(folder: Path) -> str:
    """Return the type of the databases' file system: that of the longest mount point above them."""
    mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines()]
    above = [(len(point), kind) for point, kind in mounts if folder.resolve().is_relative_to(point)]
    return max(above)[1] if above else "unknown"
