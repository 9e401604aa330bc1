"""`paydesk operators` and `sessions`: the accounts that may operate a service. The first is created in the database."""

from __future__ import annotations

import json
import os
import sys
from getpass import getpass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from paydesk.commands.client.client import Answer, Service, operator_service, segment
from paydesk.commands.client.command import command
from paydesk.commands.client.credentials import DEFAULT_FILE, LOOPBACK_NAMES
from paydesk.commands.client.credentials_file import exists
from paydesk.commands.client.failure import WrongUsage
from paydesk.commands.client.options import AsJson, CredentialsFile, examples, group, note, show
from paydesk.commands.local.local import (
    SettingsFile,
    check_tables,
    described_database,
    load_settings,
    refuse_missing_database,
    run_with_database,
)
from paydesk.commands.tables.rows import add_rows

app = group("Operators: people, who use the console, and programs, which use `paydesk` or the interface.")
sessions = group("Sessions of operators who are signed in to the console.")
SERVICE_VARIABLES = ("PAYDESK_BASE_URL", "PAYDESK_CREDENTIALS")
DATABASE_VARIABLES = ("PAYDESK_SETTINGS", "PAYDESK_DATABASE_URL")
FOR_A_DATABASE = "For a database instead, use --settings FILE or PAYDESK_DATABASE_URL."
WITH_A_SERVICE = "with PAYDESK_BASE_URL (the address of operator_listen) and PAYDESK_OPERATOR_TOKEN of an owner"
WITHOUT_A_DATABASE = (
    "Create it with `paydesk migrate`, or name the right one: --settings FILE, or PAYDESK_DATABASE_URL.",
    f"A running service adds operators {WITH_A_SERVICE}, or with --credentials FILE.",
)
WHILE_A_SERVICE_RUNS = (f"While a service runs, add operators in the console under Operators, or {WITH_A_SERVICE}.",)
PATH = "/operator/v1/operators"
SESSIONS = "/operator/v1/sessions"
ROLE_HELP = (
    "owner (everything), operator (everything but operators), support (reads, and sends notifications again) or viewer"
    " (reads)."
)
TOKEN_SHOWN_ONCE = "The token is not stored and cannot be shown again."  # noqa: S105 - a sentence
LINK_SHOWN_ONCE = (
    "Send the link to the operator, who sets a password with it. It is valid once, for 24 h, and cannot be shown again."
)
ONLY_ON_THIS_MACHINE = (
    "The link works only in a browser on the machine of the service. For other machines set operator_public_url"
    " (PAYDESK_OPERATOR_PUBLIC_URL) to the URL that operators' browsers use, and create a new link."
)

OperatorId = Annotated[str, typer.Argument(metavar="OPERATOR_ID", help="The operator, see `paydesk operators list`.")]


