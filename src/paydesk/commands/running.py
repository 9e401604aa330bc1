"""`paydesk dev` and `paydesk serve`: the service itself."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from paydesk.commands.local import SettingsFile, load_settings, run
from paydesk.commands.options import examples

DEV_EPILOG = examples(
    "paydesk dev",
    "paydesk dev --port 0 --data /var/tmp/paydesk --credentials credentials.json",
    "PAYDESK_DATABASE_URL=postgresql://me@localhost/paydesk paydesk dev",
)
SERVE_EPILOG = examples(
    "PAYDESK_SETTINGS=/etc/paydesk.toml paydesk serve",
    "paydesk serve --processes 4",
    "kill -HUP $PID    # new processes with the new version and settings, then the old ones drain",
    "paydesk serve --processes 4 --beside    # a new parent too: start it beside the old one, then SIGTERM the old one",
)


def dev(
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0 takes a free one.")] = 8377,
    data: Annotated[
        Path, typer.Option(file_okay=False, help="Where everything is kept; kept from one start to the next.")
    ] = Path(".paydesk"),
    credentials: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="Where to write the credentials. [default: credentials.json in the data]"),
    ] = None,
) -> None:
    """Run everything on this machine: service, database, workers, three virtual terminals, a webhook inbox.

    Prints `paydesk ready http://127.0.0.1:8377` once it answers, and writes a file with all that a client needs.
    Ctrl-C stops it; started again it goes on where it was.
    """
    given = load_settings()
    _import_structlog()
    from paydesk.dev import service as development

    options = development.Options(host, port, data, credentials or data / "credentials.json")
    settings = load_settings(**development.overrides(given, options))
    run(development.run(options, settings), _fast_loop())


def serve(
    settings: SettingsFile = None,
    *,
    processes: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="So many processes on the same port, supervised; 0 is one a core. Needs PostgreSQL. SIGHUP deploys.",
            show_default="one, unsupervised",
        ),
    ] = None,
    beside: Annotated[
        bool, typer.Option("--beside", help="Start although another `paydesk serve` listens there: end that one then.")
    ] = False,
    inherit: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run the service in production. Refuses to start with anything that is for development only.

    SIGTERM ends it: what is under way is answered, nothing new is let in. A process that dies is replaced.
    """
    given = load_settings(settings)
    _import_structlog()
    if inherit is None and processes is not None:
        from paydesk import supervisor

        command = [sys.executable, "-P", "-m", "paydesk.cli", "serve"]
        command += ["--settings", str(settings)] if settings is not None else []
        raise typer.Exit(run(supervisor.run(given, command, processes, beside=beside)))
    from paydesk import serve as production
    from paydesk.listeners import Listeners

    listeners = Listeners.inherited(inherit) if inherit is not None else None
    run(production.run(given, beside=beside, inherited=listeners), _fast_loop())


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # There is none for every system.
        return None
    return uvloop.new_event_loop


def _import_structlog() -> None:
    """Import it without rich: it would read all of it for tracebacks that look better, and the logs' are plain."""
    if "rich" not in sys.modules:
        sys.modules["rich"] = None  # type: ignore[assignment]  # as a module that is not there
        import_module("structlog")
        del sys.modules["rich"]
