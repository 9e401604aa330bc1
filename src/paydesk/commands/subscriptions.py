"""`paydesk subscriptions`: where notifications are sent."""

from __future__ import annotations

from typing import Annotated

import typer

from paydesk.commands.client import find, operators
from paydesk.commands.options import After, AsJson, CredentialsFile, Limit, examples, group, show, show_list

app = group("Subscriptions: where notifications are sent.")
COLUMNS = ("id", "client_id", "topic", "live_mode", "url", "actions", "created_date")


@app.command(
    "create",
    epilog=examples(
        "paydesk subscriptions create --url http://127.0.0.1:3000/webhooks",
        "paydesk subscriptions create --client-id 3676047501096810 --url https://shop.example/webhooks --live "
        "--action order.processed --action order.failed",
        "paydesk subscriptions create --topic mp-connect --url https://shop.example/webhooks",
    ),
)
def create(
    url: Annotated[str, typer.Option(help="Where to send.")],
    client_id: Annotated[
        str | None, typer.Option(help="The application that is to hear. [default: the demo application]")
    ] = None,
    topic: Annotated[str, typer.Option(help="orders, or mp-connect: sellers who agree or withdraw.")] = "orders",
    action: Annotated[
        list[str] | None, typer.Option(help="Only this action, such as order.processed; may be given several times.")
    ] = None,
    *,
    live: Annotated[bool, typer.Option("--live/--test", help="Live orders or test orders, never both.")] = False,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Subscribe an application. The secret that signs its notifications is shown once, now."""
    answer = operators(credentials).post(
        "/operator/v1/subscriptions",
        {
            "client_id": client_id or find(credentials).document.get("client_id"),
            "url": url,
            "topic": topic,
            "live_mode": live,
            "actions": action or None,
        },
    )
    show(answer, as_json=as_json)


@app.command("list", epilog=examples("paydesk subscriptions list --json"))
def list_(
    *, limit: Limit = 200, after: After = None, as_json: AsJson = False, credentials: CredentialsFile = None
) -> None:
    """List the subscriptions."""
    answer = operators(credentials).get("/operator/v1/subscriptions", {"limit": limit, "after": after})
    show_list(answer, COLUMNS, as_json=as_json)
