"""`paydesk orders cancel`, `refund` and `simulate`: what changes an order after its creation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paydesk.commands.application.application import as_application, order_client
from paydesk.commands.client import checked
from paydesk.commands.client.checked import EXAMPLE_ORDER_ID, Installments, Key, Live, Method, OrderId
from paydesk.commands.client.client import Service, operator_service
from paydesk.commands.client.credentials import find_credentials
from paydesk.commands.client.failure import Failure, WrongUsage
from paydesk.commands.client.options import AsJson, CredentialsFile, examples, harmless_line, note, show
from paydesk.commands.nouns import orders
from paydesk.commands.nouns.orders import show_order

CANCEL_EPILOG = examples(
    f"paydesk orders cancel {EXAMPLE_ORDER_ID}",
    f"paydesk orders cancel {EXAMPLE_ORDER_ID} --at-terminal",
    f"paydesk orders cancel {EXAMPLE_ORDER_ID} --reason 'The customer has left.'",
)
REFUND_EPILOG = examples(
    f"paydesk orders refund {EXAMPLE_ORDER_ID}    # all that remains",
    f"paydesk orders refund {EXAMPLE_ORDER_ID} 5.00    # a part",
    f"paydesk orders refund {EXAMPLE_ORDER_ID} 5.00 --key refund-0042 --json",
    f"paydesk orders refund {EXAMPLE_ORDER_ID} --reason 'The customer has complained by telephone.'",
)
SIMULATE_EPILOG = examples(
    f"paydesk orders simulate {EXAMPLE_ORDER_ID} processed",
    f"paydesk orders simulate {EXAMPLE_ORDER_ID} processed --method credit_card --installments 3",
    f"paydesk orders simulate {EXAMPLE_ORDER_ID} failed --detail insufficient_amount",
    f"paydesk orders simulate {EXAMPLE_ORDER_ID} action_required    # the outcome is unknown",
)
AsOperator = Annotated[
    str | None,
    typer.Option(
        "--reason", metavar="TEXT", help="Act as operator, for any seller; the reason is recorded in the audit trail."
    ),
]
AT_TERMINAL_HEADER = "X-Allow-Cancelable-Status"
REQUESTED = ": its terminal is requested to release it."
CANNOT_SIMULATE = "Only test orders can be simulated."


@orders.app.command("cancel", epilog=CANCEL_EPILOG)
def cancel(
    order_id: OrderId,
    *,
    at_terminal: Annotated[
        bool,
        typer.Option("--at-terminal", help="If the terminal has the order, request it to release the order."),
    ] = False,
    reason: AsOperator = None,
    key: Key = None,
    live: Live = False,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Cancel an order, and print whether it is canceled or its terminal is requested to release it.

    Acts as the application of the credentials file; with `--reason` as operator. An order that its terminal has not
    fetched is canceled at once. One at its terminal needs `--at-terminal`, and ends as canceled unless the payment is
    authorized already.
    """
    service, path = _actor(credentials, order_id, reason, live=live)
    headers = {AT_TERMINAL_HEADER: "at_terminal"} if at_terminal else {}
    try:
        order = service.post_with_key(f"{path}/cancel", {"reason": reason}, key, headers)
    except Failure as failure:
        if at_terminal or AT_TERMINAL_HEADER not in str(failure):
            raise
        raise Failure(str(failure), "The command sends it with --at-terminal.") from None
    status = harmless_line(str(order["status"]))
    is_canceled = status == "canceled"
    show(order, f"{order_id} is {status}{'.' if is_canceled else REQUESTED}", as_json=as_json)
    if not is_canceled and not as_json:
        note(f"To follow it: paydesk orders watch {order_id}{' --live' if live else ''}")


@orders.app.command("refund", epilog=REFUND_EPILOG)
def refund(
    order_id: OrderId,
    amount: Annotated[
        str | None, typer.Argument(help="The amount to refund. [default: all that remains]", callback=checked.amount)
    ] = None,
    *,
    reason: AsOperator = None,
    key: Key = None,
    live: Live = False,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Refund a processed order, whole or in part, and print the refund.

    Acts as the application of the credentials file; with `--reason` as operator. If the response is lost, repeat the
    same command with the `--key` that it prints: nothing is refunded twice.
    """
    service, path = _actor(credentials, order_id, reason, live=live)
    parts = None
    if amount is not None:
        parts = [{"id": service.get(path)["transactions"]["payments"][0]["id"], "amount": amount}]
    answer = service.post_with_key(f"{path}/refund", {"reason": reason, "transactions": parts}, key)
    if as_json:
        show(answer, as_json=True)
        return
    refunded = answer["transactions"]["refunds"][0]
    order = {"order": answer["id"], "order status": answer["status"], "order status_detail": answer["status_detail"]}
    show({**refunded, **order}, as_json=False)
    if refunded["status"] == "processing":
        note(
            "Do not repeat the refund: it waits for the acquirer or the payment's confirmation."
            " The order has its status."
        )


@orders.app.command("simulate", epilog=SIMULATE_EPILOG)
def simulate(
    order_id: OrderId,
    status: Annotated[str, typer.Argument(help="processed, failed, canceled, refunded, expired or action_required.")],
    *,
    detail: Annotated[
        str | None, typer.Option(help="The payment's status_detail, such as insufficient_amount.")
    ] = None,
    method: Method = None,
    installments: Installments = None,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Bring a test order to a status without its terminal, by all moves on the way, and print the order."""
    body = {"status": status, "status_detail": detail, "payment_method_type": method, "installments": installments}
    service = as_application(find_credentials(credentials), hints={"order_not_found": CANNOT_SIMULATE})
    service.post(f"/v1/orders/{order_id}/events", body)
    show_order(service.get(f"/v1/orders/{order_id}"), as_json=as_json)


def _actor(credentials: Path | None, order_id: str, reason: str | None, *, live: bool) -> tuple[Service, str]:
    """Return the client, as application or with a reason as operator, and the path of the order there."""
    if reason is None:
        return order_client(find_credentials(credentials), live=live), f"/v1/orders/{order_id}"
    if live:
        raise WrongUsage("Give only one of --reason and --live: an operator sees test and live orders.")
    return operator_service(credentials), f"/operator/v1/orders/{order_id}"
