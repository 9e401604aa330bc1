"""`paydesk serve`, which runs the service in production."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from paydesk.commands.client.options import examples, top
from paydesk.commands.local.local import SettingsFile, fast_loop, import_structlog, load_settings, run

EPILOG = examples(
    "PAYDESK_SETTINGS=/etc/paydesk.toml paydesk serve",
    "paydesk serve --processes 4",
    "kill -HUP $PID    # new processes with the new version and settings, then the old ones drain",
    "paydesk serve --processes 4 --beside    # a new parent too: start it beside the old one, then SIGTERM the old one",
)


@top.command("serve", epilog=EPILOG)
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
    if inherit is None and processes is not None:
        from paydesk.platform.process import supervisor

        command = [sys.executable, "-P", "-m", "paydesk.commands.cli", "serve"]
        command += ["--settings", str(settings)] if settings is not None else []
        raise typer.Exit(run(supervisor.run(loaded, command, processes, beside=beside)))
    from paydesk.platform.process.listeners import Listeners
    from paydesk.service import serve as production

    inherited = Listeners.inherited(inherit) if inherit is not None else None
    run(production.run(loaded, beside=beside, processes=processes or 1, inherited=inherited), fast_loop())
