"""The switch of `examples/switch/`, once for each kind of host, served by the test's process with the run's clock."""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from acquirers.ledger import Entry, Ledger
from paydesk.engine.payments.capabilities import Capabilities
from switch_process import FOLDER, SECRET

KEY_ID, PATH = "shop-1", "/paydesk"
DEFECTS = (403, 409, 422, 500)
"""Statuses of answers to requests that no correct service makes. A key that is being served would be 409 too."""
SIGNS = {"payment": 1, "confirmation": 0, "reversal": -1, "refund": -1}


@dataclass
class Served:
    """A switch that is served: its host, its port, and the requests that no correct service makes."""

    name: str
    host: Any
    port: int
    faults: list[str] = field(default_factory=list)

    def ledger(self) -> Ledger:
        """Return the ledger as it is now."""
        with self.host.transaction():
            entries = self.host.database.execute("SELECT * FROM ledger ORDER BY entry_id").fetchall()
            held = self.host.database.execute("SELECT payment_id FROM payments WHERE status = 'provisional'").fetchall()
        return Ledger(
            self.name,
            tuple(
                Entry(row["kind"], row["payment_id"], row["key"], SIGNS[row["kind"]] * row["amount_minor"])
                for row in entries
            ),
            frozenset(row["payment_id"] for row in held),
            tuple(self.faults),
        )


@asynccontextmanager
async def served(
    kinds: Mapping[str, Capabilities], folder: Path, now_ms: Callable[[], int]
) -> AsyncIterator[dict[str, Served]]:
    """Serve a switch for each kind of host, on ports of this machine, until the end of the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        book, switch = import_module("book"), import_module("switch")
        patch.setattr(book, "now", lambda: now_ms() / 1000)
        patch.setattr(switch, "print", lambda *_args, **_fields: None, raising=False)
        secret_file(folder).touch(0o600)
        secret_file(folder).write_text(SECRET)
        async with AsyncExitStack() as stack:
            switches = {}
            for name, can in kinds.items():
                one = switch.Switch(_options(folder, name, can))
                switches[name] = kept = Served(name, one.book, 0)
                _watch(one, kept)
                app = web.Application()
                app.router.add_route("*", "/{path:.*}", one.handle)
                runner = web.AppRunner(app, access_log=None, keepalive_timeout=60)
                await runner.setup()
                stack.push_async_callback(runner.cleanup)
                site = web.TCPSite(runner, "127.0.0.1", 0)
                await site.start()
                kept.port = runner.addresses[0][1]
            yield switches
    for name in ("book", "switch"):
        del sys.modules[name]


def secret_file(folder: Path) -> Path:
    """Return the file of the secret."""
    return folder / "switch.key"


def _options(folder: Path, name: str, can: Capabilities) -> argparse.Namespace:
    by_itself = {at: can.confirm_before if can.at_deadline == at else None for at in ("confirms", "undoes")}
    return argparse.Namespace(
        database=folder / f"{name}.db",
        path=PATH,
        key_id=KEY_ID,
        secret_file=[secret_file(folder)],
        needs_confirmation=can.needs_confirmation,
        reversal_blocks=can.reversal_blocks,
        cannot_inquire=not can.can_inquire,
        reverse_until=can.reverse_until,
        confirms_after=by_itself["confirms"],
        undoes_after=by_itself["undoes"],
    )


def _watch(switch: Any, kept: Served) -> None:
    """Keep what the switch refuses."""
    sign = switch.signed_response

    def signed_response(status: int, answer: dict[str, Any], key: str, secret: bytes) -> web.Response:
        if status in DEFECTS:
            kept.faults.append(f"{key}: {status} {answer}")
        response: web.Response = sign(status, answer, key, secret)
        return response

    switch.signed_response = signed_response
