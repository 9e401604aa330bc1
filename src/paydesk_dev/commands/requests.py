"""`paydesk requests send`: sends a recorded request again, in `paydesk dev`."""

from __future__ import annotations

from typing import Annotated

import typer

from paydesk.commands.client.client import Answer, Service, segment
from paydesk.commands.client.command import command
from paydesk.commands.nouns import requests

EXAMPLE_ID = "01J67CQQH5904WDBVZEM4JMEP3"


@command(
    requests.app,
    "send",
    f"paydesk requests send {EXAMPLE_ID}",
    f'paydesk requests send {EXAMPLE_ID} --body \'{{"type": "point"}}\' --key order-1001',
)
def send(
    service: Service,
    entry_id: Annotated[str, typer.Argument(metavar="ENTRY_ID", help="The request, see `paydesk requests list`.")],
    *,
    path: Annotated[str | None, typer.Option(metavar="PATH", help="Another path, with its query.")] = None,
    body: Annotated[str | None, typer.Option(metavar="JSON", help="Another body.")] = None,
    key: Annotated[str | None, typer.Option(metavar="KEY", help="The X-Idempotency-Key. [default: a new one]")] = None,
) -> tuple[Answer, str]:
    """Send a recorded request of an application again, changed or not, with a token of the credentials file.

    Path and body are by default the recorded ones. For `paydesk dev` only.
    """
    body = " ".join(line.strip() for line in body.splitlines()) if body is not None else None
    fields = {"path": path, "body": body, "idempotency_key": key}
    sent = service.post(f"/operator/v1/requests/{segment(entry_id)}/send", fields)
    return sent, f"Answered with {sent['status']}. To see it: paydesk requests list --request-id {sent['request_id']}"