@app.command(
    "create",
    epilog=examples(
        "paydesk operators create --name ana --role owner",
        "paydesk operators create --name ana --role owner --email ana@shop.example",
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
    email: Annotated[
        str | None,
        typer.Option(help="The e-mail address of a person, who signs in to the console. [default: a token instead]"),
    ] = None,
    settings: SettingsFile = None,
    *,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Add an operator and print the token, or with `--email` the link to set a password. It is shown only once.

    With `--credentials`, `PAYDESK_BASE_URL` or a credentials file, a running service adds it, on behalf of an owner.
    With `--settings` or `PAYDESK_DATABASE_URL`, and without all of these, it is added directly to the database: use
    this for the first owner, and when every token is lost. With SQLite, stop the service first.
    """
    from paydesk.operators.schemas import ROLES

    if role not in ROLES:
        raise WrongUsage(f"There is no role {role}. Use one of {', '.join(ROLES)}.")
    if settings is not None and credentials is not None:
        raise WrongUsage("Give either --credentials, to use a service, or --settings, to use a database.")
    body = {"name": name, "role": role, **({} if email is None else {"email": email})}
    is_named = credentials is not None or any(os.environ.get(variable) for variable in SERVICE_VARIABLES)
    is_local = any(os.environ.get(variable) for variable in DATABASE_VARIABLES)
    if settings is None and (is_named or (exists(DEFAULT_FILE) and not is_local)):
        service = operator_service(credentials)
        default = "" if is_named else f", the service of {DEFAULT_FILE}. {FOR_A_DATABASE}"
        note(f"Adding it by {service.credentials.base_url}{default or '.'}")
        created = service.post(PATH, body)
    else:
        created = _create_local(body, settings)
    show(created, as_json=as_json)
    note(TOKEN_SHOWN_ONCE if email is None else _about_link(created["password_url"]))


add_rows(app, "operators")


@command(app, "link", "paydesk operators link 01J67CQQH5904WDBVZEM4JMEP3")
def link(service: Service, operator_id: OperatorId) -> tuple[Answer, str]:
    """Create a link with which an operator sets a password. It replaces earlier links. For owners only."""
    created = service.post(f"{PATH}/{segment(operator_id)}/password-link")
    return created, _about_link(created["url"])


@command(
    app,
    "password",
    "paydesk operators password",
    "paydesk operators password < passwords.txt",
)
def password(service: Service) -> Answer:
    """Change your own password. It asks for the current and the new one without showing them.

    If standard input is not a terminal, it has two lines: the current password, then the new one. All your sessions in
    the console end.
    """
    if sys.stdin.isatty():
        current, new = getpass("Current password: "), getpass("New password: ")
        if not (current and new):
            raise WrongUsage("Type the current password, then the new one.")
        if getpass("New password again: ") != new:
            raise WrongUsage("The new password and its repetition differ. The password was not changed.")
    else:
        current, new = (sys.stdin.readline().rstrip("\r\n") for _ in range(2))
        if not (current and new):
            raise WrongUsage("Send two lines on standard input: the current password, then the new one.")
    service.post("/operator/v1/password", {"current_password": current, "password": new})
    return {"password": "changed"}


add_rows(sessions, "sessions")
audit = add_rows(group("The audit trail: which operator changed what, when and from where."), "audit")


@command(sessions, "end", "paydesk sessions end 01J67CQQH5904WDBVZEM4JMEP3", "paydesk sessions end --operator all")
def end(
    service: Service,
    session_id: Annotated[
        str | None, typer.Argument(metavar="SESSION_ID", help="The session, see `paydesk sessions list`.")
    ] = None,
    *,
    operator: Annotated[
        str | None,
        typer.Option(metavar="OPERATOR_ID", help="All sessions of this operator, or of `all`. For owners only."),
    ] = None,
) -> Answer:
    """End a session, or all sessions of an operator, and print how many. Their browsers must sign in again."""
    if (session_id is None) == (operator is None):
        raise WrongUsage("Give either a SESSION_ID or --operator.")
    if session_id is not None:
        service.request("DELETE", f"{SESSIONS}/{segment(session_id)}")
        return {"session_id": session_id.upper(), "ended": True}
    return {"operator": operator, **service.request("DELETE", f"{SESSIONS}?operator={segment(str(operator))}")}


def _about_link(url: str) -> str:
    """Return what to do with a link, and where it works if not everywhere."""
    is_local = urlsplit(url).hostname in LOOPBACK_NAMES
    return f"{LINK_SHOWN_ONCE}\n{ONLY_ON_THIS_MACHINE}" if is_local else LINK_SHOWN_ONCE


def _create_local(body: Answer, settings_file: Path | None) -> Answer:
    import msgspec

    from paydesk.core.clock import SystemClock
    from paydesk.operators.accounts.fields import OperatorRequest
    from paydesk.operators.accounts.handlers import NewOperator, create_local
    from paydesk.platform.http import validation
    from paydesk.platform.storage import mark
    from paydesk.platform.storage.database import Database

    # The validation of `POST /operator/v1/operators`.
    request, faults = validation.validate(OperatorRequest, body, json.dumps(body).encode())
    if not isinstance(request, OperatorRequest):
        raise WrongUsage("; ".join(fault.detail for fault in faults))

    async def work(database: Database) -> NewOperator:
        await check_tables(database)
        now_ms = SystemClock().now_ms()
        await mark.find_or_set(database, "production", now_ms)
        return await database.write(lambda tx: create_local(tx, request, settings.operator_url, now_ms))

    settings = load_settings(settings_file)
    refuse_missing_database(settings, *WITHOUT_A_DATABASE)
    note(f"Adding it to {described_database(settings)}.")
    created: Answer = msgspec.to_builtins(run_with_database(settings, work, while_in_use=WHILE_A_SERVICE_RUNS))
    return created
