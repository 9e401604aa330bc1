"""`paydesk grants`: which applications may act for which sellers."""

from __future__ import annotations

from typing import Annotated

import typer

from paydesk.commands.client import operators, segment
from paydesk.commands.options import After, AsJson, CredentialsFile, Limit, OfSeller, examples, group, show, show_list

app = group("Grants: which applications may act for which sellers.")
COLUMNS = ("id", "seller_id", "client_id", "application_name", "scope", "created_date", "withdrawn_date")


@app.command("list", epilog=examples("paydesk grants list", "paydesk grants list --seller 1160535239 --json"))
def list_(
    seller: OfSeller = None,
    *,
    limit: Limit = 200,
    after: After = None,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """List the grants, withdrawn ones too, a seller's oldest first."""
    answer = operators(credentials).get("/operator/v1/grants", {"seller": seller, "limit": limit, "after": after})
    show_list(answer, COLUMNS, as_json=as_json)


@app.command("revoke", epilog=examples("paydesk grants revoke 01J67CQQH5904WDBVZEM4JMEP3-1160535239"))
def revoke(
    grant_id: Annotated[str, typer.Argument(help="The grant's id, as the list has it.")],
    *,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Withdraw a grant for its seller: its tokens end at once, orders under way go on. Again does no harm."""
    operators(credentials).request("DELETE", f"/operator/v1/grants/{segment(grant_id)}")
    show({"id": grant_id.upper(), "withdrawn": True}, as_json=as_json)
