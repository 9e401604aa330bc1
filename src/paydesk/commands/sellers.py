"""`paydesk sellers`: the merchants whose terminals take the orders."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from paydesk.commands.client import changes, operators, segment
from paydesk.commands.failure import WrongUsage
from paydesk.commands.options import After, AsJson, CredentialsFile, Limit, examples, group, note, show, show_list

app = group("Sellers: the merchants whose terminals take the orders.")
COLUMNS = ("user_id", "email", "name", "country", "currency", "created_date", "suspended_date")
PATH = "/operator/v1/sellers"

UserId = Annotated[str, typer.Argument(metavar="USER_ID", help="Which seller, of `paydesk sellers list`.")]
PasswordOnStdin = Annotated[
    bool,
    typer.Option(
        "--password-stdin", help="Read the password from standard input. [default: one is made and shown once]"
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
    email: Annotated[str, typer.Option(help="What the seller signs in with.")],
    name: Annotated[str, typer.Option(help="The seller's name.")],
    country: Annotated[str, typer.Option(help="ISO 3166, three letters.")] = "BRA",
    currency: Annotated[str, typer.Option(help="ISO 4217: what the seller's orders are in.")] = "BRL",
    *,
    password_stdin: PasswordOnStdin = False,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Register a seller. A password is made and shown once, now."""
    body = {"email": email, "name": name, "country": country, "currency": currency}
    answer = operators(credentials).post(PATH, {**body, "password": _given(password_stdin)})
    show(answer, as_json=as_json)
    _note_password(password_stdin)


@app.command("list", epilog=examples("paydesk sellers list"))
def list_(
    *, limit: Limit = 200, after: After = None, as_json: AsJson = False, credentials: CredentialsFile = None
) -> None:
    """List the sellers."""
    answer = operators(credentials).get(PATH, {"limit": limit, "after": after})
    show_list(answer, COLUMNS, as_json=as_json)


@app.command("show", epilog=examples("paydesk sellers show 1160535239 --json"))
def show_one(user_id: UserId, *, as_json: AsJson = False, credentials: CredentialsFile = None) -> None:
    """Show a seller."""
    show(operators(credentials).get(f"{PATH}/{segment(user_id)}"), as_json=as_json)


@app.command("change", epilog=examples("paydesk sellers change 1160535239 --email ana@shop.example --name 'Ana'"))
def change(
    user_id: UserId,
    *,
    email: Annotated[str | None, typer.Option(help="What the seller signs in with from now on.")] = None,
    name: Annotated[str | None, typer.Option(help="The seller's name.")] = None,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Change what is given, and nothing else. Country and currency stay: there are orders in them."""
    changed = changes(email=email, name=name)
    show(operators(credentials).request("PATCH", f"{PATH}/{segment(user_id)}", changed), as_json=as_json)


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
        typer.Option("--withdraw-all", help="Withdraw what the seller allowed every application: tokens stop working."),
    ] = False,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Set another password for a seller and end their sessions. Applications keep their tokens, unless withdrawn."""
    body = {"password": _given(password_stdin), "withdraw_all": withdraw_all or None}
    answer = operators(credentials).post(f"{PATH}/{segment(user_id)}/password", body)
    show(answer, as_json=as_json)
    _note_password(password_stdin)
    if answer["authorizations"]:
        note(
            f"Authorizations of this seller that stay: {answer['authorizations']}. Applications keep their tokens."
            f" `paydesk grants list --seller {user_id}` lists them, --withdraw-all withdraws them."
        )


@app.command("suspend", epilog=examples("paydesk sellers suspend 1160535239"))
def suspend(user_id: UserId, *, as_json: AsJson = False, credentials: CredentialsFile = None) -> None:
    """Stop all tokens that act for a seller, and sign them out."""
    show(operators(credentials).post(f"{PATH}/{segment(user_id)}/suspend", {}), as_json=as_json)
    note(f"Tokens for this seller are refused from now on. `paydesk sellers resume {user_id}` lets them go on.")


@app.command("resume", epilog=examples("paydesk sellers resume 1160535239"))
def resume(user_id: UserId, *, as_json: AsJson = False, credentials: CredentialsFile = None) -> None:
    """Let a suspended seller go on; applications have the tokens they had."""
    show(operators(credentials).post(f"{PATH}/{segment(user_id)}/resume", {}), as_json=as_json)


def _given(password_stdin: bool) -> str | None:  # noqa: FBT001 - private
    """The password on standard input: an argument would stand in the list of processes for everybody to read."""
    if not password_stdin:
        return None
    given = sys.stdin.readline().rstrip("\r\n")
    if not given:
        raise WrongUsage("There is no password on standard input.")
    return given


def _note_password(password_stdin: bool) -> None:  # noqa: FBT001 - private
    if not password_stdin:
        note("The password is not kept and can't be shown again.")
