"""`paydesk code` and `paydesk clock`: what only `paydesk dev` offers."""

from __future__ import annotations

from typing import Annotated

import typer

from paydesk.commands.client import find, operators
from paydesk.commands.failure import WrongUsage
from paydesk.commands.options import AsJson, CredentialsFile, examples, group, show

clock = group("The clock of `paydesk dev`: stop it, or move it forward.")

CODE_EPILOG = examples(
    "paydesk code",
    "paydesk code --client-id 3676047501096810 --seller 1160535239 --scope 'read write'",
    "paydesk code --code-challenge E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM --code-challenge-method S256",
)


def code(
    client_id: Annotated[str | None, typer.Option(help="The application. [default: the demo application]")] = None,
    seller: Annotated[
        int | None, typer.Option(metavar="USER_ID", help="Who agrees. [default: the demo seller]")
    ] = None,
    redirect_uri: Annotated[str | None, typer.Option(help="One of the application's. [default: its first]")] = None,
    scope: Annotated[str | None, typer.Option(help="[default: all of the application's]")] = None,
    code_challenge: Annotated[str | None, typer.Option(help="43 characters of base64url.")] = None,
    code_challenge_method: Annotated[str | None, typer.Option(help="S256.")] = None,
    *,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Mint an authorization code, as if the seller had just agreed; it is valid for ten minutes."""
    document = find(credentials).document
    client_id = client_id or document.get("client_id")
    seller = seller or document.get("seller", {}).get("user_id")
    if not client_id or not seller:
        raise WrongUsage("Say which application and seller: --client-id and --seller.")
    answer = operators(credentials).post(
        "/operator/v1/codes",
        {
            "client_id": client_id,
            "user_id": seller,
            "redirect_uri": redirect_uri,
            "scope": scope,
            "code_challenge": code_challenge,
            "code_challenge_method": code_challenge_method,
        },
    )
    if as_json:
        show(answer, as_json=True)
    else:
        typer.echo(answer["code"])


@clock.command("freeze", epilog=examples("paydesk clock freeze"))
def freeze(*, as_json: AsJson = False, credentials: CredentialsFile = None) -> None:
    """Stop the clock where it is."""
    show(operators(credentials).post("/dev/clock", {"freeze": True}), as_json=as_json)


@clock.command(
    "advance",
    epilog=examples("paydesk clock advance 61s", "paydesk clock advance 15m", "paydesk clock advance 181d"),
)
def advance(
    by: Annotated[str, typer.Argument(help="How far: PT61S, 61s, 15m, 3h or 181d.")],
    *,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Move the clock forward, running or stopped."""
    show(operators(credentials).post("/dev/clock", {"advance": by}), as_json=as_json)


@clock.command("resume", epilog=examples("paydesk clock resume"))
def resume(*, as_json: AsJson = False, credentials: CredentialsFile = None) -> None:
    """Let a stopped clock run again from where it stands."""
    show(operators(credentials).post("/dev/clock", {"resume": True}), as_json=as_json)


@clock.command("show", epilog=examples("paydesk clock show --json"))
def show_clock(*, as_json: AsJson = False, credentials: CredentialsFile = None) -> None:
    """Read the clock."""
    show(operators(credentials).get("/dev/clock"), as_json=as_json)
