"""`paydesk dev`: the whole service in one process, with demo data that is created once and kept across restarts."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

from paydesk.core import keys
from paydesk.core.clock import MovableClock
from paydesk.core.keys import Keys
from paydesk.engine.payments import jobs
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.terminals import store as terminals
from paydesk.engine.terminals.store import Terminal
from paydesk.platform import logs, traces
from paydesk.platform.http.server import server
from paydesk.platform.operator_events import Reporter
from paydesk.platform.process import node
from paydesk.platform.process.node import StartRefused
from paydesk.platform.settings import Settings
from paydesk.platform.storage import mark
from paydesk.platform.storage.database import Database
from paydesk.platform.worker import WorkerContext
from paydesk.service.compose import compose
from paydesk.service.workers import run_all
from paydesk_dev import credentials_file as dev_credentials
from paydesk_dev.clock.clock import restore_clock
from paydesk_dev.console_key import ConsoleKey
from paydesk_dev.dev import fresh
from paydesk_dev.dev.credentials import CredentialsFile, LiveCredentials, NewPassword, spare_password
from paydesk_dev.dev.demo import SCRIPT, find_or_create, find_seller_id
from paydesk_dev.dev.greeting import find_playable, greeting
from paydesk_dev.dev.log_lines import LogLines, has_colors
from paydesk_dev.parts import parts
from paydesk_dev.proxy import access as proxy_access
from paydesk_dev.proxy.access import ProxyAccess
from paydesk_dev.tls import https
from paydesk_dev.tls.https import Https
from paydesk_dev.virtual.api import handlers as virtual
from paydesk_dev.virtual.fleet import Fleet

TAKEN = " Stop the program that uses it, or choose another port with --port."
ALL_INTERFACES = ("0.0.0.0", "::")  # noqa: S104 - set only by an explicit --host


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `paydesk dev`."""

    host: str
    port: int
    data: Path
    credentials: Path
    fresh: bool = False
    bare: bool = False
    """Without demo data."""
    until_eof: bool = False
    """Stop at the end of standard input too."""
    tls_port: int | None = None
    """The port of the TLS listener, which accepts the vendor's host names too, 0 for a free one; None for no TLS."""
    proxy_port: int | None = None
    """The port of the proxy, 0 for a free one; None for no proxy. It needs the TLS listener."""


def overrides(configured: Settings, options: Options) -> dict[str, Any]:
    """Return the development defaults of the settings that neither the environment nor a file sets."""
    defaults = {
        "database_url": f"sqlite:{options.data / 'paydesk.db'}",
        "keys_file": str(options.data / "keys.json"),
        "acquirer": "simulator",
        # Only failed authentications are throttled.
        "client_requests_per_second": 0,
        "token_requests_per_second": 0,
        "application_requests_per_second": 0,
        "device_requests_per_second": 0,
        "pairings_per_minute_address": 0,
        "pairing_polls_per_minute_address": 0,
        "searches_per_minute_address": 0,
        "resends_per_minute": 0,
    }
    return {name: value for name, value in defaults.items() if name not in configured.model_fields_set}


async def run(options: Options, settings: Settings) -> None:
    """Run until SIGTERM or Ctrl-C, and print the addresses; raises as `serve`."""
    lines = LogLines(colors=has_colors(sys.stderr))
    logs.configure(settings.log_format, level=settings.log_level, text_line=lines.of)
    node.log_version()
    await serve(options, settings, _stop_at_eof if options.until_eof else node.stop_on_signals, _say)


def _stop_at_eof(stop: asyncio.Event) -> None:
    """Make the signals set `stop`, and the end of standard input."""
    node.stop_on_signals(stop)
    loop = asyncio.get_running_loop()

    def read() -> None:
        # Not through `sys.stdin`, whose lock a thread that still reads would hold at the end of the process.
        with suppress(OSError):  # a terminal that has hung up
            while os.read(0, 4096):
                pass
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(stop.set)

    Thread(target=read, name="end of standard input", daemon=True).start()


def _say(text: str) -> None:
    """Print the greeting in one write, as programs wait for its first line. Its reader may have gone."""
    output = logs.Lasting(sys.stdout)
    output.write(f"{text}\n")
    output.flush()


