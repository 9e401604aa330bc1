"""`paydesk apps`: the applications that act for sellers."""

from __future__ import annotations

from typing import Annotated

import typer

from paydesk.commands.client import operators
from paydesk.commands.options import After, AsJson, CredentialsFile, Limit, examples, group, note, show, show_list

app = group("Applications: who may ask for tokens.")
COLUMNS = ("client_id", "name", "redirect_uris", "scopes", "pkce_required", "created_date")


@app.command(
    "create",
    epilog=examples(
        "paydesk apps create --name 'Corner shop' --redirect-uri https://shop.example/callback",
        "paydesk apps create --name Kiosk --redirect-uri http://127.0.0.1:3000/cb --pkce-required --json",
    ),
)
def create(
    name: Annotated[str, typer.Option(help="What sellers read when they are asked to agree.")],
    redirect_uri: Annotated[list[str], typer.Option(help="Where codes are sent; may be given several times.")],
    scope: Annotated[
        str, typer.Option(help="Scopes that it may ask for, separated by spaces.")
    ] = "offline_access read write",
    *,
    pkce_required: Annotated[bool, typer.Option("--pkce-required", help="Refuse codes without a challenge.")] = False,
    on_replay: Annotated[
        str, typer.Option(metavar="revoke|refuse", help="What a replayed refresh token does to its chain.")
    ] = "revoke",
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Register an application. Its secret is shown once, now."""
    answer = operators(credentials).post(
        "/operator/v1/applications",
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
    answer = operators(credentials).get("/operator/v1/applications", {"limit": limit, "after": after})
    show_list(answer, COLUMNS, as_json=as_json)
