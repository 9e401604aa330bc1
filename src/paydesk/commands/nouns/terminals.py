"""`paydesk terminals`: add, pair, change and delete the terminals that take the orders."""

from __future__ import annotations

from typing import Annotated

import typer

from paydesk.commands.client.asking import Yes, confirm, refuse_unattended
from paydesk.commands.client.client import Answer, Service
from paydesk.commands.client.command import command
from paydesk.commands.client.failure import Failure, WrongUsage
from paydesk.commands.client.options import group, note
from paydesk.commands.tables.rows import add_rows
from paydesk.engine.terminals.pairing import codes as pairing_codes

app = add_rows(group("Terminals, which take the orders."), "terminals")

StoreId = Annotated[
    int | None,
    typer.Option("--store", metavar="STORE_ID", help="The store. [default: the seller's first one, or a new one]"),
]
PosId = Annotated[
    int | None,
    typer.Option("--pos", metavar="POS_ID", help="The point of sale. [default: one named after the terminal]"),
]


@command(
    app,
    "pair",
    "paydesk terminals pair BCDF-GHJK --seller 1160535239",
    "paydesk terminals pair BCDF-GHJK --seller 1160535239 --store 47792478 --kind service --test --yes --json",
    "paydesk terminals pair BCDF-GHJK --seller 1160535239 --replace",
    "paydesk terminals pair BCDF-GHJK --deny",
)
def pair(  # noqa: PLR0913  # one parameter per option
    service: Service,
    code: Annotated[str, typer.Argument(metavar="CODE", help="The eight letters that the terminal shows.")],
    *,
    seller: Annotated[int | None, typer.Option(metavar="USER_ID", help="The seller.")] = None,
    store: StoreId = None,
    pos: PosId = None,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="terminal|service",
            help="terminal: it asks the acquirer itself; service: Paydesk does. [default: terminal]",
        ),
    ] = None,
    live: Annotated[
        bool | None, typer.Option("--live/--test", help="Live orders or test orders, never both. [default: live]")
    ] = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Pair again: the earlier token is revoked, the mode is reset, what is not given stays."
        ),
    ] = False,
    deny: Annotated[bool, typer.Option("--deny", help="Deny the pairing.")] = False,
    yes: Yes = False,
) -> Answer | tuple[Answer, str]:
    """Pair the terminal that shows the code with a seller, after a question; or deny the pairing."""
    user_code = pairing_codes.canonical(code)
    if user_code is None:
        raise WrongUsage(f"'{code}' is not a pairing code. The terminal shows eight letters, such as BCDF-GHJK.")
    path = f"/operator/v1/pairings/{user_code}"
    if deny:
        service.request("DELETE", path)
        return {"denied": True}
    if seller is None:
        raise WrongUsage("The option --seller is missing; see `paydesk sellers list`.")
    refuse_unattended(yes=yes)
    seen = service.get(path)
    paired = "yes" if seen["paired"] else "no"
    note(f"model {seen['model']}, serial {seen['serial']}, address {seen['address']}, paired already: {paired}")
    if seen["paired"] and not replace:
        raise Failure(
            f"{seen['terminal_id']} is paired already.",
            "Add --replace to pair it again; its earlier device token is then revoked.",
            "If it belongs to another seller, delete it there first: paydesk terminals delete.",
        )
    confirm(question(seller, store, pos, live=live, is_paired=seen["paired"]), yes=yes)
    body = {
        "seller_id": seller,
        "store_id": store,
        "pos_id": pos,
        "kind": kind,
        "live_mode": live,
        "replace": replace or None,
    }
    answer = service.post(path, body)
    return answer, f"It takes orders once its mode is set: `paydesk terminals change {answer['id']} --mode PDV`."


def question(seller: int, store: int | None, pos: int | None, *, live: bool | None, is_paired: bool) -> str:
    """Return the question that names what the pairing will do."""
    places = "".join(f", {name} {number}" for name, number in (("store", store), ("pos", pos)) if number is not None)
    kept = "" if is_paired else " for live orders"
    orders = kept if live is None else f" for {'live' if live else 'test'} orders"
    return f"Pair it{' again' if is_paired else ''} with seller {seller}{places}{orders}?"
