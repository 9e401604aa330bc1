"""`paydesk code` and `paydesk clock`, for `paydesk dev` only."""

from __future__ import annotations

from typing import Annotated

import typer

from paydesk.commands.client import find_credentials, operator_service
from paydesk.commands.failure import WrongUsage
from paydesk.commands.options import AsJson, CredentialsFile, examples, group, show

clock = group("The clock of `paydesk dev`: stop it, or advance it.")

CODE_EPILOG = examples(
    "paydesk code",
    "paydesk code --client-id 3676047501096810 --seller 1160535239 --scope 'read write'",
    "paydesk code --code-challenge E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM --code-challenge-method S256",
)


def code(
    client_id: Annotated[str | None, typer.Option(help="The application. [default: the demo application]")] = None,
    seller: Annotated[
        int | None, typer.Option(metavar="USER_ID", help="The seller who consents. [default: the demo seller]")
    ] = None,
    redirect_uri: Annotated[
        str | None, typer.Option(help="A redirect URI of the application. [default: its first]")
    ] = None,
    scope: Annotated[str | None, typer.Option(help="The scopes. [default: all of the application's]")] = None,
    code_challenge: Annotated[str | None, typer.Option(help="The PKCE challenge, 43 characters of base64url.")] = None,
    code_challenge_method: Annotated[str | None, typer.Option(help="S256, the only method.")] = None,
    *,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Issue an authorization code without a browser; it is valid for ten minutes."""
    document = find_credentials(credentials).document
    client_id = client_id or document.get("client_id")
    seller = seller or document.get("seller", {}).get("user_id")
    if not client_id or not seller:
        raise WrongUsage("The credentials name no application and seller. Add --client-id and --seller.")
    answer = operator_service(credentials).post(
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
    """Stop the clock."""
    show(operator_service(credentials).post("/dev/clock", {"freeze": True}), as_json=as_json)


@clock.command(
    "advance",
    epilog=examples("paydesk clock advance 61s", "paydesk clock advance 15m", "paydesk clock advance 181d"),
)
def advance(
    by: Annotated[str, typer.Argument(help="The duration: PT61S, 61s, 15m, 3h or 181d.")],
    *,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Advance the clock, running or stopped."""
    show(operator_service(credentials).post("/dev/clock", {"advance": by}), as_json=as_json)


@clock.command("resume", epilog=examples("paydesk clock resume"))
def resume(*, as_json: AsJson = False, credentials: CredentialsFile = None) -> None:
    """Restart a stopped clock from its current time."""
    show(operator_service(credentials).post("/dev/clock", {"resume": True}), as_json=as_json)


@clock.command("show", epilog=examples("paydesk clock show --json"))
def show_clock(*, as_json: AsJson = False, credentials: CredentialsFile = None) -> None:
    """Show the time of the clock."""
    show(operator_service(credentials).get("/dev/clock"), as_json=as_json)
