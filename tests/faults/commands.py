"""The subcommands of `python -m tests.faults`, one row each; a row's module is imported when it is called."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module

from rich.console import Console

COMMANDS: dict[str, tuple[str, str]] = {
    "chaos": ("faults.chaos_command", "kill, stop and cut nodes and their database under load, and hold it to account"),
    "power": ("faults.power_command", "cut the power of a machine with SQLite under load"),
    "fsync": ("faults.fsync_command", "fail SQLite's syncs under load, then cut the power too"),
    "kill": ("faults.kill_command", "kill a node on SQLite under load"),
    "model": ("faults.model_command", "orders against a model: clients at once, nodes that die, clocks that move"),
    "races": ("faults.races_command", "two deeds at once on one order, thousands of times, and what it comes to"),
    "recovery": ("faults.recovery_command", "kill a terminal and the service at each step of a payment"),
    "terminals": ("faults.terminals_command", "thousands of virtual terminals behind a flaky network"),
    "reboots": ("faults.reboots_command", "kill a service and its virtual terminals, and wait for each to sell again"),
    "webhooks": ("faults.webhooks_command", "kill the delivering process while most receivers fail"),
    "full-disk": ("faults.full_disk_command", "fill SQLite's disk, and make room again"),
}
"""Name → the module whose `main(arguments)` returns the exit status, and what it does."""


def main() -> int:
    """Run the subcommand that the first argument names."""
    name, *arguments = sys.argv[1:] or ["--help"]
    if name not in COMMANDS:
        console = Console()
        console.print("python -m tests.faults COMMAND …   (COMMAND --help says more)\n")
        for known, (_, what) in COMMANDS.items():
            console.print(f"  {known:<10} {what}")
        return 0 if name in ("--help", "-h") else 2
    run: Callable[[list[str]], int] = import_module(COMMANDS[name][0]).main
    return run(arguments)
