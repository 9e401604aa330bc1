"""`paydesk inquiries`, `reversals`, `refunds`: what the acquirer is asked, and how to end a reversal."""

from __future__ import annotations

from typing import Annotated

import typer

from paydesk.commands.client import operators, segment
from paydesk.commands.options import After, AsJson, CredentialsFile, Limit, OfSeller, examples, group, show, show_list

inquiries = group("Orders whose outcome nobody knows yet.")
reversals = group("Approvals that belong to no order, and are given back.")
refunds = group("Payments that are given back, as a whole or in part.")
INQUIRY_COLUMNS = ("order_id", "status", "outcome", "reason", "attempts", "next_date")
REVERSAL_COLUMNS = ("id", "order_id", "status", "confirmed", "amount_minor", "reference_id", "attempts", "next_date")
REFUND_COLUMNS = ("id", "order_id", "status", "amount", "attempts", "created_date", "next_date")


@inquiries.command("list", epilog=examples("paydesk inquiries list", "paydesk inquiries list --all --json"))
def list_inquiries(
    *,
    every: Annotated[bool, typer.Option("--all", help="Those that have ended too.")] = False,
    seller: OfSeller = None,
    limit: Limit = 200,
    after: After = None,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """List orders whose outcome is unknown, and when the acquirer is asked next."""
    query = {"open": None if every else "true", "seller": seller, "limit": limit, "after": after}
    show_list(operators(credentials).get("/operator/v1/inquiries", query), INQUIRY_COLUMNS, as_json=as_json)


@reversals.command("list", epilog=examples("paydesk reversals list", "paydesk reversals list --status pending"))
def list_reversals(
    status: Annotated[str | None, typer.Option(help="pending, reversed or not_found.")] = None,
    seller: OfSeller = None,
    *,
    limit: Limit = 200,
    after: After = None,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """List late approvals, and how far giving them back has come."""
    query = {"status": status, "seller": seller, "limit": limit, "after": after}
    show_list(operators(credentials).get("/operator/v1/reversals", query), REVERSAL_COLUMNS, as_json=as_json)


@reversals.command(
    "resolve",
    epilog=examples(
        "paydesk reversals resolve 01J67CQQH5904WDBVZEM4JMEP3 --outcome reversed --reason 'Done in the portal.'"
    ),
)
def resolve(
    reversal_id: Annotated[str, typer.Argument(help="The reversal's id.")],
    *,
    outcome: Annotated[str, typer.Option(help="reversed or not_found: given back otherwise, or nothing was there.")],
    reason: Annotated[str, typer.Option(help="How you know; it is kept in the audit trail.")],
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """End a reversal that the acquirer does not confirm, from ten minutes after the approval came."""
    path = f"/operator/v1/reversals/{segment(reversal_id)}/resolve"
    show(operators(credentials).post(path, {"outcome": outcome, "reason": reason}), as_json=as_json)


@refunds.command("list", epilog=examples("paydesk refunds list --status processing"))
def list_refunds(
    status: Annotated[str | None, typer.Option(help="processing, processed or failed.")] = None,
    seller: OfSeller = None,
    *,
    limit: Limit = 200,
    after: After = None,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """List refunds, and when the acquirer is asked again for those that have no end yet."""
    query = {"status": status, "seller": seller, "limit": limit, "after": after}
    show_list(operators(credentials).get("/operator/v1/refunds", query), REFUND_COLUMNS, as_json=as_json)
