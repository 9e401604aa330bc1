"""`paydesk apps`: the applications that act for sellers."""

from __future__ import annotations

from typing import Annotated

import typer

from paydesk.commands.client import changes, operators, segment
from paydesk.commands.options import After, AsJson, CredentialsFile, Limit, examples, group, note, show, show_list

app = group("Applications: who may ask for tokens.")
secrets = group("The secrets with which an application proves who it is: several are good beside each other.")
app.add_typer(secrets, name="secrets")

COLUMNS = ("client_id", "name", "redirect_uris", "scopes", "pkce_required", "created_date", "suspended_date")
SECRET_COLUMNS = ("id", "created_date", "expires_date")
PATH = "/operator/v1/applications"

ClientId = Annotated[str, typer.Argument(metavar="CLIENT_ID", help="Which application, of `paydesk apps list`.")]
SecretId = Annotated[
    str, typer.Argument(metavar="SECRET_ID", help="Which secret, of `paydesk apps secrets list CLIENT_ID`.")
]
OnReplay = Annotated[
    str, typer.Option(metavar="revoke|refuse", help="What a replayed refresh token does to its family.")
]


@app.command(
    "create",
    epilog=examples(
        "paydesk apps create --name 'Corner shop' --redirect-uri https://shop.example/callback",
        "paydesk apps create --name Kiosk --redirect-uri http://127.0.0.1:3000/cb --pkce-required --json",
    ),
)
def create(
    name: Annotated[str, typer.Option(help="What sellers read when they are asked to agree.")],
    redirect_uri: Annotated[
        list[str],
        typer.Option(
            help="Where codes are sent: https, or in `paydesk dev` http to this machine; may be given several times."
        ),
    ],
    scope: Annotated[
        str, typer.Option(help="Scopes that it may ask for, separated by spaces.")
    ] = "offline_access read write",
    *,
    pkce_required: Annotated[bool, typer.Option("--pkce-required", help="Refuse codes without a challenge.")] = False,
    on_replay: OnReplay = "revoke",
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Register an application. Its secret is shown once, now."""
    answer = operators(credentials).post(
        PATH,
        {
            "name": name,
            "redirect_uris": redirect_uri,
            "scopes": scope,
            "pkce_required": pkce_required,
            "on_replay": on_replay,
        },
    )
    show(answer, as_json=as_json)
    note("The client_secret is not kept and can't be shown again.")


@app.command("list", epilog=examples("paydesk apps list", "paydesk apps list --json"))
def list_(
    *, limit: Limit = 200, after: After = None, as_json: AsJson = False, credentials: CredentialsFile = None
) -> None:
    """List the applications."""
    answer = operators(credentials).get(PATH, {"limit": limit, "after": after})
    show_list(answer, COLUMNS, as_json=as_json)


@app.command("show", epilog=examples("paydesk apps show 3676047501096810 --json"))
def show_one(client_id: ClientId, *, as_json: AsJson = False, credentials: CredentialsFile = None) -> None:
    """Show an application, with what is known of its secrets."""
    show(operators(credentials).get(f"{PATH}/{segment(client_id)}"), as_json=as_json)


@app.command(
    "change",
    epilog=examples(
        "paydesk apps change 3676047501096810 --name 'Corner shop'",
        "paydesk apps change 3676047501096810 --redirect-uri https://shop.example/a --redirect-uri https://shop.example/b",
        "paydesk apps change 3676047501096810 --pkce-required --on-replay refuse",
    ),
)
def change(
    client_id: ClientId,
    *,
    name: Annotated[str | None, typer.Option(help="What sellers read when they are asked to agree.")] = None,
    redirect_uri: Annotated[
        list[str] | None,
        typer.Option(help="Where codes are sent, in place of all that there were; may be given several times."),
    ] = None,
    scope: Annotated[str | None, typer.Option(help="Scopes that it may ask for, separated by spaces.")] = None,
    pkce_required: Annotated[
        bool | None, typer.Option("--pkce-required/--pkce-optional", help="Whether codes need a challenge.")
    ] = None,
    on_replay: OnReplay | None = None,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Change what is given, and nothing else. An address that is taken away ends the codes that were sent there."""
    changed = changes(
        name=name, redirect_uris=redirect_uri, scopes=scope, pkce_required=pkce_required, on_replay=on_replay
    )
    show(operators(credentials).request("PATCH", f"{PATH}/{segment(client_id)}", changed), as_json=as_json)


@app.command("suspend", epilog=examples("paydesk apps suspend 3676047501096810"))
def suspend(client_id: ClientId, *, as_json: AsJson = False, credentials: CredentialsFile = None) -> None:
    """Give it no tokens any more, and stop those that it has."""
    show(operators(credentials).post(f"{PATH}/{segment(client_id)}/suspend", {}), as_json=as_json)
    note(f"Its tokens are refused from now on. `paydesk apps resume {client_id}` lets it go on.")


@app.command("resume", epilog=examples("paydesk apps resume 3676047501096810"))
def resume(client_id: ClientId, *, as_json: AsJson = False, credentials: CredentialsFile = None) -> None:
    """Let a suspended application go on, with the tokens that it had."""
    show(operators(credentials).post(f"{PATH}/{segment(client_id)}/resume", {}), as_json=as_json)


@secrets.command(
    "add",
    epilog=examples(
        "paydesk apps secrets add 3676047501096810 --others-expire-in 24h",
        "paydesk apps secrets add 3676047501096810 --others-expire-in 0s --json",
    ),
)
def add_secret(
    client_id: ClientId,
    *,
    others_expire_in: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="How long the others stay good: 24h, 30m, 7d, 0s. [default: until they are removed]"
        ),
    ] = None,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Make another secret, which is shown once, now. The others stay good for the time that you choose."""
    answer = operators(credentials).post(f"{PATH}/{segment(client_id)}/secrets", {"others_expire_in": others_expire_in})
    show(answer, as_json=as_json)
    note("The client_secret is not kept and can't be shown again.")


@secrets.command("list", epilog=examples("paydesk apps secrets list 3676047501096810 --json"))
def list_secrets(client_id: ClientId, *, as_json: AsJson = False, credentials: CredentialsFile = None) -> None:
    """List what is known of an application's secrets: when each was made, and when it ends."""
    answer = operators(credentials).get(f"{PATH}/{segment(client_id)}")
    show_list({"data": answer["secrets"]}, SECRET_COLUMNS, as_json=as_json)


@secrets.command("remove", epilog=examples("paydesk apps secrets remove 3676047501096810 01J67CQQH5904WDBVZEM4JMEP3"))
def remove_secret(
    client_id: ClientId, secret_id: SecretId, *, as_json: AsJson = False, credentials: CredentialsFile = None
) -> None:
    """End a secret at once, also the last one."""
    answer = operators(credentials).request("DELETE", f"{PATH}/{segment(client_id)}/secrets/{segment(secret_id)}")
    show_list({"data": answer["secrets"]}, SECRET_COLUMNS, as_json=as_json)
    if not answer["secrets"]:
        note(f"It has no secret any more and gets no tokens until `paydesk apps secrets add {client_id}`.")
