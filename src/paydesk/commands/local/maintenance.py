"""`paydesk migrate`, `doctor`, `openapi` and `keys`: local, without a running service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from paydesk.commands.client.failure import Failure, WrongUsage
from paydesk.commands.client.options import AsJson, examples, group, note, show, show_list, top
from paydesk.commands.local.local import (
    DataFolder,
    SettingsFile,
    check_tables,
    existing_database,
    load_settings,
    run_with_database,
)

if TYPE_CHECKING:
    from paydesk.platform.storage.database import Database

STATEMENT_SECONDS_MAX = 3600
"""The deadline of each statement of a migration, which may read a large table."""

keys = group("Server keys, from which tokens and webhook secrets are derived.")

MIGRATE_EPILOG = examples(
    "PAYDESK_DATABASE_URL=postgresql://paydesk@db/paydesk paydesk migrate",
    "paydesk migrate --plan     # what it would do, and what that blocks",
    "paydesk migrate --check    # for scripts: exits 1 if something is pending",
)
DOCTOR_EPILOG = examples(
    "paydesk doctor --invariants",
    "paydesk doctor --data /var/tmp/paydesk",
    "PAYDESK_DATABASE_URL=postgresql://paydesk@db/paydesk paydesk doctor",
    "PAYDESK_ACCESS_TOKEN=TEST-… paydesk doctor --url https://pay.example.com",
)
OPENAPI_EPILOG = examples("paydesk openapi > openapi.json", "paydesk openapi terminals --pretty")

NEXT_AFTER_ADDING = (
    "Copy the file to every node and restart or reload each of them. Only then run `paydesk keys activate`."
)
NEXT_AFTER_ACTIVATING = (
    "Nodes read the file at startup: restart or reload this one. The other nodes need the same file."
)

DocumentName = Literal["applications", "operators", "terminals"]
"""Those of `paydesk serve`; that of development is at `/openapi/development.json` of `paydesk dev`."""

KeyFile = Annotated[Path | None, typer.Option("--file", help="The key file. [default: the setting keys_file]")]


@top.command("migrate", epilog=MIGRATE_EPILOG)
def migrate(
    settings: SettingsFile = None,
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit 1 if a migration is pending. The service may run.")
    ] = False,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan", help="Change nothing; print each pending migration, its statements and what they block."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Migrate the database to this version.

    A database without a mark is marked for production. On PostgreSQL the migration is given up if another session
    keeps a lock for more than 5 s; the message names that session.
    """
    from paydesk.core.clock import SystemClock
    from paydesk.platform.storage import mark
    from paydesk.platform.storage import migrate as migrations
    from paydesk.platform.storage import plan as plans
    from paydesk.platform.storage.connect import DIRECT_NEEDED, pooler_of

    changes = not (check or plan)

    async def work(database: Database) -> tuple[list[str], migrations.State]:
        applied = list[str]()
        if changes:
            if pooler_of(database) == "transaction":
                raise Failure(DIRECT_NEEDED)
            now_ms = SystemClock().now_ms()
            applied = await migrations.migrate(database, now_ms)
            await mark.find_or_set(database, "production", now_ms)
        return applied, await migrations.state(database)

    longer = {"database_timeout_seconds": STATEMENT_SECONDS_MAX} if changes else {}
    loaded = load_settings(settings, **longer)
    direct = loaded.model_copy(update={"database_url": loaded.direct_database_url})
    applied, (pending, newer) = run_with_database(direct, work, exclusive=changes)
    planned = plans.plan(pending)
    lines = [*(f"applied {name}" for name in applied), *plans.as_lines(planned, statements=plan)]
    if newer:
        lines = [f"Nothing to do: the database is newer than this version, which may run on it ({', '.join(newer)})."]
    show(
        {"applied": applied, "pending": planned, "newer": newer},
        "\n".join(lines) or "The database is up to date.",
        as_json=as_json,
    )
    if check and pending:
        raise Failure(f"Pending migrations: {len(pending)}. Run `paydesk migrate`.")


