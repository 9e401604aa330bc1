"""Run the tests that have to do with time beside busy loops: `python -m tests.loaded`. All must pass in each round."""

from __future__ import annotations

import argparse
import ast
import contextlib
import multiprocessing
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
TIMED = {"advance", "monotonic", "sleep", "wait_for"}
"""A test that names one of these has to do with time; `clock.advance` moves only what is stored and compared."""


def timed_files() -> list[str]:
    """Return the test files that have to do with time, without those of the browser."""
    files = sorted(file for file in (ROOT / "tests").rglob("test_*.py") if "browser" not in file.parts)
    return [str(file.relative_to(ROOT)) for file in files if TIMED & set(_names(file))]


def _names(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute) and node.attr != "advance":
            yield node.attr


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep `count` processes busy until the end of the block."""
    processes = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def _spin() -> None:
    while True:
        pass


def main() -> int:
    """Run the rounds, and return 1 if any of them failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--busy", type=int, default=6, help="busy loops beside the tests (6)")
    parser.add_argument("--rounds", type=int, default=5, help="how often all is run (5)")
    parser.add_argument("--all", action="store_true", help="every test of `make test`, not only those of time")
    arguments = parser.parse_args()
    files = [] if arguments.all else timed_files()
    passed = 0
    with busy(arguments.busy):
        for number in range(1, arguments.rounds + 1):
            print(f"round {number} of {arguments.rounds}, beside {arguments.busy} busy loops", flush=True)  # noqa: T201
            command = [sys.executable, "-m", "pytest", "-n", "4", "--dist", "worksteal", "-q", "-m", "not slow", *files]
            passed += subprocess.run(command, cwd=ROOT, check=False).returncode == 0
    print(f"{passed} of {arguments.rounds} rounds passed")  # noqa: T201
    return 0 if passed == arguments.rounds else 1


if __name__ == "__main__":
    sys.exit(main())
