"""`paydesk authorize-url`: the authorization URL to which an application sends a seller (RFC 6749 §4.1.1)."""

from __future__ import annotations

import base64
import hashlib
import secrets
import urllib.parse
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from paydesk.commands.client.client import given
from paydesk.commands.client.credentials import find_credentials
from paydesk.commands.client.failure import WrongUsage
from paydesk.commands.client.options import AsJson, CredentialsFile, examples, note, show, top

EPILOG = examples(
    "paydesk authorize-url",
    "paydesk authorize-url --pkce --scope read --json",
    "paydesk authorize-url --test-application",
    "paydesk authorize-url --client-id 3676047501096810 --redirect-uri https://shop.example/callback"
    " --base-url https://pay.example.com",
)


@top.command("authorize-url", epilog=EPILOG)
def authorize_url(  # noqa: PLR0913 - one parameter for each option
    client_id: Annotated[str | None, typer.Option(help="The application. [default: the demo application]")] = None,
    redirect_uri: Annotated[
        str | None, typer.Option(help="A redirect URI of the application. [default: the demo application's]")
    ] = None,
    scope: Annotated[str | None, typer.Option(help="The scopes. [default: all of the application's]")] = None,
    state: Annotated[str | None, typer.Option(help="The value returned with the code. [default: a random one]")] = None,
    base_url: Annotated[
        str | None, typer.Option(help="The public URL of the service. [default: the credentials' base_url]")
    ] = None,
    *,
    test_application: Annotated[
        bool, typer.Option("--test-application", help="For the demo application whose tokens are test tokens.")
    ] = False,
    pkce: Annotated[bool, typer.Option("--pkce", help="Add a challenge, and print its verifier.")] = False,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Print the URL where a seller signs in and consents; open it in a browser.

    Standard output has only the URL. Exchange the code from the redirect at POST /oauth/token.
    """
    loaded = find_credentials(credentials)
    application, second = loaded.document, loaded.document.get("test_application", {})
    if test_application and client_id:
        raise WrongUsage("--client-id and --test-application both name an application. Leave one of them out.")
    if test_application and not second:
        raise WrongUsage("The credentials have no test application. Start `paydesk dev` again, which adds one.")
    if test_application or (client_id and client_id == second.get("client_id")):
        application = second
    client_id = client_id or application.get("client_id")
    if not client_id:
        raise WrongUsage("The credentials name no application. Add --client-id.")
    if not redirect_uri and client_id == application.get("client_id"):
        redirect_uri = application.get("redirect_uri")
    if not redirect_uri:
        raise WrongUsage("The redirect URI is missing. Add --redirect-uri with a registered URI of the application.")
    verifier = challenge = None
    if pkce:
        # RFC 7636 §4.2.
        verifier = secrets.token_urlsafe(32)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    parameters = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "scope": scope,
        "state": secrets.token_urlsafe(12) if state is None else state,
        "code_challenge": challenge,
        "code_challenge_method": challenge and "S256",
    }
    url = address(base_url or loaded.base_url, parameters)
    shown = {"url": url, "state": parameters["state"], "code_verifier": verifier, "code_challenge": challenge}
    show(given(shown), url, as_json=as_json)
    if pkce and not as_json:
        note(f"code_verifier   {verifier}   (send it when the code is exchanged)")
        note(f"code_challenge  {challenge}   (in the URL)")


def address(base_url: str, parameters: Mapping[str, Any]) -> str:
    """Return the authorization URL with the parameters that are not None."""
    query = urllib.parse.urlencode(given(parameters), quote_via=urllib.parse.quote, safe="")
    return f"{base_url.rstrip('/')}/authorization?{query}"
