"""`paydesk …` as a process that is forked from one that has imported it, as `forks` does: a fifth of a start's work.

It is a process of its own with its arguments, variables, folder, output, signals and exit code. That a fresh
interpreter can import what it needs is shown by `make run`, the processes of `paydesk serve --processes`, and shells.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from paydesk.commands import __main__, cli

for module in (
    *("aiohttp", "argon2", "uvloop"),
    *("paydesk_dev.tls.certificates", "paydesk_dev.dev.service", "paydesk.service.serve"),
    *("paydesk_dev.virtual.simulation", "paydesk.platform.process.supervisor"),
    *("paydesk.engine.webhooks.delivery.notice",),
):
    import_module(module)
cli.tree()


def main(arguments: Sequence[str]) -> None:
    """Run the command; its exit code is that of the process."""
    sys.argv = ["paydesk", *arguments]
    __main__.main()
