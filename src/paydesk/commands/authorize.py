"""`paydesk authorize-url`: the address to which an application sends a seller who shall sign in and agree."""

from __future__ import annotations

import base64
import hashlib
import secrets
import urllib.parse
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from paydesk.commands.client import find
from paydesk.commands.failure import WrongUsage
from paydesk.commands.options import AsJson, CredentialsFile, examples, note, show

EPILOG = examples(
    "paydesk authorize-url",
    "paydesk authorize-url --pkce --scope read --json",
    "paydesk authorize-url --client-id 3676047501096810 --redirect-uri https://shop.example/callback"
    " --base-url https://pay.example.com",
)


def authorize_url(
    client_id: Annotated[str | None, typer.Option(help="The application. [default: the demo application]")] = None,
    redirect_uri: Annotated[
        str | None, typer.Option(help="One of the application's. [default: the demo application's]")
    ] = None,
    scope: Annotated[str | None, typer.Option(help="[default: all of the application's]")] = None,
    state: Annotated[str | None, typer.Option(help="What comes back with the code. [default: a random one]")] = None,
    base_url: Annotated[
        str | None, typer.Option(help="Where sellers reach the service. [default: the credentials' base_url]")
    ] = None,
    *,
    pkce: Annotated[bool, typer.Option("--pkce", help="With a challenge; its verifier is told too.")] = False,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Print the address where a seller signs in and agrees; open it in a browser.

    The address stands alone on standard output. The code it leads to is exchanged at POST /oauth/token.
    """
    known = find(credentials)
    demo = known.document.get("client_id")
    chosen = client_id or demo
    if not chosen:
        raise WrongUsage("Say which application: --client-id.")
    back = redirect_uri or (known.document.get("redirect_uri") if chosen == demo else None)
    if not back:
        raise WrongUsage(
            "Say where the code shall be sent: --redirect-uri, an address of the application, as registered."
        )
    verifier = secrets.token_urlsafe(32) if pkce else None
    asked = {
        "response_type": "code",
        "client_id": chosen,
        "redirect_uri": back,
        "scope": scope,
        "state": secrets.token_urlsafe(12) if state is None else state,
        "code_challenge": verifier and challenge_of(verifier),
        "code_challenge_method": verifier and "S256",
    }
    url = address(base_url or known.base_url, asked)
    if as_json:
        told = {
            "url": url,
            "state": asked["state"],
            "code_verifier": verifier,
            "code_challenge": asked["code_challenge"],
        }
        show({name: value for name, value in told.items() if value is not None}, as_json=True)
        return
    typer.echo(url)
    if verifier:
        note(f"code_verifier   {verifier}   (sent when the code is exchanged)")
        note(f"code_challenge  {asked['code_challenge']}   (in the address)")


def address(base_url: str, asked: Mapping[str, Any]) -> str:
    """The authorization page's address with the parameters that are asked; None leaves one out."""
    given = {name: value for name, value in asked.items() if value is not None}
    query = urllib.parse.urlencode(given, quote_via=urllib.parse.quote, safe="")
    return f"{base_url.rstrip('/')}/authorization?{query}"


def challenge_of(verifier: str) -> str:
    """The challenge of a verifier by S256 (RFC 7636 section 4.2)."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
