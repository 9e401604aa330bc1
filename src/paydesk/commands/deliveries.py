"""`paydesk deliveries` and `paydesk webhooks resend` and `replay`: the deliveries of notifications."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from paydesk.commands import checked, webhooks
from paydesk.commands.client import Answer, Service, segment
from paydesk.commands.command import command
from paydesk.commands.failure import WrongUsage
from paydesk.commands.lists import add_list
from paydesk.commands.options import group, harmless_json, show, show_list

app = add_list(group("Deliveries of notifications."), "deliveries")

ATTEMPT_COLUMNS = ("number", "date", "resend", "status", "duration_ms", "outcome")
EXAMPLE_ID = "0b9d1c4e-3f6a-4c55-9d0e-8f2f6f1f0a11.5f0c3ad1-8f1e-4f0b-9d5c-2b7a90c1e4d6"

DeliveryId = Annotated[str, typer.Argument(metavar="DELIVERY_ID", help="The delivery, see `paydesk deliveries list`.")]


@command(app, "show", f"paydesk deliveries show {EXAMPLE_ID}", f"paydesk deliveries show {EXAMPLE_ID} --json")
def show_delivery(service: Service, delivery_id: DeliveryId, *, as_json: bool) -> None:
    """Show a delivery with the notification's body and all attempts; `--json` has their requests too."""
    delivery = service.get(f"/operator/v1/deliveries/{segment(delivery_id)}")
    if as_json:
        show(delivery, as_json=True)
        return
    show({name: value for name, value in delivery.items() if name not in ("notification", "history")}, as_json=False)
    notification = json.dumps(delivery["notification"], indent=2, ensure_ascii=False)
    sys.stdout.write(f"\n{harmless_json(notification)}\n")
    if delivery["history"]:
        sys.stdout.write("\n")
        show_list({"data": list(map(_flat, delivery["history"]))}, ATTEMPT_COLUMNS, as_json=False)


@command(webhooks.app, "resend", f"paydesk webhooks resend {EXAMPLE_ID}")
def resend(service: Service, delivery_id: DeliveryId) -> tuple[Answer, str]:
    """Send a notification again at once, outside the retry schedule."""
    delivery = service.post(f"/operator/v1/deliveries/{segment(delivery_id)}/resend")
    return delivery, f"Requested. To see the attempt: paydesk deliveries show {delivery['id']}"


@command(
    webhooks.app,
    "replay",
    "paydesk webhooks replay --subscription 5f0c3ad1-8f1e-4f0b-9d5c-2b7a90c1e4d6 --since 2026-01-31",
    "paydesk webhooks replay --order ORD01J67CQQH5904WDBVZEM4JMEP3",
)
def replay(
    service: Service,
    *,
    subscription: Annotated[str | None, typer.Option(metavar="ID", help="Replay this subscription's.")] = None,
    order: Annotated[
        str | None, typer.Option(metavar="ORDER_ID", help="Replay this order's.", callback=checked.order_id)
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only those created from then on: RFC 3339, or a date.")
    ] = None,
) -> tuple[Answer, str]:
    """Deliver exhausted and superseded notifications again, of a subscription or an order; prints how many."""
    if (subscription is None) == (order is None):
        raise WrongUsage("Give either --subscription or --order.")
    replayed = service.post(
        "/operator/v1/deliveries/replay", {"subscription_id": subscription, "order": order, "since": since}
    )
    if replayed["count"]:
        return replayed, "They are pending again. To see them: paydesk deliveries list --status pending"
    return replayed, (
        "No delivery of it is exhausted or superseded. To send another one again: paydesk webhooks resend DELIVERY_ID"
    )


def _flat(attempt: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attempt for a table: the answer's status, and its body or the error as outcome."""
    answer = attempt.get("answer", {})
    outcome = attempt.get("error") or answer.get("body", "").partition("\n")[0]
    return {**attempt, "status": answer.get("status"), "outcome": outcome}
