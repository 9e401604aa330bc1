"""`paydesk apps` and `grants`: applications and their authorizations."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from paydesk.commands.client import Answer, Service, changes, segment
from paydesk.commands.command import command
from paydesk.commands.lists import add_list
from paydesk.commands.options import group, note, show_list

app = group("Applications, the OAuth clients of the service.")
secrets = group("The client secrets of an application; several can be valid at once.")
app.add_typer(secrets, name="secrets")
grants = add_list(group("Grants: which applications may act for which sellers."), "grants")

SECRET_COLUMNS = ("id", "created_date", "expires_date")
PATH = "/operator/v1/applications"
SECRET_SHOWN_ONCE = "The client_secret is not stored and cannot be shown again."  # noqa: S105 - a sentence

ClientId = Annotated[str, typer.Argument(metavar="CLIENT_ID", help="The application, see `paydesk apps list`.")]
SecretId = Annotated[
    str, typer.Argument(metavar="SECRET_ID", help="The secret, see `paydesk apps secrets list CLIENT_ID`.")
]
ON_REPLAY = typer.Option(
    metavar="revoke|refuse", help="On a replayed refresh token: revoke its family, or only refuse it."
)


@command(
    app,
    "create",
    "paydesk apps create --name 'Corner shop' --redirect-uri https://shop.example/callback",
    "paydesk apps create --name Kiosk --redirect-uri http://127.0.0.1:3000/cb --pkce-required --json",
    "paydesk apps create --name 'Shop tests' --redirect-uri https://test.shop.example/callback --test-tokens",
)
def create(
    service: Service,
    name: Annotated[str, typer.Option(help="The name that sellers see on the consent page.")],
    redirect_uri: Annotated[
        list[str],
        typer.Option(
            help="Where codes are sent: https, or in `paydesk dev` http to this machine; may be given several times."
        ),
    ],
    scope: Annotated[
        str, typer.Option(help="The scopes that it may request, separated by spaces.")
    ] = "offline_access read write",
    *,
    pkce_required: Annotated[bool, typer.Option("--pkce-required", help="Require PKCE.")] = False,
    on_replay: Annotated[str, ON_REPLAY] = "revoke",
    test_tokens: Annotated[
        bool, typer.Option("--test-tokens", help="Return test tokens to a client that does not send `test_token`.")
    ] = False,
) -> tuple[Answer, str]:
    """Register an application and print its secret, which is shown only once."""
    body = {
        "name": name,
        "redirect_uris": redirect_uri,
        "scopes": scope,
        "pkce_required": pkce_required,
        "on_replay": on_replay,
        "test_tokens": test_tokens,
    }
    return service.post(PATH, body), SECRET_SHOWN_ONCE


add_list(app, "applications")


@command(app, "show", "paydesk apps show 3676047501096810 --json")
def show_one(service: Service, client_id: ClientId) -> Answer:
    """Show an application with the ids and dates of its secrets."""
    return service.get(f"{PATH}/{segment(client_id)}")


@command(
    app,
    "change",
    "paydesk apps change 3676047501096810 --name 'Corner shop'",
    "paydesk apps change 3676047501096810 --redirect-uri https://shop.example/a --redirect-uri https://shop.example/b",
    "paydesk apps change 3676047501096810 --pkce-required --on-replay refuse",
    "paydesk apps change 3676047501096810 --test-tokens on",
)
def change(
    service: Service,
    client_id: ClientId,
    *,
    name: Annotated[str | None, typer.Option(help="The name that sellers see on the consent page.")] = None,
    redirect_uri: Annotated[
        list[str] | None,
        typer.Option(help="Where codes are sent; replaces all registered URIs; may be given several times."),
    ] = None,
    scope: Annotated[str | None, typer.Option(help="The scopes that it may request, separated by spaces.")] = None,
    pkce_required: Annotated[
        bool | None, typer.Option("--pkce-required/--pkce-optional", help="Whether PKCE is required.")
    ] = None,
    on_replay: Annotated[str | None, ON_REPLAY] = None,
    test_tokens: Annotated[
        Literal["on", "off"] | None,
        typer.Option(metavar="on|off", help="Whether a client that does not send `test_token` gets test tokens."),
    ] = None,
) -> Answer:
    """Change only the given fields. Codes that were sent to a removed redirect URI become invalid."""
    changed = changes(
        name=name,
        redirect_uris=redirect_uri,
        scopes=scope,
        pkce_required=pkce_required,
        on_replay=on_replay,
        test_tokens=None if test_tokens is None else test_tokens == "on",
    )
    return service.request("PATCH", f"{PATH}/{segment(client_id)}", changed)


@command(app, "suspend", "paydesk apps suspend 3676047501096810")
def suspend(service: Service, client_id: ClientId) -> tuple[Answer, str]:
    """Suspend an application: it gets no tokens, and its tokens are refused."""
    suspended = service.post(f"{PATH}/{segment(client_id)}/suspend")
    return suspended, f"Its tokens are now refused. Resume it with `paydesk apps resume {client_id}`."


@command(app, "resume", "paydesk apps resume 3676047501096810")
def resume(service: Service, client_id: ClientId) -> Answer:
    """Resume a suspended application; its tokens are accepted again."""
    return service.post(f"{PATH}/{segment(client_id)}/resume")


@command(app, "delete", "paydesk apps delete 3676047501096810")
def delete(service: Service, client_id: ClientId) -> Answer:
    """Delete an application without subscriptions, valid grants and orders; one with orders can be suspended."""
    service.request("DELETE", f"{PATH}/{segment(client_id)}")
    return {"client_id": client_id, "deleted": True}


@command(
    secrets,
    "add",
    "paydesk apps secrets add 3676047501096810 --others-expire-in 24h",
    "paydesk apps secrets add 3676047501096810 --others-expire-in 0s --json",
)
def add_secret(
    service: Service,
    client_id: ClientId,
    *,
    others_expire_in: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="How long the other secrets stay valid: 24h, 30m, 7d, 0s. [default: until they are removed]",
        ),
    ] = None,
) -> tuple[Answer, str]:
    """Add a secret and print it; it is shown only once. The others stay valid for the given time."""
    body = {"others_expire_in": others_expire_in}
    return service.post(f"{PATH}/{segment(client_id)}/secrets", body), SECRET_SHOWN_ONCE


@command(secrets, "list", "paydesk apps secrets list 3676047501096810 --json")
def list_secrets(service: Service, client_id: ClientId, *, as_json: bool) -> None:
    """List the ids, creation dates and expiry dates of an application's secrets."""
    answer = service.get(f"{PATH}/{segment(client_id)}")
    show_list({"data": answer["secrets"]}, SECRET_COLUMNS, as_json=as_json)


