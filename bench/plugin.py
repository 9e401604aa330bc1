"""`python -m bench.plugin`: measure what a test of a till costs with the plugin of pytest, one step after the other."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from os import getloadavg
from pathlib import Path

from rich.console import Console
from rich.table import Table

from paydesk_dev.testing.paydesk import Paydesk
from paydesk_dev.testing.service import Service

STEPS, SALES = 200, 100
WAIT_SECONDS = 10.0
IMPORT = """
import sys, time, pytest
before, began = set(sys.modules), time.perf_counter()
import paydesk_dev.testing.plugin
print(time.perf_counter() - began, len(set(sys.modules) - before))
"""


def main() -> None:
    """Print a table of durations with the load of the machine."""
    table = Table("", "median", "p99", "asked")
    seconds, modules = zip(*(_imported() for _ in range(11)), strict=True)
    table.add_row(f"import of the plugin, {modules[0]} modules", *_milliseconds(list(seconds)), "2 ms, 3 modules")
    with tempfile.TemporaryDirectory() as folder:
        service = Service.start(Path(folder))
        try:
            used = _cpu_seconds(service)
            table.add_row("CPU until `--bare` is ready", f"{used:.2f} s", "", "1.0 s")
            scenes = _timed(STEPS, lambda: Paydesk.create_in(service, WAIT_SECONDS))
            table.add_row("scene", *_milliseconds(scenes), "p99 20 ms")
            paydesk = Paydesk.create_in(service, WAIT_SECONDS)
            table.add_row("private terminal", *_milliseconds(_timed(STEPS, paydesk.terminal)), "p99 50 ms")
            paydesk.close()
            table.add_row("paid sale", *_milliseconds(_timed(SALES, _sale(service))), "median 150 ms")
        finally:
            service.stop()
    Console(width=110).print(table, f"load {getloadavg()[0]:.1f}")


def _sale(service: Service) -> Callable[[], None]:
    """Return what a test does with one sale, without its scene and terminal."""
    paydesk = Paydesk.create_in(service, WAIT_SECONDS)
    terminal = paydesk.terminal()

    def sell() -> None:
        terminal.will.tap()
        paydesk.wait_for("processed", paydesk.create(terminal))

    return sell


def _imported() -> tuple[float, int]:
    ended = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True)
    seconds, modules = ended.stdout.split()
    return float(seconds), int(modules)


def _cpu_seconds(service: Service) -> float:
    """Return the processor time of the service's process until now."""
    assert service._process is not None, "it was started here"  # noqa: SLF001 - the bench reads its own process
    fields = Path(f"/proc/{service._process.pid}/stat").read_text().rpartition(")")[2].split()  # noqa: SLF001
    return (int(fields[11]) + int(fields[12])) / 100


def _timed(count: int, step: Callable[[], object]) -> list[float]:
    seconds = []
    for _ in range(count):
        began = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - began)
    return seconds


def _milliseconds(seconds: list[float]) -> tuple[str, str]:
    p99 = sorted(seconds)[int(len(seconds) * 0.99)]
    return f"{statistics.median(seconds) * 1000:.1f} ms", f"{p99 * 1000:.1f} ms"


if __name__ == "__main__":
    main()
