"""`paydesk dev` and `paydesk serve`: the service itself."""

from __future__ import annotations

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
SERVE_EPILOG = examples("PAYDESK_SETTINGS=/etc/paydesk.toml paydesk serve")


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
    from paydesk import dev as development

    options = development.Options(host, port, data, credentials or data / "credentials.json")
    settings = load_settings(**development.overrides(given, options))
    run(development.run(options, settings))


def serve(settings: SettingsFile = None) -> None:
    """Run the service in production. Refuses to start with anything that is for development only."""
    given = load_settings(settings)
    from paydesk import serve as production

    run(production.run(given))
