"""Makes what is kept: the wheel of a commit, and databases with one of everything, filled by the code of the commit."""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import apsw

import console_world
import sent_statements
import shared_objects
import webhooks_scene
from console_world import World
from installed import build_wheel
from paydesk.core.clock import MovableClock
from paydesk.engine.orders import status
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Transaction
from paydesk.platform.storage.migrate import migrate
from postgres_server import PostgresServer
from refund_scene import pay, refund
from service import tokens
from upgrade import kept, statements

ROOT = Path(__file__).parents[2]
STATES = "SELECT status, status_detail, payment_status_detail, order_id FROM orders ORDER BY order_id"
TILLS = 4
FILLED = (
    *("orders", "leases", "results", "refunds", "reversals", "inquiries", "deliveries", "attempts", "subscriptions"),
    *("operators", "operator_sessions", "operator_audit", "operator_events", "recorded_requests", "print_actions"),
    *("sellers", "stores", "pos", "terminals", "device_tokens", "applications", "application_secrets", "pairings"),
    *("authorizations", "token_families", "refresh_tokens", "access_tokens", "idempotency_keys"),
)
"""Tables that a dump has rows of."""


def main() -> int:
    """Make all that is kept; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.upgrade", description=__doc__)
    parser.add_argument("--commit", default="HEAD", help="The commit; src must be as in it. [default: HEAD]")
    commit = parser.parse_args().commit
    if subprocess.run(["git", "diff", "--quiet", commit, "--", "src"], cwd=ROOT, check=False).returncode:
        sys.stderr.write(f"src differs from {commit}: check out that commit, or commit the changes.\n")
        return 1
    # Both are the keys of every token and secret that the tests' services make.
    sent_statements.install()
    for keys in (shared_objects.KEYS, webhooks_scene.KEYS):
        keys._keys[1] = kept.KEY
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = _wheel(commit, folder)
        sqlite, sqlite_facts = asyncio.run(_sqlite(folder))
        server = PostgresServer.start()
        try:
            postgres, postgres_facts = asyncio.run(_postgres(server, folder))
            sha = _git("rev-parse", "--short=12", commit)
            facts = {"commit": sha, "sqlite": sqlite_facts, "postgres": postgres_facts}
            kept.write(wheel, {kept.SQLITE: sqlite, kept.POSTGRES: postgres}, facts)
            asyncio.run(statements.keep(folder / "kept.db", server.create_database("kept"), sent_statements.sent))
        finally:
            server.end()
    for file in sorted(kept.FOLDER.rglob("*.*")):
        sys.stdout.write(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes\n")
    return 0


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def _wheel(commit: str, folder: Path) -> Path:
    """Build the wheel of a commit from a checkout of its own: it has the commit's name, and no other files."""
    checkout, built = folder / "checkout", folder / "built"
    _git("worktree", "add", "--detach", str(checkout), commit)
    try:
        return build_wheel(checkout, built)
    finally:
        _git("worktree", "remove", "--force", str(checkout))


async def _sqlite(folder: Path) -> tuple[bytes, dict[str, Any]]:
    """Return a filled SQLite file and the facts about it."""
    file, copy = folder / "filled.db", folder / "copy.db"
    facts = await _filled(f"sqlite:{file}", folder / "terminals" / "sqlite")
    with closing(apsw.Connection(str(file))) as connection:
        connection.execute("VACUUM INTO ?", (str(copy),))
    return copy.read_bytes(), facts


async def _postgres(server: PostgresServer, folder: Path) -> tuple[bytes, dict[str, Any]]:
    """Return the SQL of a filled PostgreSQL database and the facts about it."""
    url = server.create_database("filled")
    facts = await _filled(url, folder / "terminals" / "postgres")
    return server.dump("filled").encode(), facts


async def _filled(url: str, folder: Path) -> dict[str, Any]:
    """Migrate and fill a database; return the facts about it. `folder`: for the journals of its terminals."""
    database = await open_database(url)
    try:
        await migrate(database, MovableClock().now_ms())
        async with console_world.world(database, folder, keys=shared_objects.KEYS) as made:
            await _reach_other_states(made)
            facts = await _facts(made)
        await database.read(_check_tables)
    finally:
        await database.close()
    return facts


async def _check_tables(tx: Transaction) -> None:
    for table in FILLED:
        assert await tx.one(f"SELECT 1 FROM {table}"), f"{table} is empty"


async def _reach_other_states(made: World) -> None:
    """Bring orders to the states in which none of the world's is."""
    service = made.service
    assert (await refund(service, await pay(await service.device(await service.terminal())))).status == 201
    for detail in status.FAILED_DETAILS:
        device = await service.device(await service.terminal())
        lease_id = (await service.create(device.terminal)).body["id"][3:]
        assert (await device.ack(lease_id)).status == 200
        assert (await device.authorizing(lease_id)).status == 200
        assert (await device.result(lease_id, outcome="declined", status_detail=detail)).status == 200
    device = await service.device(await service.terminal())
    lease_id = (await service.create(device.terminal)).body["id"][3:]
    assert (await device.ack(lease_id)).status == 200
    assert (await device.result(lease_id, outcome="canceled")).status == 200
    order_id = (await service.create(device.terminal)).body["id"]
    expired = await service.request("POST", f"/v1/orders/{order_id}/events", {"status": "expired"}, key=None)
    assert expired.status == 204
    order_id = (await service.create(device.terminal)).body["id"]
    assert (await device.ack(order_id[3:])).status == 200
    assert (await service.cancel(order_id, headers={"X-Allow-Cancelable-Status": "at_terminal"})).status == 202


async def _facts(made: World) -> dict[str, Any]:
    service = made.service
    pair = await tokens(service.scene, made.clock.now_ms())
    tills = [await service.terminal() for _ in range(TILLS)]
    (session,) = (await made.console()).cookies.values()
    rows = await service.database.read(lambda tx: tx.all(STATES))
    orders = {"/".join(state): order_id for *state, order_id in rows}
    missing = {str(state) for state in status.STATES} - set(orders)
    assert not missing, f"no order is in {missing}"
    return asdict(
        kept.Facts(
            made_ms=made.clock.now_ms(),
            client_id=str(service.scene.application.application_id),
            client_secret=service.scene.secret,
            access_token=pair.access_token,
            refresh_token=pair.refresh_token or "",
            operator_token=made.owner.token,
            session=session,
            tills=[[till.id, till.token] for till in tills],
            orders=orders,
        )
    )
