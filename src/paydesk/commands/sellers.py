"""`paydesk sellers`: the merchants whose terminals take the orders."""

from __future__ import annotations

from typing import Annotated

import typer

from paydesk.commands.client import operators
from paydesk.commands.options import After, AsJson, CredentialsFile, Limit, examples, group, show, show_list

app = group("Sellers: the merchants whose terminals take the orders.")
COLUMNS = ("user_id", "email", "name", "country", "currency", "created_date")


@app.command(
    "create",
    epilog=examples(
        "paydesk sellers create --email ana@shop.example --name 'Corner shop' --country BRA --currency BRL"
    ),
)
def create(
    email: Annotated[str, typer.Option(help="What the seller signs in with.")],
    name: Annotated[str, typer.Option(help="The seller's name.")],
    country: Annotated[str, typer.Option(help="ISO 3166, three letters.")] = "BRA",
    currency: Annotated[str, typer.Option(help="ISO 4217: what the seller's orders are in.")] = "BRL",
    *,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Register a seller. A password is made and shown once, now."""
    answer = operators(credentials).post(
        "/operator/v1/sellers", {"email": email, "name": name, "country": country, "currency": currency}
    )
    show(answer, as_json=as_json)


@app.command("list", epilog=examples("paydesk sellers list"))
def list_(
    *, limit: Limit = 200, after: After = None, as_json: AsJson = False, credentials: CredentialsFile = None
) -> None:
    """List the sellers."""
    answer = operators(credentials).get("/operator/v1/sellers", {"limit": limit, "after": after})
    show_list(answer, COLUMNS, as_json=as_json)
