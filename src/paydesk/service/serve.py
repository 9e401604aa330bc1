"""`paydesk serve`: a node in production. It refuses to start with development-only settings or data."""

from __future__ import annotations

import asyncio
import shlex
import urllib.parse
from contextlib import closing
from functools import partial
from pathlib import Path

from paydesk.core import keys
from paydesk.core.clock import SystemClock
from paydesk.engine.payments import jobs
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.platform import logs, traces
from paydesk.platform.health.clock import WatchedClock
from paydesk.platform.health.readiness import Readiness
from paydesk.platform.http.request import is_loopback
from paydesk.platform.http.server import server
from paydesk.platform.metrics import pages
from paydesk.platform.operation import Surface
from paydesk.platform.operator_events import Reporter
from paydesk.platform.process import node
from paydesk.platform.process.listeners import Listeners
from paydesk.platform.process.node import StartRefused
from paydesk.platform.process.siblings import Siblings
from paydesk.platform.settings import Settings
from paydesk.platform.storage import mark
from paydesk.platform.storage.database import Database
from paydesk.platform.storage.migrate import pending
from paydesk.service.acquirers import check_served, warn_of_default
from paydesk.service.compose import LOOPBACK_NAMES, ONE_PER_PROCESS, Parts, compose
from paydesk.service.workers import run_all

CLIENT_SURFACES: tuple[Surface, ...] = ("application", "token", "device", "page", "public")
OPERATOR_SURFACES: tuple[Surface, ...] = ("operator", "console", "metrics", "operators_public", "public")

DATABASE_FILES = ("", "-wal", "-shm", ".lock")
"""Suffixes of the files of a SQLite database."""


async def run(settings: Settings, *, beside: bool = False, inherited: Listeners | None = None) -> None:
    """Run until SIGTERM. Raises `StartRefused`, `UnsafeDatabase`, `Unavailable` or `KeysError`.

    `beside`: another `serve` may share the ports. `inherited`: the listeners of the supervisor.
    """
    siblings = inherited.siblings if inherited is not None else Siblings()
    logs.configure(settings.log_format, level=settings.log_level, process=siblings.number)
    node.log_version()
    check_settings(settings)
    node.allow_open_files(settings.connections_max)
    server_keys = keys.read(Path(settings.keys_file))
    keys.check(Path(settings.keys_file), server_keys)
    check_files(settings)
    async with traces.recorded(settings), node.database_of(settings) as database:
        await check_database(database, SystemClock().now_ms())
        await jobs.release_all(database)
        clock, stop = WatchedClock(difference_seconds_max=settings.clock_difference_seconds_max), asyncio.Event()
        await clock.compare(database)
        clients = compose(settings, database, server_keys, clock, Parts(objects=(siblings,)), processes=siblings.count)
        objects = clients.shared.objects
        await check_served(database, objects[Acquirers])
        warn_of_default(settings, objects[Acquirers])
        shared = Parts(objects=tuple(objects[kind] for kind in ONE_PER_PROCESS))
        operators = compose(for_operators(settings), database, server_keys, clock, shared, processes=siblings.count)
        clients_app, operators_app = clients.app(CLIENT_SURFACES), operators.app(OPERATOR_SURFACES)
        with closing(inherited or Listeners.bind(settings, beside=beside)) as listeners:
            node.stop_on_signals(stop, partial(_drain, objects[Readiness], settings.drain_seconds, stop))
            answering = siblings.answering(partial(pages.own, siblings), stop)
            async with answering, objects[Reporter], objects[Acquirers].running():
                await node.run_together(
                    stop,
                    server.serve(clients_app, listeners.clients, settings, listeners.ready, stop),
                    server.serve(operators_app, listeners.operators, settings, listeners.ready, stop),
                    run_all(clients.context, stop),
                )


def _drain(readiness: Readiness, seconds: float, stop: asyncio.Event) -> None:
    """Report `/readyz` as not ready for `seconds`, so that load balancers stop sending requests, then stop."""
    if readiness.draining or not seconds:
        stop.set()
    readiness.draining = True
    asyncio.get_running_loop().call_later(seconds, stop.set)


