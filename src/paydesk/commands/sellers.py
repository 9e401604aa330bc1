"""`paydesk sellers`: the merchants whose terminals take the orders."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from paydesk.commands.client import Answer, Service, changes, segment
from paydesk.commands.command import command
from paydesk.commands.failure import WrongUsage
from paydesk.commands.lists import add_list
from paydesk.commands.options import group

app = group("Sellers, the merchants whose terminals take the orders.")
PATH = "/operator/v1/sellers"
PASSWORD_SHOWN_ONCE = "The password is not stored and cannot be shown again."  # noqa: S105 - a sentence

UserId = Annotated[str, typer.Argument(metavar="USER_ID", help="The seller, see `paydesk sellers list`.")]
PasswordOnStdin = Annotated[
    bool,
    typer.Option(
        "--password-stdin", help="Read the password from standard input. [default: generate one and show it once]"
    ),
]


@command(
    app,
    "create",
    "paydesk sellers create --email ana@shop.example --name 'Corner shop' --country BRA --currency BRL",
    "paydesk sellers create --email ana@shop.example --name 'Corner shop' --password-stdin < password.txt",
)
def create(
    service: Service,
    email: Annotated[str, typer.Option(help="The e-mail address for signing in.")],
    name: Annotated[str, typer.Option(help="The seller's name.")],
    country: Annotated[str, typer.Option(help="ISO 3166-1 alpha-3.")] = "BRA",
    currency: Annotated[str, typer.Option(help="ISO 4217; the currency of the seller's orders.")] = "BRL",
    *,
    password_stdin: PasswordOnStdin = False,
) -> tuple[Answer, str]:
    """Register a seller and print the generated password, which is shown only once."""
    body = {"email": email, "name": name, "country": country, "currency": currency}
    created = service.post(PATH, {**body, "password": _read_password() if password_stdin else None})
    return created, "" if password_stdin else PASSWORD_SHOWN_ONCE


add_list(app, "sellers")


@command(app, "show", "paydesk sellers show 1160535239 --json")
def show_one(service: Service, user_id: UserId) -> Answer:
    """Show a seller."""
    return service.get(f"{PATH}/{segment(user_id)}")


@command(app, "change", "paydesk sellers change 1160535239 --email ana@shop.example --name 'Ana'")
def change(
    service: Service,
    user_id: UserId,
    *,
    email: Annotated[str | None, typer.Option(help="The new e-mail address for signing in.")] = None,
    name: Annotated[str | None, typer.Option(help="The seller's name.")] = None,
) -> Answer:
    """Change only the given fields. Country and currency cannot change, because orders depend on them."""
    changed = changes(email=email, name=name)
    return service.request("PATCH", f"{PATH}/{segment(user_id)}", changed)


@command(
    app,
    "password",
    "paydesk sellers password 1160535239",
    "paydesk sellers password 1160535239 --password-stdin < password.txt",
    "paydesk sellers password 1160535239 --withdraw-all",
)
def password(
    service: Service,
    user_id: UserId,
    *,
    password_stdin: PasswordOnStdin = False,
    withdraw_all: Annotated[
        bool,
        typer.Option(
            "--withdraw-all", help="Withdraw the seller's authorization of every application; their tokens are refused."
        ),
    ] = False,
) -> tuple[Answer, str]:
    """Replace a seller's password and end their sessions. Applications keep their tokens without --withdraw-all."""
    body = {"password": _read_password() if password_stdin else None, "withdraw_all": withdraw_all or None}
    answer = service.post(f"{PATH}/{segment(user_id)}/password", body)
    notes = [] if password_stdin else [PASSWORD_SHOWN_ONCE]
    if answer["authorizations"]:
        notes.append(
            f"Remaining authorizations of this seller: {answer['authorizations']}. Applications keep their tokens."
            f" List them with `paydesk grants list --seller {user_id}`; withdraw them with --withdraw-all."
        )
    return answer, "\n".join(notes)


@command(app, "suspend", "paydesk sellers suspend 1160535239")
def suspend(service: Service, user_id: UserId) -> tuple[Answer, str]:
    """Suspend a seller: all tokens for the seller are refused, and the seller's sessions end."""
    suspended = service.post(f"{PATH}/{segment(user_id)}/suspend")
    return suspended, (
        f"Tokens for this seller are now refused. Resume the seller with `paydesk sellers resume {user_id}`."
    )


@command(app, "resume", "paydesk sellers resume 1160535239")
def resume(service: Service, user_id: UserId) -> Answer:
    """Resume a suspended seller; the tokens that applications had are accepted again."""
    return service.post(f"{PATH}/{segment(user_id)}/resume")


@command(app, "delete", "paydesk sellers delete 1160535239")
def delete(service: Service, user_id: UserId) -> Answer:
    """Delete a seller without terminals, stores, valid grants and orders; one with orders can be suspended."""
    service.request("DELETE", f"{PATH}/{segment(user_id)}")
    return {"user_id": user_id, "deleted": True}


def _read_password() -> str:
    """Return the password from standard input; an argument would be visible in the process list."""
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise WrongUsage("There is no password on standard input. Send it as one line.")
    return password
