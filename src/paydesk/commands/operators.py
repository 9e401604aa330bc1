"""`paydesk operators`: who may use `paydesk` on a service. The first of them is made on the service's own machine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from paydesk.commands import client
from paydesk.commands.failure import WrongUsage
from paydesk.commands.local import SettingsFile, check_tables, load_settings, opened, run
from paydesk.commands.options import After, AsJson, CredentialsFile, Limit, examples, group, note, show, show_list

app = group("Operators: who may use `paydesk` on a service.")
COLUMNS = ("operator_id", "name", "role", "created_date", "revoked_date")
A_SERVICE = ("PAYDESK_BASE_URL", "PAYDESK_CREDENTIALS")
PATH = "/operator/v1/operators"


@app.command(
    "create",
    epilog=examples(
        "paydesk operators create --name ana --role owner",
        "paydesk operators create --name ci --role operator --json",
        "paydesk operators create --name bea --role support --credentials .paydesk/credentials.json",
    ),
)
def create(
    name: Annotated[str, typer.Option(help="Who it is.")],
    role: Annotated[
        str,
        typer.Option(
            help="owner (adds and revokes operators too), operator (changes the rest) or support (reads only)."
        ),
    ] = "owner",
    settings: SettingsFile = None,
    *,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Make an operator's token, which is shown once, now.

    A running service is asked, as an owner, where one is named: `--credentials`, `PAYDESK_BASE_URL` or
    `PAYDESK_CREDENTIALS`. Else the database of the settings is opened: so the first owner is made, and the next one
    when every token is lost. SQLite must not be in use then.
    """
    from paydesk.operators import tokens

    if role not in tokens.ROLES:
        raise WrongUsage(f"There is no role {role}; there are {', '.join(tokens.ROLES)}.")
    if settings is not None and credentials is not None:
        raise WrongUsage("Either a service is asked, with --credentials, or a database is opened, with --settings.")
    if settings is None and (credentials is not None or any(os.environ.get(name) for name in A_SERVICE)):
        made = client.operators(credentials).post(PATH, {"name": name, "role": role})
    else:
        made = _create_here(name, role, settings)
    show(made, as_json=as_json)
    note("The token is not kept and can't be shown again.")


@app.command("list", epilog=examples("paydesk operators list --json"))
def list_(
    *, limit: Limit = 200, after: After = None, as_json: AsJson = False, credentials: CredentialsFile = None
) -> None:
    """List the operators, those that were revoked too."""
    answer = client.operators(credentials).get(PATH, {"limit": limit, "after": after})
    show_list(answer, COLUMNS, as_json=as_json)


@app.command("revoke", epilog=examples("paydesk operators revoke 01J67CQQH5904WDBVZEM4JMEP3"))
def revoke(
    operator_id: Annotated[str, typer.Argument(metavar="OPERATOR_ID", help="Which one, of `paydesk operators list`.")],
    *,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """End an operator's token at once, also your own. For owners."""
    show(client.operators(credentials).post(f"{PATH}/{client.segment(operator_id)}/revoke", {}), as_json=as_json)


def _create_here(name: str, role: str, settings_file: Path | None) -> dict[str, Any]:
    from paydesk.core.clock import SystemClock
    from paydesk.http import validation
    from paydesk.operators import operator_accounts
    from paydesk.operators.schemas import OperatorRequest
    from paydesk.storage import mark

    # The rules that a service goes by.
    asked = {"name": name, "role": role}
    _, found = validation.validate(OperatorRequest, asked, json.dumps(asked).encode())
    if found:
        raise WrongUsage("; ".join(fault.detail for fault in found))

    async def work() -> dict[str, Any]:
        async with opened(load_settings(settings_file)) as database:
            await check_tables(database)
            now_ms = SystemClock().now_ms()
            await mark.find_or_set(database, "production", now_ms)
            return await database.write(
                lambda tx: operator_accounts.create_here(tx, name=name, role=role, now_ms=now_ms)
            )

    return run(work())
