"""`paydesk env`: the credentials as environment variables."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Literal

import typer

from paydesk.commands.client.credentials import credentials_path
from paydesk.commands.client.credentials_file import HOW_TO_RENEW, access_token, read_document, unattended_terminal
from paydesk.commands.client.failure import WrongUsage
from paydesk.commands.client.options import AsJson, CredentialsFile, examples, note, show, top

EPILOG = examples(
    'eval "$(paydesk env)"',
    'eval "$(paydesk env --live)"',
    "paydesk env --shell fish | source",
    "paydesk env --shell powershell | Out-String | Invoke-Expression",
    "paydesk env --json",
)
_POWERSHELL_QUOTES = "['\N{LEFT SINGLE QUOTATION MARK}-\N{SINGLE HIGH-REVERSED-9 QUOTATION MARK}]"
"""The quotes that end a text in single quotes; two of them are one in it."""

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
    document, mode = read_document(path), "live" if live else "test"
    values = {
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
        if not values[name]:
            raise WrongUsage(f"{path} has no `{member}`.", HOW_TO_RENEW)
    variables = {name: str(value) for name, value in values.items() if value}
    if sys.stdout.isatty() and not as_json:
        note('These are secrets. To set them without printing them: eval "$(paydesk env)"')
    show(variables, "\n".join(SHELLS[shell](name, value) for name, value in variables.items()), as_json=as_json)
