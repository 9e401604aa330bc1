"""`paydesk sellers`: the merchants whose terminals take the orders."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from paydesk.commands.client import changes, operator_service, segment
from paydesk.commands.failure import WrongUsage
from paydesk.commands.lists import add_list
from paydesk.commands.options import AsJson, CredentialsFile, examples, group, note, show

app = group("Sellers, the merchants whose terminals take the orders.")
PATH = "/operator/v1/sellers"

UserId = Annotated[str, typer.Argument(metavar="USER_ID", help="The seller, see `paydesk sellers list`.")]
PasswordOnStdin = Annotated[
    bool,
    typer.Option(
        "--password-stdin", help="Read the password from standard input. [default: generate one and show it once]"
    ),
]


@app.command(
    "create",
    epilog=examples(
        "paydesk sellers create --email ana@shop.example --name 'Corner shop' --country BRA --currency BRL",
        "paydesk sellers create --email ana@shop.example --name 'Corner shop' --password-stdin < password.txt",
    ),
)
def create(
    email: Annotated[str, typer.Option(help="The e-mail address for signing in.")],
    name: Annotated[str, typer.Option(help="The seller's name.")],
    country: Annotated[str, typer.Option(help="ISO 3166-1 alpha-3.")] = "BRA",
    currency: Annotated[str, typer.Option(help="ISO 4217; the currency of the seller's orders.")] = "BRL",
    *,
    password_stdin: PasswordOnStdin = False,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Register a seller and print the generated password, which is shown only once."""
    body = {"email": email, "name": name, "country": country, "currency": currency}
    answer = operator_service(credentials).post(PATH, {**body, "password": _read_password(password_stdin)})
    show(answer, as_json=as_json)
    _note_password(password_stdin)


add_list(app, "sellers")


@app.command("show", epilog=examples("paydesk sellers show 1160535239 --json"))
def show_one(user_id: UserId, *, as_json: AsJson = False, credentials: CredentialsFile = None) -> None:
    """Show a seller."""
    show(operator_service(credentials).get(f"{PATH}/{segment(user_id)}"), as_json=as_json)


@app.command("change", epilog=examples("paydesk sellers change 1160535239 --email ana@shop.example --name 'Ana'"))
def change(
    user_id: UserId,
    *,
    email: Annotated[str | None, typer.Option(help="The new e-mail address for signing in.")] = None,
    name: Annotated[str | None, typer.Option(help="The seller's name.")] = None,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Change only the given fields. Country and currency cannot change, because orders depend on them."""
    changed = changes(email=email, name=name)
    show(operator_service(credentials).request("PATCH", f"{PATH}/{segment(user_id)}", changed), as_json=as_json)


@app.command(
    "password",
    epilog=examples(
        "paydesk sellers password 1160535239",
        "paydesk sellers password 1160535239 --password-stdin < password.txt",
        "paydesk sellers password 1160535239 --withdraw-all",
    ),
)
def password(
    user_id: UserId,
    *,
    password_stdin: PasswordOnStdin = False,
    withdraw_all: Annotated[
        bool,
        typer.Option(
            "--withdraw-all", help="Withdraw the seller's authorization of every application; their tokens are refused."
        ),
    ] = False,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Replace a seller's password and end their sessions. Applications keep their tokens without --withdraw-all."""
    body = {"password": _read_password(password_stdin), "withdraw_all": withdraw_all or None}
    answer = operator_service(credentials).post(f"{PATH}/{segment(user_id)}/password", body)
    show(answer, as_json=as_json)
    _note_password(password_stdin)
    if answer["authorizations"]:
        note(
            f"Remaining authorizations of this seller: {answer['authorizations']}. Applications keep their tokens."
            f" List them with `paydesk grants list --seller {user_id}`; withdraw them with --withdraw-all."
        )


@app.command("suspend", epilog=examples("paydesk sellers suspend 1160535239"))
def suspend(user_id: UserId, *, as_json: AsJson = False, credentials: CredentialsFile = None) -> None:
    """Suspend a seller: all tokens for the seller are refused, and the seller's sessions end."""
    show(operator_service(credentials).post(f"{PATH}/{segment(user_id)}/suspend", {}), as_json=as_json)
    note(f"Tokens for this seller are now refused. Resume the seller with `paydesk sellers resume {user_id}`.")


@app.command("resume", epilog=examples("paydesk sellers resume 1160535239"))
def resume(user_id: UserId, *, as_json: AsJson = False, credentials: CredentialsFile = None) -> None:
    """Resume a suspended seller; the tokens that applications had are accepted again."""
    show(operator_service(credentials).post(f"{PATH}/{segment(user_id)}/resume", {}), as_json=as_json)


def _read_password(password_stdin: bool) -> str | None:  # noqa: FBT001 - private
    """Return the password from standard input; an argument would be visible in the process list."""
    if not password_stdin:
        return None
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise WrongUsage("There is no password on standard input. Send it as one line.")
    return password


def _note_password(password_stdin: bool) -> None:  # noqa: FBT001 - private
    if not password_stdin:
        note("The password is not stored and cannot be shown again.")
