"""`paydesk env` and `console`: the credentials as environment variables, and the address that opens the console."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from paydesk.commands.credentials import credentials_path
from paydesk.commands.credentials_file import HOW_TO_RENEW, access_token, read_document, unattended_terminal
from paydesk.commands.failure import WrongUsage
from paydesk.commands.options import AsJson, CredentialsFile, examples, harmless, note, show, top

CONSOLE_EPILOG = examples("paydesk console", "paydesk console --credentials demo/credentials.json")
EPILOG = examples(
    'eval "$(paydesk env)"',
    'eval "$(paydesk env --live)"',
    "paydesk env --shell fish | source",
    "paydesk env --shell powershell | Out-String | Invoke-Expression",
    "paydesk env --json",
)
_POWERSHELL_QUOTES = "['\N{LEFT SINGLE QUOTATION MARK}-\N{SINGLE HIGH-REVERSED-9 QUOTATION MARK}]"
"""Any of these ends a text in single quotes; two of them are one in it."""

SHELLS: Mapping[str, Callable[[str, str], str]] = {
    "sh": lambda name, value: f"export {name}={shlex.quote(value)}",
    "fish": lambda name, value: "set -gx {} '{}'".format(name, value.replace("\\", "\\\\").replace("'", "\\'")),
    "powershell": lambda name, value: "$env:{} = '{}'".format(name, re.sub(_POWERSHELL_QUOTES, r"\g<0>\g<0>", value)),
}
"""The line that sets a variable, by shell."""


@top.command("env", epilog=EPILOG)
def env(
    *,
    live: Annotated[bool, typer.Option("--live", help="The live access token. [default: the test token]")] = False,
    shell: Annotated[
        Literal["sh", "fish", "powershell"],
        typer.Option(help="The shell that reads the lines; `sh` is for bash and zsh."),
    ] = "sh",
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Print the credentials as shell variables: address, token, application, seller, terminal.

    The operator's token is not among them: `paydesk` reads it from the file, which PAYDESK_CREDENTIALS names.
    """
    path = credentials_path(credentials)
    found = variables(read_document(path), path, live=live)
    if as_json:
        show(found, as_json=True)
        return
    if sys.stdout.isatty():
        note('These are secrets. To set them without printing them: eval "$(paydesk env)"')
    sys.stdout.writelines(f"{harmless(SHELLS[shell](name, value))}\n" for name, value in found.items())


def variables(document: Mapping[str, Any], path: Path, *, live: bool) -> dict[str, str]:
    """Return the variables that the file has values for. Raises `WrongUsage` without an address or an access token."""
    mode = "live" if live else "test"
    found = {
        "PAYDESK_CREDENTIALS": str(path.absolute()),
        "PAYDESK_BASE_URL": document.get("base_url"),
        "PAYDESK_TLS_BASE_URL": document.get("tls_base_url"),
        "PAYDESK_CA_FILE": document.get("ca_file"),
        "PAYDESK_ACCESS_TOKEN": access_token(document, live=live),
        "PAYDESK_CLIENT_ID": document.get("client_id"),
        "PAYDESK_CLIENT_SECRET": document.get("client_secret"),
        "PAYDESK_REDIRECT_URI": document.get("redirect_uri"),
        "PAYDESK_USER_ID": document.get("seller", {}).get("user_id"),
        "PAYDESK_TERMINAL_ID": unattended_terminal(document),
        "PAYDESK_WEBHOOK_SECRET": document.get("webhook", {}).get("secret"),
    }
    for name, member in (("PAYDESK_BASE_URL", "base_url"), ("PAYDESK_ACCESS_TOKEN", f"{mode}.access_token")):
        if not found[name]:
            raise WrongUsage(f"{path} has no `{member}`.", HOW_TO_RENEW)
    return {name: str(value) for name, value in found.items() if value}


@top.command("console", epilog=CONSOLE_EPILOG)
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
