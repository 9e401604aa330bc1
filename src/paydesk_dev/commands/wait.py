"""`paydesk wait`: scripts and CI wait for a service, an order or webhooks instead of sleeping."""

from __future__ import annotations

import math
import time
from typing import Annotated

import typer

from paydesk.commands.application.application import order_client
from paydesk.commands.client.checked import EXAMPLE_ORDER_ID, Live, OrderId, order_id
from paydesk.commands.client.client import Service, operator_service
from paydesk.commands.client.credentials import find_credentials, public
from paydesk.commands.client.failure import Failure, WrongUsage
from paydesk.commands.client.options import AsJson, CredentialsFile, examples, group, show, show_list

app = group("Wait for a service, an order or webhooks; exits 1 if they do not come in time.")

POLL_SECONDS_MAX, POLL_INTERVAL_SECONDS, READY_SECONDS_MAX = 20, 0.2, 5
NOTIFICATIONS = "/dev/notifications"
COLUMNS = ("received_date", "action", "order_id", "version", "signature_valid")
READY_EPILOG = examples(
    "paydesk dev & paydesk wait ready", "paydesk wait ready --url http://127.0.0.1:8377 --seconds 120"
)
ORDER_EPILOG = examples(
    f"paydesk wait order {EXAMPLE_ORDER_ID} processed",
    f"paydesk wait order {EXAMPLE_ORDER_ID} canceled --detail expired --seconds 5",
)
WEBHOOK_EPILOG = examples(
    f"paydesk wait webhook order.processed --order {EXAMPLE_ORDER_ID}",
    "paydesk wait webhook order.processed --count 2 --json",
)

Seconds = Annotated[int, typer.Option(min=0, max=3600, help="How long to wait at most.")]


def known_status(text: str) -> str:
    """Return the status. Raises `WrongUsage` for one that no order has."""
    from paydesk_dev.testing import expected

    try:
        return expected.known_status(text)
    except ValueError as error:
        raise WrongUsage(str(error)) from None


def known_action(text: str) -> str:
    """Return the action. Raises `WrongUsage` for one that no webhook has."""
    from paydesk_dev.testing import expected

    try:
        return expected.known_action(text)
    except ValueError as error:
        raise WrongUsage(str(error)) from None


@app.command("ready", epilog=READY_EPILOG)
def ready(
    *,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The service. [default: that of the credentials, once they are there]"),
    ] = None,
    seconds: Seconds = 60,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Wait until a service is ready for requests: also one that is being started."""
    end = time.monotonic() + seconds
    while True:
        left = end - time.monotonic()
        try:
            # The credentials file is written when the service starts.
            address = find_credentials(credentials) if url is None else public(url)
            timeout_seconds = min(max(left, 1), READY_SECONDS_MAX)
            answer = Service(address, "").request("GET", "/readyz", timeout_seconds=timeout_seconds)
            show(answer, f"{address.base_url} is ready.", as_json=as_json)
        except WrongUsage:
            raise
        except Failure as failure:
            if left <= 0:
                raise Failure(f"Not ready within {seconds} s. {failure}") from None
        else:
            return
        time.sleep(POLL_INTERVAL_SECONDS)


@app.command("order", epilog=ORDER_EPILOG)
def wait_for_order(
    order_id: OrderId,
    status: Annotated[str, typer.Argument(help="The status, such as processed.", callback=known_status)],
    *,
    detail: Annotated[
        str | None, typer.Option(metavar="DETAIL", help="The payment's status_detail too, such as accredited.")
    ] = None,
    seconds: Seconds = 30,
    live: Live = False,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Wait until an order has a status, and print it; exits 1 at once if that can no longer come.

    Follows the events of the application of the credentials file.
    """
    from paydesk_dev.testing.expected import can_become

    application = order_client(find_credentials(credentials), live=live)
    end, after = time.monotonic() + seconds, None
    while True:
        order = application.get(f"/v1/orders/{order_id}")
        current, current_detail = order["status"], order["transactions"]["payments"][-1]["status_detail"]
        state = f"{order_id} is {current} ({current_detail})."
        if current == status and detail in (None, current_detail):
            show(order, state, as_json=as_json)
            return
        left = end - time.monotonic()
        wanted = " ".join(filter(None, (status, detail)))
        if not can_become(status, detail or "", current_detail):
            raise Failure(f"{state} It can no longer become {wanted}.")
        if left <= 0:
            raise Failure(f"{state} It did not become {wanted} within {seconds} s.")
        after = application.get("/v1/events", {"wait": _step(left), "after": after})["next"]


@app.command("webhook", epilog=WEBHOOK_EPILOG)
def wait_for_webhook(
    action: Annotated[str, typer.Argument(help="The action, such as order.processed.", callback=known_action)],
    *,
    order: Annotated[
        str | None, typer.Option(metavar="ORDER_ID", help="Only about this order.", callback=order_id)
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 1,
    seconds: Seconds = 30,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Wait until the demo inbox has received webhooks, and print them; those that it has already count."""
    service, end = operator_service(credentials), time.monotonic() + seconds
    while True:
        left = end - time.monotonic()
        query = {"action": action, "order": order, "count": count, "wait": _step(left)}
        received = service.get(NOTIFICATIONS, query)
        if len(received["data"]) >= count:
            show_list(received, COLUMNS, as_json=as_json)
            return
        if left <= 0:
            others = [str(one.get("action")) for one in service.get(NOTIFICATIONS, {"order": order})["data"]]
            about = f" about {order}" if order else ""
            raise Failure(
                f"The inbox received {action}{about} {len(received['data'])} of {count} times within {seconds} s.",
                f"It received {', '.join(dict.fromkeys(others)) or 'nothing'}.",
            )


def _step(left: float) -> int:
    return math.ceil(min(max(left, 0), POLL_SECONDS_MAX))
