"""Starts and restarts of the terminal under test, where no person does it."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from paydesk.core.secrets import Secret
from paydesk_dev.conformance.terminals.bench import Bench
from paydesk_dev.conformance.terminals.kit import Restart
from paydesk_dev.virtual.fleet import Fleet

SCRIPT = "approve:0.2s"


@asynccontextmanager
async def virtual(bench: Bench) -> AsyncIterator[Restart]:
    """Run the built-in virtual terminal on the bench; yield a function that restarts it from its journal."""
    folder, shop = bench.folder / "terminal", bench.kit.shop
    fleet = Fleet(bench.base_url, folder)
    await fleet.start()
    adding = asyncio.create_task(fleet.add(shop.terminal_id, bench.device_token.reveal(), SCRIPT, kind=shop.kind))

    async def restart() -> None:
        nonlocal fleet
        await fleet.stop()
        fleet = Fleet(bench.base_url, folder)
        await fleet.start()

    try:
        yield restart
    finally:
        adding.cancel()
        await asyncio.gather(adding, return_exceptions=True)
        await fleet.stop()


@asynccontextmanager
async def program(command: str, base_url: str, token: Secret | None) -> AsyncIterator[Restart]:
    """Run the command as the terminal; yield a function that kills it and starts it again.

    The command gets the address and the token, if there is one, as `PAYDESK_BASE_URL` and `PAYDESK_DEVICE_TOKEN`.
    Raises `OSError`, and `ValueError` for quotes that are not closed.
    """
    environment = {**os.environ, "PAYDESK_BASE_URL": base_url}
    if token is not None:
        environment["PAYDESK_DEVICE_TOKEN"] = token.reveal()
    process = await _started(command, environment)

    async def restart() -> None:
        nonlocal process
        await _kill(process)
        process = await _started(command, environment)

    try:
        yield restart
    finally:
        await _kill(process)


def by_command(command: str) -> Restart:
    """Return a restart by a command, such as one that switches the terminal's power."""

    async def restart() -> None:
        process = await _started(command, dict(os.environ))
        await process.wait()

    return restart


async def _started(command: str, environment: dict[str, str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *shlex.split(command),
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill the process and those that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
