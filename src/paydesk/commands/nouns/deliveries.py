"""`paydesk deliveries` and `paydesk webhooks resend`: the deliveries of notifications."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from paydesk.commands.client.client import Service, segment
from paydesk.commands.client.command import command
from paydesk.commands.client.failure import Failure
from paydesk.commands.client.options import group, harmless_json, harmless_line, note, show, show_list
from paydesk.commands.local import recorded_requests
from paydesk.commands.nouns import verify as webhook_verify
from paydesk.commands.nouns import webhooks
from paydesk.commands.tables.attempts import checked_url
from paydesk.commands.tables.rows import add_rows

app = add_rows(group("Deliveries of notifications."), "deliveries")

ATTEMPT_COLUMNS = ("number", "date", "resend", "status", "duration_ms", "outcome")
EXAMPLE_ID = "0b9d1c4e-3f6a-4c55-9d0e-8f2f6f1f0a11.5f0c3ad1-8f1e-4f0b-9d5c-2b7a90c1e4d6"

UNAUTHORIZED = 401
ANSWER_SECONDS_MAX = 120
"""The time that the command waits for another receiver: the service waits `webhook_timeout_seconds`."""

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
    attempts = []
    for one in delivery["history"]:
        answer = one.get("answer", {})
        outcome = one.get("error") or answer.get("body", "").partition("\n")[0]
        attempts.append({**one, "status": answer.get("status"), "outcome": outcome})
    if attempts:
        sys.stdout.write("\n")
        show_list({"data": attempts}, ATTEMPT_COLUMNS, as_json=False)


@command(
    app,
    "verify",
    f"paydesk deliveries verify {EXAMPLE_ID}",
    f"paydesk deliveries verify {EXAMPLE_ID} --request request.txt",
    f"paydesk deliveries verify {EXAMPLE_ID} --attempt 2 --json",
)
def verify(
    service: Service,
    delivery_id: DeliveryId,
    *,
    request: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What the receiver got, a file as for `paydesk webhooks verify`."),
    ] = None,
    attempt: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="The attempt. [default: the last one]")
    ] = None,
    as_json: bool,
) -> None:
    """Verify the signatures of a request that a receiver got, or of the attempt itself, and show what differs.

    The service verifies them, so the secrets stay there.
    """
    body: dict[str, Any] = {"attempt": attempt}
    if request is not None:
        recorded = recorded_requests.parse(webhook_verify.read(request), None)
        body |= {"headers": dict(recorded.headers), "body_base64": base64.b64encode(recorded.body).decode()}
        if recorded.data_id is not None:
            body["url"] = f"?data.id={quote(recorded.data_id, safe='')}"
    verdict = service.post(f"/operator/v1/deliveries/{segment(delivery_id)}/verify", body)
    lines = [webhook_verify.verdict_text(one) for one in verdict["signatures"]]
    for one in verdict["differences"]:
        sent, received = (one.get(name, "(missing)") for name in ("sent", "received"))
        lines.append(harmless_line(f"{one['part']}: sent {sent}, received {received}"))
    show(verdict, "\n".join(lines), as_json=as_json)
    if not verdict["valid"]:
        raise Failure("The notification is not signed correctly: a receiver must refuse it.")


@command(
    webhooks.app,
    "resend",
    f"paydesk webhooks resend {EXAMPLE_ID}",
    f"paydesk webhooks resend {EXAMPLE_ID} --to http://localhost:3000/hook",
)
def resend(
    service: Service,
    delivery_id: DeliveryId,
    *,
    to: Annotated[str | None, typer.Option(metavar="URL", help="Send it once to this URL instead.")] = None,
    as_json: bool,
) -> None:
    """Send a notification again at once, outside the retry schedule.

    With --to, which only `paydesk dev` has, it is sent once to another URL, signed with the subscription's secret.
    Nothing of the delivery changes. The answer is printed, and the exit code is 0 only if that is a 2xx.
    """
    path = f"/operator/v1/deliveries/{segment(delivery_id)}"
    if to is None:
        delivery = service.post(f"{path}/resend")
        show(delivery, as_json=as_json)
        note(f"Requested. To see the attempt: paydesk deliveries show {delivery['id']}")
        return
    body = {"url": checked_url(to, "--to")}
    sent = service.post(f"{path}/send-to", body, timeout_seconds=ANSWER_SECONDS_MAX)
    answer = sent.get("answer", {"status": 0, "body": ""})
    status, took = answer["status"], f"{sent['duration_ms']} ms"
    if as_json or "error" not in sent:
        lines = (harmless_line(line) for line in answer["body"].strip().splitlines())
        show(sent, "\n".join((f"{status} in {took}", *lines)), as_json=as_json)
    if "error" in sent:
        raise Failure(f"No answer from {sent['url']} after {took}: {sent['error']}.")
    if status == UNAUTHORIZED:
        raise Failure(
            "The receiver answered 401.",
            "It usually verifies with another secret: give it that of the delivery's subscription.",
        )
    if not 200 <= status < 300:
        raise Failure(f"The receiver answered {status}: only a 2xx accepts a notification.")