async def serve(
    options: Options, settings: Settings, stop_on: Callable[[asyncio.Event], None], say: Callable[[str], None]
) -> None:
    """Run until the event is set that `stop_on` gets; `fresh` removes the database first. `say` gets the greeting.

    Raises `StartRefused`, `UnsafeDatabase`, `Unavailable` or `KeysError`.
    """
    make_folder(options.data)
    with (
        node.listen(options.host, options.port, taken=TAKEN) as listener,
        _listen_with_tls(options) as secure,
        _listen_for_proxy(options, secure) as proxy,
    ):
        base_url = _base_url(options.host, listener.getsockname()[1])
        if settings.public_url is None:
            settings = settings.model_copy(update={"public_url": base_url})
        if settings.operator_public_url is None:
            settings = settings.model_copy(update={"operator_public_url": settings.public_url})
        if options.fresh:
            await fresh.remove(settings, options.data)
        server_keys = _keys(Path(settings.keys_file))
        password = asyncio.create_task(_prepare_password(options))
        async with traces.recorded(settings), node.database_of(settings) as database:
            await prepare(database, MovableClock().now_ms())
            await jobs.release_all(database)
            clock = await restore_clock(database)
            now_ms = clock.now_ms()
            create = partial(find_or_create, base_url=base_url, keys=server_keys, now_ms=now_ms)
            demo = None if options.bare else await database.write(create)
            credentials = CredentialsFile(
                database, server_keys, settings, demo, base_url, now_ms, password, secure, proxy
            )
            key = ConsoleKey(await credentials.refresh(options.credentials), credentials.console_key)
            # One folder per seller: the journals of another database's terminals are not for this one.
            folder = str(await database.read(find_seller_id))
            journals, hint = options.data / fresh.JOURNALS / folder, database.signals.hint
            fleet = Fleet(base_url, journals, on_screen=lambda terminal_id: hint("screen", terminal_id))
            stop, ready = asyncio.Event(), asyncio.Event()
            stop_on(stop)
            live = LiveCredentials(credentials, options.credentials, clock)
            kept = dev_credentials.KeptCredentials(live.texts, live.renew, live.document)
            names = https.vendor_hosts() if secure is not None else frozenset[str]()
            added = parts(settings, server_keys, kept, key, fleet=fleet, https_host_names=names)
            service = compose(settings, database, server_keys, clock, added)
            tls = secure.tls if secure is not None else None
            playable = find_playable(demo, settings, server_keys) if demo is not None else None
            output = greeting(
                options.credentials,
                base_url,
                key.url(settings.operator_url),
                playable,
                secure,
                proxy,
                has_demo=demo is not None,
            )
            async with service.shared.objects[Reporter], service.shared.objects[Acquirers].running():
                await node.run_together(
                    stop,
                    server.serve(service.app(), listener, settings, ready.set, stop, tls),
                    *_serve_proxy(proxy, base_url, stop),
                    run_all(service.context, stop),
                    _run_terminals(fleet, service.context, partial(say, output), ready, stop),
                )


def _listen_with_tls(options: Options) -> AbstractContextManager[Https | None]:
    return nullcontext() if options.tls_port is None else https.listen(options.host, options.tls_port, options.data)


def _listen_for_proxy(options: Options, secure: Https | None) -> AbstractContextManager[ProxyAccess | None]:
    if secure is None or options.proxy_port is None:
        return nullcontext()
    return proxy_access.listen(secure, options.proxy_port)


def _serve_proxy(access: ProxyAccess | None, base_url: str, stop: asyncio.Event) -> list[Coroutine[Any, Any, None]]:
    if access is None:
        return []
    from paydesk_dev.proxy.proxy import Proxy

    return [Proxy(access.secure.address, base_url).serve(access.listening, stop)]


async def prepare(database: Database, now_ms: int) -> None:
    """Migrate the database and mark it for development. Raises `StartRefused` for a production database.

    A database with the production mark is refused unchanged. If another command sets that mark during the migration,
    the database is refused after it.
    """
    kind = await mark.find(database)
    if kind != "production":
        await fresh.migrate_with_kit(database, now_ms)
        kind = await mark.find_or_set(database, "development", now_ms)
    if kind == "production":
        raise StartRefused(
            "This database is for production: `paydesk dev` would add a demo seller and move its clock. Set"
            " PAYDESK_DATABASE_URL to another database, or unset it to use one in the data folder."
        )


async def _prepare_password(options: Options) -> NewPassword | None:
    """Hash a new password if one is needed, and import aiohttp: both take long and need no database."""
    importing = asyncio.to_thread(import_module, "aiohttp")
    if options.bare:
        await importing
        return None
    password, _ = await asyncio.gather(spare_password(options.credentials), importing)
    return password


async def _run_terminals(
    fleet: Fleet, context: WorkerContext, greet: Callable[[], None], ready: asyncio.Event, stop: asyncio.Event
) -> None:
    """Start the virtual terminals when the service is ready, greet, and stop them before the service."""

    async def start() -> None:
        await ready.wait()
        virtual_terminals = await context.database.read(terminals.virtual)
        # Terminals without a journal get a new token: they are new, or the folder was lost.
        retired = fleet.retired()
        for terminal_id in retired:
            deleted = partial(virtual.until_deleted, context.database, context.clock, terminal_id)
            fleet.remove_later(terminal_id, deleted)
        known = {*fleet.terminals(), *retired}
        new = [terminal for terminal in virtual_terminals if terminal.terminal_id not in known]
        await asyncio.gather(*(_add(fleet, context, terminal) for terminal in new))
        greet()

    await fleet.start()
    starting = asyncio.create_task(start())
    try:
        await node.until(stop, starting)
        await stop.wait()
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await fleet.stop()


async def _add(fleet: Fleet, context: WorkerContext, terminal: Terminal) -> None:
    now_ms = context.clock.now_ms()
    token = await context.database.write(
        lambda tx: terminals.mint_token(tx, terminal.seller_id, terminal.terminal_id, now_ms)
    )
    await fleet.add(terminal.terminal_id, token.reveal(), terminal.script or SCRIPT, kind=terminal.kind)


def make_folder(folder: Path) -> None:
    """Create the data folder. Raises `StartRefused` if it cannot be created or written to."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StartRefused(f"{folder} cannot be created: {error.strerror}. Choose one with --data.") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StartRefused(f"{folder} cannot be written to. Choose another folder with --data.")


def _keys(file: Path) -> Keys:
    if not file.exists():
        keys.add(file, activate=True)
    return keys.read(file)


def _base_url(host: str, port: int) -> str:
    name = "127.0.0.1" if host in ALL_INTERFACES else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}"
