"""`paydesk webhooks trigger`: sends one sample notification, without a service."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated

import typer

from paydesk.commands.client import checked
from paydesk.commands.client.credentials import known_document
from paydesk.commands.client.failure import Failure, Unreachable, WrongUsage
from paydesk.commands.client.options import AsJson, CredentialsFile, examples, note, show_list
from paydesk.commands.local.secret import SigningSecret, signing_secret
from paydesk.commands.nouns import webhooks
from paydesk.commands.tables.attempts import Attempt, checked_url, send, show_attempt
from paydesk.core import ids
from paydesk.core.secrets import Secret

if TYPE_CHECKING:
    from paydesk.engine.webhooks.delivery.notice import Notice

EPILOG = examples(
    "paydesk webhooks trigger order.processed --to http://localhost:3000/hook",
    "paydesk webhooks trigger order.failed --to http://localhost:3000/hook --amount 24.90"
    " --status-detail insufficient_amount",
    "paydesk webhooks trigger order.refunded --to http://localhost:3000/hook --attempts 2    # a duplicate",
    "paydesk webhooks trigger --list",
)
UNAUTHORIZED = 401


@webhooks.app.command("trigger", epilog=EPILOG)
def trigger(  # noqa: PLR0913 - one parameter for each option
    action: Annotated[str | None, typer.Argument(help="The action, such as order.failed.")] = None,
    *,
    to: Annotated[str | None, typer.Option(metavar="URL", help="Where to send it.")] = None,
    amount: Annotated[
        str | None, typer.Option(help="The order's amount. [default: 24.90]", callback=checked.amount)
    ] = None,
    currency: Annotated[str, typer.Option(help="The order's currency.")] = "BRL",
    reference: Annotated[str, typer.Option(help="The order's external_reference.")] = "ext_ref_1234",
    status_detail: Annotated[
        str | None, typer.Option(help="The payment's status_detail; --list shows those of each action.")
    ] = None,
    order: Annotated[
        str | None, typer.Option(metavar="ID", help="The order's id. [default: a new one]", callback=checked.order_id)
    ] = None,
    attempts: Annotated[
        int, typer.Option(min=1, max=20, help="Send it this often: the same notification, as after a failure.")
    ] = 1,
    live: Annotated[bool, typer.Option("--live", help="A live order's notification.")] = False,
    secret: SigningSecret = None,
    list_actions: Annotated[bool, typer.Option("--list", help="List the actions and exit.")] = False,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Send a sample notification to a receiver, signed as the service signs; exits 0 only if the answer is a 2xx.

    Needs no service. The order of the sample does not exist, so a receiver that reads it gets 404.
    """
    from paydesk.engine.orders import samples
    from paydesk.engine.webhooks.delivery.notice import Notice
    from paydesk.engine.webhooks.schemas import ACTIONS

    if list_actions:
        rows = [{"action": name, "status_details": list(samples.status_details(name))} for name in samples.actions()]
        show_list({"data": rows}, ("action", "status_details"), as_json=as_json)
        return
    if action is None or to is None:
        raise WrongUsage("Say which notification to send, and where: an action, and --to URL.")
    now_ms = time.time_ns() // 1_000_000
    document = known_document(credentials)
    named = {"application_id": document.get("client_id"), "seller_id": document.get("seller", {}).get("user_id")}
    accounts = {name: int(value) for name, value in named.items() if str(value).isdecimal()}
    try:
        sample = samples.sample(
            action,
            now_ms=now_ms,
            amount=amount,
            currency=currency,
            external_reference=reference,
            status_detail=status_detail,
            order_id=order or f"ORD{ids.ulid(now_ms)}",
            event_id=ids.uuid() if action in ACTIONS else str(ids.event_number()),
            live=live,
            **accounts,
        )
    except samples.InvalidSample as error:
        raise WrongUsage(str(error)) from None
    notice = Notice(sample.event_id, sample.action, sample.seller_id, sample.source_id, sample.body, sample.topic)
    url, signing = checked_url(to, "--to"), signing_secret(secret, credentials)
    if secret is None and not as_json:
        note(f"Signed with the secret {signing.reveal()}")
    outcome = asyncio.run(_send(notice, url, signing, attempts, as_json=as_json)).outcome
    if outcome.error is not None:
        raise Unreachable(f"No answer from {to}: {outcome.error}.")
    if not outcome.delivered:
        hint = (
            "It usually verifies with another secret: give it the one that signed this, or name its own with --secret."
        )
        raise Failure(
            f"The receiver answered {outcome.status}. The service would count this as a failure and try again.",
            *([hint] if outcome.status == UNAUTHORIZED else []),
        )


async def _send(notice: Notice, url: str, secret: Secret, attempts: int, *, as_json: bool) -> Attempt:
    """Send the notification and print each attempt; return the last one."""
    from paydesk.engine.webhooks.delivery import notice as forwarding

    async with forwarding.sender() as sender:
        for number in range(1, attempts + 1):
            attempt = await send(sender, notice, url, secret, number)
            show_attempt(attempt, as_json=as_json)
    return attempt
