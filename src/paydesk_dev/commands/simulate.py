"""`paydesk terminals simulate`: any number of virtual terminals as clients of any service."""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from paydesk.commands.client.client import Service
from paydesk.commands.client.command import command
from paydesk.commands.client.credentials import Credentials
from paydesk.commands.client.failure import Failure, Unreachable, WrongUsage
from paydesk.commands.client.options import harmless, note, show
from paydesk.commands.nouns import terminals
from paydesk.core.secrets import Secret

if TYPE_CHECKING:
    from paydesk_dev.virtual.simulation import Plan

EXAMPLES = (
    "paydesk terminals simulate --count 50 --script approve",
    "paydesk terminals simulate --count 2000 --script flaky:0.05:approve:0.2s --seed 7",
    "paydesk terminals simulate --script-file shop.toml --script lunch",
    "paydesk terminals simulate --device-url https://paydesk.example --seller 1160535239 --keep --journals ./journals",
)
FILES_PER_TERMINAL, FILES_RESERVED = 3, 100
"""A terminal's poll, the request of a payment, and a doubled one; and the other files of the process."""
NOTE_EVERY = 100
"""The number of terminals that are paired between two notes where standard error is no terminal."""


@command(terminals.app, "simulate", *EXAMPLES)
def simulate(  # noqa: PLR0913 - one parameter for each option
    service: Service,
    *,
    count: Annotated[int, typer.Option(min=1, max=10_000, help="The number of terminals.")] = 10,
    script: Annotated[
        str | None,
        typer.Option(
            help="What they do with orders: a script such as `approve:0.2s`, several as `approve*3,cancel@2s`, either"
            " after `flaky:0.05:`, or a name in the script file. [default: approve, or the first in the file]"
        ),
    ] = None,
    script_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A TOML file with lists of scripts by name.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Repeats the faults of `flaky`. [default: others each time]")] = None,
    seller: Annotated[int | None, typer.Option(metavar="USER_ID", help="The seller. [default: the only one]")] = None,
    device_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The service's address for terminals, if it is not the one for operators, as in `paydesk serve`.",
        ),
    ] = None,
    kind: Annotated[
        Literal["terminal", "service"] | None,
        typer.Option(
            help="`terminal`: they ask the simulated acquirer, in `paydesk dev`. `service`: the service asks its own."
            " [default: what the service offers]"
        ),
    ] = None,
    poll_seconds: Annotated[int, typer.Option(min=1, max=55, help="How long a poll waits for a message.")] = 25,
    journals: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A folder for the journals; a later run continues its terminals. [default: in memory]"
        ),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Do not remove the terminals at the end.")] = False,
    as_json: bool,
) -> None:
    """Pair virtual test terminals with a service, and let them process orders until Ctrl-C; then remove them.

    Each has a point of sale of its own, in a store made for them. Standard error shows what they do; the totals are
    printed at the end.
    """
    import asyncio

    from paydesk_dev.virtual.scripts import playlists, scripts
    from paydesk_dev.virtual.simulation import Plan

    try:
        by_name = playlists.read(script_file) if script_file is not None else {}
        playlist = playlists.parse(script or next(iter(by_name), "approve"), by_name)
    except ValueError as error:
        raise WrongUsage(f"{error}") from None
    if any(part.script.name == scripts.MANUAL for part in playlist.parts):
        raise WrongUsage(
            "The script manual waits for a person, and simulated terminals have no page to act on.",
            "Use another script, or create one terminal: `paydesk terminals create --virtual --script manual`.",
        )
    # Raise this process's limit of open files to what the terminals need.
    needed = count * FILES_PER_TERMINAL + FILES_RESERVED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise WrongUsage(
                f"{count} terminals need {needed} open files; the hard limit of this process is {hard}.",
                f"Simulate fewer with --count {max(1, (hard - FILES_RESERVED) // FILES_PER_TERMINAL)}, or raise it as"
                f" root: `ulimit -n {needed}`.",
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    plan = Plan(count, playlist, seller, kind, seed, poll_seconds, journals, keep)
    show(asyncio.run(_run(service.credentials, device_url, plan)), as_json=as_json)


async def _run(credentials: Credentials, device_url: str | None, plan: Plan) -> Mapping[str, int]:
    import asyncio

    import structlog

    from paydesk.platform.process import node
    from paydesk_dev import http_client
    from paydesk_dev.http_client import Client
    from paydesk_dev.virtual.simulation import Service, Simulation

    # What flaky terminals go through is expected, and counted: only defects are logged.
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger("error"),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    stop = asyncio.Event()
    node.stop_on_signals(stop)
    async with http_client.session(credentials.tls_context()) as http:
        watcher = Watcher()
        service = Service(
            Client(http, (device_url or credentials.base_url).rstrip("/")),
            Client(http, credentials.base_url, Secret(credentials.operator_token)),
        )
        try:
            return await Simulation(service, plan, watcher).run(stop)
        except http_client.Refused as refused:
            raise (Failure if refused.status else Unreachable)(str(refused)) from None
        finally:
            watcher.close()


class Watcher:
    """Shows a simulation on standard error: in one line that changes on a terminal, else a line for each change."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        # Where standard error is no terminal, a status prints nothing.
        self._status = self._console.status("connecting")
        self._latest, self._progress = "", "pairing"
        self._is_ready = self._was_busy = False
        self._status.start()

    def progress(self, phase: str, done: int, total: int) -> None:
        """Show how many terminals of the phase are done."""
        self._progress = f"{phase}: {done} of {total} terminals"
        self._status.update(self._progress)
        if not self._console.is_terminal and (done == total or done % NOTE_EVERY == 0):
            note(self._progress)

    def state(self, figures: Mapping[str, int]) -> None:
        """Show what the terminals do."""
        if not self._is_ready:
            self._is_ready = True
            self.note("The terminals are ready. Ctrl-C ends the simulation.")
        line = ", ".join(f"{figure} {name}" for name, figure in figures.items())
        self._status.update(line)
        if not self._console.is_terminal and line != self._latest:
            note(line)
        self._latest = line

    def note(self, message: str) -> None:
        """Print the message."""
        self._console.print(harmless(message), markup=False)

    def busy(self, seconds: float) -> None:
        """Show that the service is busy, or accepts no more pairings for now."""
        if not self._was_busy:
            self._was_busy = True
            self.note("The service limits pairings. For a load test, raise its setting pairings_per_minute_address.")
        self._status.update(f"{self._progress}; trying again in {seconds:g} s")

    def close(self) -> None:
        """End the changing line."""
        self._status.stop()
