"""`paydesk apps` and `grants`: applications and their authorizations."""

from __future__ import annotations

from typing import Annotated

import typer

from paydesk.commands.client.client import Service, segment
from paydesk.commands.client.command import command
from paydesk.commands.client.options import group, note, show_list
from paydesk.commands.tables.rows import add_rows

app = add_rows(group("Applications, the OAuth clients of the service."), "apps")
secrets = add_rows(group("The client secrets of an application; several can be valid at once."), "apps secrets")
app.add_typer(secrets, name="secrets")
grants = add_rows(group("Grants: which applications may act for which sellers."), "grants")

SECRET_COLUMNS = ("id", "created_date", "expires_date")
PATH = "/operator/v1/applications"

ClientId = Annotated[str, typer.Argument(metavar="CLIENT_ID", help="The application, see `paydesk apps list`.")]
SecretId = Annotated[
    str, typer.Argument(metavar="SECRET_ID", help="The secret, see `paydesk apps secrets list CLIENT_ID`.")
]


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
