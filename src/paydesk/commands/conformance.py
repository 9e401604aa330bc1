"""`paydesk terminals conformance`: plays every case of the terminal protocol with a terminal under test."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paydesk.commands.failure import Failure, WrongUsage
from paydesk.commands.local import run
from paydesk.commands.options import AsJson, examples, note, show_list

if TYPE_CHECKING:
    from paydesk.conformance.bench import Bench
    from paydesk.conformance.case import Case, Outcome

EPILOG = examples(
    "paydesk terminals conformance",
    "paydesk terminals conformance --listen 0.0.0.0:8390 --restart-command 'usb-power cycle 3'",
    "paydesk terminals conformance --run './my-terminal --journal /tmp/journal' --json",
    "paydesk terminals conformance --only cancel-before-permit --only cancel-wins",
    "paydesk terminals conformance --virtual",
)
COLUMNS = ("name", "section", "status", "seconds", "reason")
FIRST_HELLO_SECONDS = 600.0


def conformance(  # noqa: PLR0913  # one parameter per option
    listen: Annotated[
        str, typer.Option(metavar="ADDRESS:PORT", help="Where the terminal connects to; port 0 takes a free one.")
    ] = "127.0.0.1:8390",
    only: Annotated[
        list[str] | None, typer.Option(metavar="CASE", help="Play only this case; may be repeated. [default: all]")
    ] = None,
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
    log: Annotated[
        Path | None, typer.Option(dir_okay=False, metavar="FILE", help="Append the service's log to this file.")
    ] = None,
    *,
    virtual: Annotated[bool, typer.Option("--virtual", help="Test the built-in virtual terminal.")] = False,
    list_cases: Annotated[bool, typer.Option("--list", help="List the cases and exit.")] = False,
    as_json: AsJson = False,
) -> None:
    """Test a terminal: play every case of the terminal protocol with it and print which ones held.

    Needs no account and no database. Point the terminal at the address with the device token that are printed. Follow
    the instructions: they say which card to present, and when to restart the terminal. Exits 1 unless every case held.
    """
    from paydesk.conformance.rules import RULES
    from paydesk.conformance.runner import CASES

    if list_cases:
        rows: list[dict[str, Any]] = [
            {"name": one.name, "section": one.section, "must": one.must} for one in CASES.values()
        ]
        rows += [{"name": name, "section": section, "must": must} for name, (section, must, _) in RULES.items()]
        show_list({"data": rows}, ("name", "section", "must"), as_json=as_json)
        return
    unknown = sorted(set(only or ()) - CASES.keys())
    if unknown:
        raise WrongUsage(f"There is no case {', '.join(unknown)}. `paydesk terminals conformance --list` lists all.")
    if sum((virtual, program is not None, restart_command is not None)) > 1:
        raise WrongUsage("--virtual, --run and --restart-command exclude each other.")
    _write_log(log)
    outcomes = run(_play(_address(listen), only or (), timeout, restart_command, program, virtual=virtual))
    show_list({"data": [_row(outcome) for outcome in outcomes]}, COLUMNS, as_json=as_json)
    missed = [outcome.name for outcome in outcomes if not outcome.passed]
    if missed:
        raise Failure(f"{len(missed)} of {len(outcomes)} did not hold: {', '.join(missed)}.")
    note(f"All {len(outcomes)} held.")


async def _play(
    address: tuple[str, int],
    only: list[str] | tuple[str, ...],
    timeout: float,  # noqa: ASYNC109  # how long each case waits
    restart_command: str | None,
    program: str | None,
    *,
    virtual: bool,
) -> list[Outcome]:
    from paydesk import node
    from paydesk.conformance import bench, devices, runner
    from paydesk.conformance.kit import Patience

    async with AsyncExitStack() as stack:
        listener = stack.enter_context(node.listen(*address))
        opened = await stack.enter_async_context(bench.opened(listener, Patience(timeout), note))
        kit, token = opened.kit, opened.device_token
        if virtual:
            device = devices.virtual(opened.base_url, opened.folder / "terminal", opened.terminal_id, token)
            kit.restart_command = await stack.enter_async_context(device)
        elif program is not None:
            try:
                kit.restart_command = await stack.enter_async_context(devices.program(program, opened.base_url, token))
            except (OSError, ValueError) as error:
                raise Failure(f"{program} cannot be run: {error}.") from None
        else:
            kit.restart_command = devices.by_command(restart_command) if restart_command is not None else None
            _greet(opened)
        if not await runner.first_hello(kit, FIRST_HELLO_SECONDS if kit.restart_command is None else timeout):
            raise Failure("The terminal sent no hello. Check its address and its device token.")
        outcomes = []
        async for outcome in runner.play(kit, only, _announce):
            outcomes.append(outcome)
            note(f"{outcome.name}: {outcome.status}{'. ' if outcome.reason else ''}{outcome.reason}")
        return outcomes


def _write_log(file: Path | None) -> None:
    """Write the service's log to the file; without one, discard it. Raises `Failure`."""
    from paydesk import logs

    try:
        logs.configure("text", Path(file or os.devnull).open("a", buffering=1))  # noqa: SIM115  # open until the end
    except OSError as error:
        raise Failure(f"{file} cannot be written to: {error.strerror}. Choose another file with --log.") from None


def _greet(opened: Bench) -> None:
    note(f"Base URL      {opened.base_url}")
    note(f"Device token  {opened.device_token.reveal()}")
    note("Waiting for the terminal's hello …")


def _announce(case: Case) -> None:
    note(f"\n{case.name}: {case.must}")


def _row(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.name,
        "section": outcome.section,
        "must": outcome.must,
        "status": outcome.status,
        "seconds": round(outcome.seconds, 1),
        "reason": outcome.reason,
    }


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise WrongUsage(f"{text} is no address with a port. Give one such as 127.0.0.1:8390.")
    return host.strip("[]"), int(port)
