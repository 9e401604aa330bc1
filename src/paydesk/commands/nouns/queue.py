"""`paydesk terminals queue` and `release`: which order or print action holds a terminal, and how to free it."""

from __future__ import annotations

from typing import Annotated

import typer

from paydesk.commands.client.client import Answer, Service, segment
from paydesk.commands.client.command import command
from paydesk.commands.client.options import show
from paydesk.commands.nouns import terminals

TerminalId = Annotated[str, typer.Argument(metavar="TERMINAL_ID", help="The terminal, see `paydesk terminals list`.")]

QUEUE_EXAMPLE = "paydesk terminals queue NEWLAND_N950__N950NCB801293324"
RELEASE_EXAMPLE = "paydesk terminals release NEWLAND_N950__N950NCB801293324 --reason 'The terminal is broken.'"

RELEASE = "To free the terminal: paydesk terminals release {terminal_id} --reason '…'"
RESOLVE = (
    "To set the outcome, from {resolvable_date}: paydesk orders resolve {id} --outcome approved|declined --reason '…'"
)
WAIT = "The terminal cannot be released now, because the card may be charged."
ADVICE = {
    **dict.fromkeys(("acknowledgement", "payment", "cancel_answer", "fetch", "printing"), RELEASE),
    **dict.fromkeys(("result", "decision"), WAIT),
    "reversal": f"{WAIT}\nIt can only end as declined.\n{RESOLVE.replace('approved|', '')}",
}
"""The advice about a wait, by `waits_for`."""


@command(terminals.app, "queue", QUEUE_EXAMPLE)
def queue(service: Service, terminal_id: TerminalId, *, as_json: bool) -> None:
    """Show what holds a terminal, an order or a print action, what it waits for, until when, and how to free it."""
    answer = service.get(f"/operator/v1/terminals/{segment(terminal_id)}/queue")
    show(answer, _text(terminal_id, answer), as_json=as_json)


@command(terminals.app, "release", RELEASE_EXAMPLE)
def release(
    service: Service,
    terminal_id: TerminalId,
    *,
    reason: Annotated[str, typer.Option(help="Why it is released; recorded in the audit trail.")],
    as_json: bool,
) -> None:
    """Cancel what holds a terminal. Refused once the terminal may charge the card: exit code 1."""
    answer = service.post(f"/operator/v1/terminals/{segment(terminal_id)}/release", {"reason": reason})
    released, text = answer.get("released"), _text(terminal_id, answer)
    show(answer, f"{released['id']} is {released['status']}.\n{text}" if released else text, as_json=as_json)


def _text(terminal_id: str, answer: Answer) -> str:
    """Return what holds the terminal, and the command that frees it."""
    slot = answer.get("current")
    if slot is None:
        return f"{terminal_id} is free: no order and no print action holds it."
    seen = f", last seen {slot['last_seen_date']}" if "last_seen_date" in slot else ", never seen"
    advice = ADVICE.get(slot["waits_for"], f"{WAIT}\n{RESOLVE}").format(terminal_id=terminal_id, **slot)
    return (
        f"{slot['id']} holds {terminal_id}: {slot['status']} since {slot['since_date']}.\n{slot['message']}\n"
        f"The terminal is {slot['terminal_presence']}{seen}.\n{advice}"
    )