@top.command("doctor", epilog=DOCTOR_EPILOG)
def doctor(
    settings: SettingsFile = None,
    *,
    data: DataFolder = None,
    invariants: Annotated[
        bool,
        typer.Option("--invariants", help="Check the database against every invariant; exit 1 if any is violated."),
    ] = False,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            help="Check this address of the service instead, through its proxy; with PAYDESK_ACCESS_TOKEN also by a"
            " poll of a minute.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the integrity of the database, or an address of the service; exits 1 if a problem is found.

    Reads only; the service may be running. Without settings it is the database of `paydesk dev`: that of .paydesk, or
    of the folder of PAYDESK_CREDENTIALS.
    """
    from paydesk.commands.local import address_check
    from paydesk.engine.invariants import check as checks
    from paydesk.platform.storage.connect import pooler_of

    async def work(database: Database) -> list[str]:
        if pooler := pooler_of(database):
            note(f"Between Paydesk and PostgreSQL is a connection pooler in {pooler} mode.")
        await check_tables(database)
        problems = await checks.integrity(database)
        return [str(one) for one in (*problems, *(await checks.check(database) if invariants else ()))]

    if url is not None:
        if invariants or settings is not None or data is not None:
            raise WrongUsage(
                "--url checks an address without a database. Leave out --invariants, --settings and --data."
            )
        findings = address_check.findings(url)
    else:
        findings = run_with_database(existing_database(settings, data), work, exclusive=False)
    show({"findings": findings}, "\n".join(findings) or "No problems found.", as_json=as_json)
    if findings:
        raise Failure(f"Problems found: {len(findings)}.")


@top.command("openapi", epilog=OPENAPI_EPILOG)
def openapi(
    surface: Annotated[DocumentName, typer.Argument(help="The programs that it is for.")] = "applications",
    *,
    pretty: Annotated[bool, typer.Option("--pretty", help="Indent it, for people.")] = False,
) -> None:
    """Print an OpenAPI document of the HTTP interface."""
    from paydesk.service.api import OWN

    typer.echo(OWN.openapi_json(surface, indent=2 if pretty else None), nl=False)


@keys.command("list", epilog=examples("paydesk keys list --json"))
def list_keys(file: KeyFile = None, settings: SettingsFile = None, *, as_json: AsJson = False) -> None:
    """List the versions of the server keys on this node; equal fingerprints on two nodes mean equal keys."""
    from paydesk.core import keys as key_file

    with _key_file(file, settings) as path:
        server_keys = key_file.read(path)
    rows = [
        {"version": version, "active": version == server_keys.active, "fingerprint": server_keys.fingerprint(version)}
        for version in server_keys.versions
    ]
    show_list({"data": rows}, ("version", "active", "fingerprint"), as_json=as_json)


@keys.command("add", epilog=examples("paydesk keys add", "paydesk keys add --activate"))
def add_key(
    file: KeyFile = None,
    settings: SettingsFile = None,
    *,
    activate: Annotated[bool, typer.Option("--activate", help="Activate it at once; for a single node only.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add a random key; the first key is activated at once. Copy the file to every node before you activate it."""
    from paydesk.core import keys as key_file

    with _key_file(file, settings) as path:
        version = key_file.add(path, activate=activate)
        is_active = key_file.read(path).active == version
    show({"version": version, "file": str(path)}, as_json=as_json)
    note(NEXT_AFTER_ACTIVATING if is_active else NEXT_AFTER_ADDING)


@keys.command("activate", epilog=examples("paydesk keys activate 2"))
def activate_key(
    version: Annotated[int, typer.Argument(help="The version, see `paydesk keys list`.")],
    file: KeyFile = None,
    settings: SettingsFile = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Use this version for new tokens and secrets, once every node has it; older ones stay valid."""
    from paydesk.core import keys as key_file

    with _key_file(file, settings) as path:
        key_file.activate(path, version)
    show({"active": version, "file": str(path)}, as_json=as_json)
    note(NEXT_AFTER_ACTIVATING)


@contextmanager
def _key_file(file: Path | None, settings: Path | None) -> Iterator[Path]:
    """Yield the path of the key file. Raises `Failure` if the file cannot be used."""
    from paydesk.core.keys import KeysError

    try:
        yield file or Path(load_settings(settings).keys_file)
    except (KeysError, OSError) as error:
        raise Failure(str(error)) from None
