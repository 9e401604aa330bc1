"""`paydesk serve`, which runs the service in production."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from paydesk.commands.client.options import examples, top
from paydesk.commands.local.local import SettingsFile, fast_loop, import_structlog, load_settings, run

EPILOG = examples(
    "PAYDESK_SETTINGS=/etc/paydesk.toml paydesk serve",
    "paydesk serve --processes 4",
    "paydesk serve --wait-for-database 300    # in a container that starts beside its database",
    "kill -HUP $PID    # new processes with the new version and settings, then the old ones drain",
    "paydesk serve --processes 4 --beside    # a new parent too: start it beside the old one, then SIGTERM the old one",
)


WAIT, WAIT_SECONDS = "--wait-for-database", 60


class _Serve(TyperCommand):
    """The command, whose option `WAIT` may stand without its value: typer has no such options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Add the value."""
        pairs = zip(args, [*args[1:], ""], strict=False)
        return super().parse_args(
            ctx, [f"{WAIT}={WAIT_SECONDS}" if one == WAIT and not after.isdigit() else one for one, after in pairs]
        )


@top.command("serve", cls=_Serve, epilog=EPILOG)
def serve(
    settings: SettingsFile = None,
    *,
    processes: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Run N supervised processes on the same port; 0: one per core. Needs PostgreSQL. SIGHUP redeploys.",
            show_default="one, unsupervised",
        ),
    ] = None,
    beside: Annotated[
        bool,
        typer.Option(
            "--beside", help="Start while another `paydesk serve` listens on the same port; stop that one afterwards."
        ),
    ] = False,
    wait_for_database: Annotated[
        int,
        typer.Option(
            WAIT,
            min=0,
            metavar="[SECONDS]",
            help=f"First wait until the database can be reached and is migrated, for {WAIT_SECONDS} s by default.",
            show_default=False,
        ),
    ] = 0,
    inherit: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run the service in production.

    It refuses to start with settings that are for development only. On SIGTERM it completes open requests and accepts
    no new ones. With --processes, a process that exits is replaced.
    """
    loaded = load_settings(settings)
    import_structlog()
    from paydesk.platform.process import node

    node.keep_private()
    if wait_for_database:
        from paydesk.platform.process import database_wait

        run(database_wait.wait_for_database(loaded, wait_for_database))
    if inherit is None and processes is not None:
        from paydesk.platform.process import supervisor

        command = [*_this_program(), "serve"]
        command += ["--settings", str(settings)] if settings is not None else []
        raise typer.Exit(run(supervisor.run(loaded, command, processes, beside=beside)))
    from paydesk.platform.process.listeners import Listeners
    from paydesk.service import serve as production

    inherited = Listeners.inherited(inherit, processes or 1) if inherit is not None else None
    run(production.run(loaded, beside=beside, inherited=inherited), fast_loop())


def _this_program() -> list[str]:
    """Return the command that starts what is installed now: the path of this program may lead to a later version."""
    program = Path(sys.argv[0])
    if os.sep in sys.argv[0] and program.is_file() and os.access(program, os.X_OK):
        return [str(program.absolute())]
    return [sys.executable, "-P", "-m", "paydesk.commands"]