@command(secrets, "remove", "paydesk apps secrets remove 3676047501096810 01J67CQQH5904WDBVZEM4JMEP3")
def remove_secret(service: Service, client_id: ClientId, secret_id: SecretId, *, as_json: bool) -> None:
    """Remove a secret at once; the last one can be removed too."""
    answer = service.request("DELETE", f"{PATH}/{segment(client_id)}/secrets/{segment(secret_id)}")
    show_list({"data": answer["secrets"]}, SECRET_COLUMNS, as_json=as_json)
    if not answer["secrets"]:
        note(f"The application has no secret left and gets no tokens. Add one: `paydesk apps secrets add {client_id}`.")


GrantId = Annotated[str, typer.Argument(metavar="GRANT_ID", help="The grant's id, see `paydesk grants list`.")]


@command(grants, "show", "paydesk grants show 01J67CQQH5904WDBVZEM4JMEP3-1160535239 --json")
def show_grant(service: Service, grant_id: GrantId) -> Answer:
    """Show a grant."""
    return service.get(f"/operator/v1/grants/{segment(grant_id)}")


@command(grants, "revoke", "paydesk grants revoke 01J67CQQH5904WDBVZEM4JMEP3-1160535239")
def revoke_grant(service: Service, grant_id: GrantId) -> Answer:
    """Withdraw a grant on its seller's behalf. Its tokens are refused at once; open orders continue. Repeatable."""
    service.request("DELETE", f"/operator/v1/grants/{segment(grant_id)}")
    return {"id": grant_id.upper(), "withdrawn": True}
