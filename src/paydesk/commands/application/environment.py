"""`paydesk env`: the credentials as environment variables."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
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
REST_OF_PATH: Mapping[str, str] = {"sh": ':"$PATH"', "fish": " $PATH", "powershell": " + ':' + $env:PATH"}
"""The end of the line that puts a folder before the PATH, by shell."""


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

    The operator's token is not among them: `paydesk` reads it from the file, which PAYDESK_CREDENTIALS names. If the
    PATH does not lead to this `paydesk`, it gets a folder that has `paydesk` alone.
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
    lines = [SHELLS[shell](name, value) for name, value in variables.items()]
    if not as_json and (folder := _folder_for_path(path)):
        lines.append(SHELLS[shell]("PATH", str(folder)) + REST_OF_PATH[shell])
    show(variables, "\n".join(lines), as_json=as_json)


def _folder_for_path(credentials: Path) -> Path | None:
    """Return a folder beside the credentials that has `paydesk` alone; None if the PATH leads to this program already.

    The program's own folder may have a Python and other programs, which would take the place of the shell's. None also
    if the folder cannot be written; a message says so.
    """
    program, known = Path(sys.argv[0]).absolute(), shutil.which("paydesk")
    if program.name != "paydesk" or not program.is_file() or (known is not None and program.samefile(known)):
        return None
    folder = credentials.absolute().parent / "bin"
    link, fresh = folder / "paydesk", folder / f".{os.getpid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if not (link.exists() and link.samefile(program)):
            fresh.symlink_to(program)
            fresh.replace(link)  # At once: other shells may be using it.
    except OSError as error:
        note(f"The PATH is unchanged, because {folder} cannot be written: {error.strerror}.")
        return None
    return folder
