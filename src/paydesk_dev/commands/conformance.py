"""`paydesk terminals conformance`: plays every case of the terminal protocol with a terminal under test."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from paydesk.commands.client.failure import Failure, WrongUsage
from paydesk.commands.client.options import AsJson, examples, note, show_list
from paydesk.commands.local.local import run
from paydesk.commands.nouns import terminals
from paydesk_dev.commands import case_outcomes
from paydesk_dev.commands.case_outcomes import JunitFile, ListCases, LogFile, Only

if TYPE_CHECKING:
    from paydesk_dev.conformance.case import Outcome
    from paydesk_dev.conformance.terminals.bench import Bench
    from paydesk_dev.conformance.terminals.kit import Restart

EPILOG = examples(
    "paydesk terminals conformance",
    "paydesk terminals conformance --listen 0.0.0.0:8390 --restart-command 'usb-power cycle 3'",
    "paydesk terminals conformance --run './my-terminal --journal /tmp/journal' --json",
    "paydesk terminals conformance --only cancel-before-permit --only cancel-wins",
    "paydesk terminals conformance --virtual",
)
COLUMNS = ("name", "section", "status", "seconds", "reason")
FIRST_HELLO_SECONDS = 600.0


@terminals.app.command("conformance", epilog=EPILOG)
def conformance(  # noqa: PLR0913  # one parameter per option
    listen: Annotated[
        str, typer.Option(metavar="ADDRESS:PORT", help="Where the terminal connects to; port 0 takes a free one.")
    ] = "127.0.0.1:8390",
    only: Only = None,
    timeout: Annotated[
        float, typer.Option(min=1, max=3600, help="How many seconds to wait for the terminal, or for a person at it.")
    ] = 60,
    restart_command: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="A command that restarts the terminal. [default: ask for it]")
    ] = None,
    program: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="COMMAND",
            help="Run this program as the terminal; it gets PAYDESK_BASE_URL and PAYDESK_DEVICE_TOKEN.",
        ),
    ] = None,
    kind: Annotated[
        Literal["terminal", "service"],
        typer.Option(help="`terminal`: it asks its own acquirer. `service`: the service asks for it."),
    ] = "terminal",
    log: LogFile = None,
    junit: JunitFile = None,
    *,
    pair: Annotated[
        bool, typer.Option("--pair", help="The terminal pairs itself, and the kit approves it. [default: with a token]")
    ] = False,
    virtual: Annotated[bool, typer.Option("--virtual", help="Test the built-in virtual terminal.")] = False,
    list_cases: ListCases = False,
    as_json: AsJson = False,
) -> None:
    """Test a terminal: play every case of the terminal protocol with it and print which ones held.

    Needs no account and no database. Point the terminal at the address with the device token that are printed. Follow
    the instructions: they say which card to present, and when to restart the terminal. Exits 1 unless every case held.
    """
    from paydesk_dev.conformance.terminals.rules import RULES
    from paydesk_dev.conformance.terminals.runner import CASES

    if list_cases:
        rows: list[dict[str, Any]] = [
            {"name": one.name, "section": one.section, "must": one.must} for one in CASES.values()
        ]
        rows += [{"name": name, "section": section, "must": must} for name, (section, must, _) in RULES.items()]
        show_list({"data": rows}, ("name", "section", "must"), as_json=as_json)
        return
    case_outcomes.refuse_unknown(only, CASES, "paydesk terminals conformance")
    if sum((virtual, program is not None, restart_command is not None)) > 1:
        raise WrongUsage("--virtual, --run and --restart-command exclude each other.")
    if virtual and pair:
        raise WrongUsage("The virtual terminal gets its token; leave --pair out.")
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise WrongUsage(f"{listen} is no address with a port. Give one such as 127.0.0.1:8390.")
    device = Device(program, restart_command, is_virtual=virtual, pairs=pair, kind=kind)
    case_outcomes.log_to(log)
    outcomes = run(_play((host.strip("[]"), int(port)), only or (), timeout, device))
    case_outcomes.report(outcomes, COLUMNS, junit, "paydesk.terminals", as_json=as_json)


async def _play(address: tuple[str, int], only: Collection[str], patience: float, device: Device) -> list[Outcome]:
    """Play the cases, each of which waits `patience` seconds at most."""
    from paydesk.platform.process import node
    from paydesk_dev.conformance.terminals import bench, runner
    from paydesk_dev.conformance.terminals.kit import Patience

    async with AsyncExitStack() as stack:
        listener = stack.enter_context(node.listen(*address))
        opened = await stack.enter_async_context(bench.opened(listener, Patience(patience), note, device.kind))
        opened.kit.restart_command = await device.start(opened, stack)
        is_started = device.is_virtual or device.program is not None
        if not await runner.first_hello(opened.kit, patience if is_started else FIRST_HELLO_SECONDS):
            raise Failure("The terminal sent no hello. Check its address and its device token.")
        return await case_outcomes.collected(runner.play(opened.kit, only, case_outcomes.begins))


@dataclass(frozen=True, slots=True)
class Device:
    """The start, restart and connection of the terminal under test."""

    program: str | None
    restart_command: str | None
    is_virtual: bool
    pairs: bool
    kind: Literal["terminal", "service"]

    async def start(self, opened: Bench, stack: AsyncExitStack) -> Restart | None:
        """Start the terminal, or print how it is connected; return how it is restarted, None for by hand."""
        from paydesk_dev.conformance.terminals import devices

        token = None if self.pairs else opened.device_token
        if self.is_virtual:
            return await stack.enter_async_context(devices.virtual(opened))
        if self.program is not None:
            try:
                return await stack.enter_async_context(devices.program(self.program, opened.base_url, token))
            except (OSError, ValueError) as error:
                raise Failure(f"{self.program} cannot be run: {error}.") from None
        note(f"Base URL      {opened.base_url}")
        if token is not None:
            note(f"Device token  {token.reveal()}")
        note("Waiting for the terminal's hello …")
        return None if self.restart_command is None else devices.by_command(self.restart_command)