def for_operators(settings: Settings) -> Settings:
    """Return the settings of the operators' listener: `listen` and `public_url` are those of operators.

    It also accepts the host of `operator_listen`, and the names of this machine.
    """
    host = settings.operator_listen.rpartition(":")[0]
    names = dict.fromkeys((*settings.host_names, host, *LOOPBACK_NAMES))
    own = {"public_url": settings.operator_public_url, "listen": settings.operator_listen}
    return settings.model_copy(update={**own, "host_names": tuple(names)})


def check_settings(settings: Settings) -> None:
    """Raise `StartRefused` for missing or development-only settings."""
    if settings.public_url is None:
        raise StartRefused(
            "public_url is not set: `serve` needs the URL that clients use. Set PAYDESK_PUBLIC_URL=https://…"
        )
    for name, url in (("public_url", settings.public_url), ("operator_public_url", settings.operator_public_url)):
        address = urllib.parse.urlsplit(url or "")
        host = address.hostname or ""
        if address.scheme == "http" and not _is_this_machine(host):
            raise StartRefused(
                f"{name} is {url}: access tokens and passwords would be sent unencrypted. Put a TLS proxy in front of"
                f" the service and set PAYDESK_{name.upper()}=https://…"
            )
    if settings.acquirer == "simulator":
        raise StartRefused(
            "acquirer is `simulator`: no money would be charged for live orders. Unset PAYDESK_ACQUIRER."
        )
    # Port 0 takes a free port for each.
    if settings.listen == settings.operator_listen and not settings.listen.endswith(":0"):
        raise StartRefused("listen and operator_listen are the same: operators need a separate listener.")
    if settings.operator_public_url is None and not _is_this_machine(settings.operator_listen.rpartition(":")[0]):
        raise StartRefused(
            f"operator_listen is {settings.operator_listen} and operator_public_url is not set: browsers on other"
            " machines would send operators' passwords unencrypted. Put a TLS proxy in front of it and set"
            " PAYDESK_OPERATOR_PUBLIC_URL=https://…, or, if only this machine reaches it, http://localhost:…"
        )


def _is_this_machine(host: str) -> bool:
    return host == "localhost" or is_loopback(host.strip("[]"))


def check_files(settings: Settings) -> None:
    """Raise `StartRefused` for a SQLite database that other users of the machine can read, write or replace."""
    scheme, _, name = settings.database_url.partition(":")
    if scheme != "sqlite":
        return
    found = [Path(name + ending) for ending in DATABASE_FILES]
    shared = [str(path) for path in found if path.exists() and path.stat().st_mode & 0o077]
    if shared:
        raise StartRefused(
            f"Other users of this machine can read or write {', '.join(shared)}: orders, and digests of tokens and"
            f" passwords. Run: chmod 600 {shlex.join(shared)}"
        )
    folders = dict.fromkeys((Path(name).parent.absolute(), Path(name).resolve().parent))
    shared = [str(folder) for folder in folders if folder.exists() and folder.stat().st_mode & 0o022]
    if shared:
        raise StartRefused(
            f"Other users of this machine can write to {', '.join(shared)}: they could replace the database, or add a"
            f" journal that SQLite would read. Run: chmod go-w {shlex.join(shared)}"
        )


async def check_database(database: Database, now_ms: int) -> None:
    """Raise `StartRefused` for an outdated database or one of `paydesk dev`; mark a new one as production."""
    missing = await pending(database)
    if missing:
        raise StartRefused(f"The database lacks {', '.join(missing)}: run `paydesk migrate`.")
    if await database.read(mark.moved_clock) != (0, None):
        raise StartRefused(
            "`paydesk dev` moved the clock of this database, so it cannot be used in production. Set"
            " PAYDESK_DATABASE_URL to another one."
        )
    if await mark.find_or_set(database, "production", now_ms) == "development":
        raise StartRefused(
            "`paydesk dev` created this database: its seller, tokens and passwords are for development. Set"
            " PAYDESK_DATABASE_URL to another one and run `paydesk migrate`."
        )
