"""`paydesk operators`: the accounts that may operate a service. The first is created directly in the database."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from paydesk.commands.client import Answer, Service, changes, operator_service, segment
from paydesk.commands.command import command
from paydesk.commands.failure import WrongUsage
from paydesk.commands.lists import add_list
from paydesk.commands.local import SettingsFile, check_tables, load_settings, run_with_database
from paydesk.commands.options import AsJson, CredentialsFile, examples, group, note, show

app = group("Operators, who administer the service with `paydesk`.")
SERVICE_VARIABLES = ("PAYDESK_BASE_URL", "PAYDESK_CREDENTIALS")
PATH = "/operator/v1/operators"
ROLE_HELP = "owner (everything), operator (everything but operators) or support (read-only)."

OperatorId = Annotated[str, typer.Argument(metavar="OPERATOR_ID", help="The operator, see `paydesk operators list`.")]


@app.command(
    "create",
    epilog=examples(
        "paydesk operators create --name ana --role owner",
        "paydesk operators create --name ci --role operator --json",
        "paydesk operators create --name bea --role support --credentials .paydesk/credentials.json",
    ),
)
def create(
    name: Annotated[str, typer.Option(help="The operator's name.")],
    role: Annotated[
        str,
        typer.Option(help=ROLE_HELP),
    ] = "owner",
    settings: SettingsFile = None,
    *,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Add an operator and print the token, which is shown only once.

    With `--credentials`, `PAYDESK_BASE_URL` or `PAYDESK_CREDENTIALS` a running service adds it, on behalf of an owner.
    Otherwise it is added directly to the database of the settings: use this for the first owner, and when every token
    is lost. With SQLite, stop the service first.
    """
    from paydesk.operators.schemas import ROLES

    if role not in ROLES:
        raise WrongUsage(f"There is no role {role}. Use one of {', '.join(ROLES)}.")
    if settings is not None and credentials is not None:
        raise WrongUsage("Give either --credentials, to use a service, or --settings, to use a database.")
    if settings is None and (
        credentials is not None or any(os.environ.get(variable) for variable in SERVICE_VARIABLES)
    ):
        created = operator_service(credentials).post(PATH, {"name": name, "role": role})
    else:
        created = _create_local(name, role, settings)
    show(created, as_json=as_json)
    note("The token is not stored and cannot be shown again.")


add_list(app, "operators")


@command(app, "show", "paydesk operators show 01J67CQQH5904WDBVZEM4JMEP3 --json")
def show_one(service: Service, operator_id: OperatorId) -> Answer:
    """Show an operator."""
    return service.get(f"{PATH}/{segment(operator_id)}")


@command(
    app,
    "change",
    "paydesk operators change 01J67CQQH5904WDBVZEM4JMEP3 --role support",
    "paydesk operators change 01J67CQQH5904WDBVZEM4JMEP3 --name 'Ana Lima'",
)
def change(
    service: Service,
    operator_id: OperatorId,
    *,
    name: Annotated[str | None, typer.Option(help="The operator's name.")] = None,
    role: Annotated[str | None, typer.Option(help=ROLE_HELP)] = None,
) -> Answer:
    """Change only the given fields. For owners only; the last valid owner keeps the role."""
    return service.request("PATCH", f"{PATH}/{segment(operator_id)}", changes(name=name, role=role))


@command(app, "revoke", "paydesk operators revoke 01J67CQQH5904WDBVZEM4JMEP3")
def revoke(service: Service, operator_id: OperatorId) -> Answer:
    """Revoke an operator's token at once, also your own, but not the last valid owner's. For owners only."""
    return service.post(f"{PATH}/{segment(operator_id)}/revoke")


@command(app, "delete", "paydesk operators delete 01J67CQQH5904WDBVZEM4JMEP3")
def delete(service: Service, operator_id: OperatorId) -> Answer:
    """Delete an operator who has made no changes; one that the audit trail names can be revoked. For owners only."""
    service.request("DELETE", f"{PATH}/{segment(operator_id)}")
    return {"operator_id": operator_id.upper(), "deleted": True}


def _create_local(name: str, role: str, settings_file: Path | None) -> Answer:
    import msgspec

    from paydesk.core.clock import SystemClock
    from paydesk.http import validation
    from paydesk.operators.operator_accounts import NewOperator, create_local
    from paydesk.operators.schemas import OperatorRequest
    from paydesk.storage import mark
    from paydesk.storage.database import Database

    # The validation of `POST /operator/v1/operators`.
    body = {"name": name, "role": role}
    request, found = validation.validate(OperatorRequest, body, json.dumps(body).encode())
    if not isinstance(request, OperatorRequest):
        raise WrongUsage("; ".join(fault.detail for fault in found))

    async def work(database: Database) -> NewOperator:
        await check_tables(database)
        now_ms = SystemClock().now_ms()
        await mark.find_or_set(database, "production", now_ms)
        return await database.write(lambda tx: create_local(tx, request, now_ms))

    created: Answer = msgspec.to_builtins(run_with_database(load_settings(settings_file), work))
    return created
