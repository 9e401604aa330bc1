"""`paydesk terminals create`, `screen` and `act`: make a virtual terminal of `paydesk dev`, and use it as a person."""

from __future__ import annotations

from typing import Annotated

import typer

from paydesk.commands.application.application import VIRTUAL_TERMINALS
from paydesk.commands.client.client import Answer, Service, segment
from paydesk.commands.client.command import command
from paydesk.commands.client.failure import WrongUsage
from paydesk.commands.nouns import terminals
from paydesk_dev.commands.pay import checked_script

TERMINAL = "PAYDESK_VIRTUAL__C2AFE1BB4D93"
SCREEN_EXAMPLES = (f"paydesk terminals screen {TERMINAL}", f"paydesk terminals screen {TERMINAL} --json")
ACT_EXAMPLES = (
    f"paydesk terminals act {TERMINAL} tap --card visa_approved",
    f"paydesk terminals act {TERMINAL} insert --card insufficient_amount",
    f"paydesk terminals act {TERMINAL} pin --digits 1234",
    f"paydesk terminals act {TERMINAL} choose --value 10",
    f"paydesk terminals act {TERMINAL} press --press cancel",
    f"paydesk terminals act {TERMINAL} go_offline --seconds 20",
    f"paydesk terminals act {TERMINAL} reboot",
)

TerminalId = Annotated[str, typer.Argument(metavar="TERMINAL_ID", help="A virtual terminal.")]


def _check_virtual(*, value: bool) -> None:
    if not value:
        raise WrongUsage("Only virtual terminals can be created. Add --virtual.")


@command(
    terminals.app,
    "create",
    "paydesk terminals create --virtual --script approve",
    "paydesk terminals create --virtual --script manual    # then open its `page_url` in a browser",
    "paydesk terminals create --virtual --script decline:insufficient_amount --json",
    "paydesk terminals create --virtual --script ignore --seller 1160535239",
)
def create_terminal(
    service: Service,
    *,
    _virtual: Annotated[
        bool,
        typer.Option(
            "--virtual", callback=_check_virtual, help="A virtual terminal, available at once (in `paydesk dev`)."
        ),
    ] = False,
    script: Annotated[
        str,
        typer.Option(
            help="How it behaves: `approve`, `decline:<detail>`, `cancel`, `ignore`, `hold`, or `manual`: you play it.",
            callback=checked_script,
        ),
    ] = "approve",
    seller: Annotated[
        int | None, typer.Option(metavar="USER_ID", help="The seller. [default: the demo seller]")
    ] = None,
    pos: Annotated[int | None, typer.Option(metavar="POS_ID", help="The point of sale. [default: a new one]")] = None,
    mode: Annotated[str | None, typer.Option(help="PDV, STANDALONE or SELF_SERVICE. [default: PDV]")] = None,
) -> Answer:
    """Add a virtual terminal, which takes orders at once, and print the address of its page."""
    body = {"seller_id": seller, "script": script, "pos_id": pos, "operating_mode": mode}
    return service.post("/operator/v1/terminals", body)


@command(terminals.app, "screen", *SCREEN_EXAMPLES)
def screen(service: Service, terminal_id: TerminalId) -> Answer:
    """Show the screen of a virtual terminal, and the actions that it takes."""
    return service.get(f"{VIRTUAL_TERMINALS}/{segment(terminal_id)}/screen")


@command(terminals.app, "act", *ACT_EXAMPLES)
def act(  # noqa: PLR0913 - one parameter for each option
    service: Service,
    terminal_id: TerminalId,
    action: Annotated[
        str,
        typer.Argument(
            help=(
                "tap, insert, swipe, phone, scan, pin, choose, press, press_cancel, remove_card, take_paper,"
                " load_paper, reboot, power_off, power_on, go_offline, go_online, lose_acknowledgement or set_script."
            )
        ),
    ],
    *,
    card: Annotated[str | None, typer.Option(help="The test card, for tap, insert, swipe and phone.")] = None,
    digits: Annotated[str | None, typer.Option(help="The PIN, for pin.")] = None,
    value: Annotated[int | None, typer.Option(help="The tip or the number of installments, for choose.")] = None,
    press: Annotated[str | None, typer.Option(help="The key, for press, such as ok, clear, cancel or 5.")] = None,
    seconds: Annotated[float | None, typer.Option(help="For how long, for go_offline.")] = None,
    noticed: Annotated[bool | None, typer.Option("--noticed", help="Shown offline at once, for go_offline.")] = None,
    script: Annotated[str | None, typer.Option(help="The script, for set_script; from the next order on.")] = None,
) -> Answer:
    """Do what a person would do at a virtual terminal, and show its screen afterwards."""
    fields = {
        "action": action,
        "card": card,
        "digits": digits,
        "value": value,
        "key": press,
        "seconds": seconds,
        "noticed": noticed,
        "script": script,
    }
    return service.post(f"{VIRTUAL_TERMINALS}/{segment(terminal_id)}/actions", fields)
