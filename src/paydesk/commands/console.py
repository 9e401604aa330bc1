"""`paydesk console`: the address that opens the console of the development service."""

from __future__ import annotations

import typer

from paydesk.commands.credentials import credentials_path
from paydesk.commands.credentials_file import read_document
from paydesk.commands.failure import WrongUsage
from paydesk.commands.options import AsJson, CredentialsFile, examples, show

EPILOG = examples("paydesk console", "paydesk console --credentials demo/credentials.json")


def console(*, as_json: AsJson = False, credentials: CredentialsFile = None) -> None:
    """Print the address that opens the console of `paydesk dev`, signed in as its operator.

    It is valid while that service runs. Elsewhere sign in at the service's `/console`.
    """
    path = credentials_path(credentials)
    url = read_document(path).get("console_url")
    if url is None:
        raise WrongUsage(
            f"The credentials file {path} has no address of a console: it is not from a running `paydesk dev`.",
            "Start `paydesk dev`, or name the file that it writes with --credentials.",
        )
    if as_json:
        show({"console_url": url}, as_json=True)
    else:
        typer.echo(url)
