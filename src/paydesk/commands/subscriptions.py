"""`paydesk subscriptions`: where notifications are sent, and the secrets that sign them."""

from __future__ import annotations

from typing import Annotated

import typer

from paydesk.commands.client import Answer, Service, changes, segment
from paydesk.commands.command import command
from paydesk.commands.failure import WrongUsage
from paydesk.commands.lists import add_list
from paydesk.commands.options import group

app = group("Subscriptions: where notifications are sent.")

PATH = "/operator/v1/subscriptions"
EXAMPLE = "0b5cf9b0-6c6e-4ff4-9b0e-0f3a3f3c6a51"

SubscriptionId = Annotated[str, typer.Argument(metavar="ID", help="Its id, see `paydesk subscriptions list`.")]
SecretId = Annotated[
    str, typer.Argument(metavar="SECRET_ID", help="The secret, see `secrets` of `paydesk subscriptions show ID`.")
]


@command(
    app,
    "create",
    "paydesk subscriptions create --url http://127.0.0.1:3000/webhooks",
    "paydesk subscriptions create --client-id 3676047501096810 --url https://shop.example/webhooks --live "
    "--action order.processed --action order.failed",
    "paydesk subscriptions create --topic mp-connect --url https://shop.example/webhooks",
)
def create(
    service: Service,
    url: Annotated[str, typer.Option(help="Where notifications are sent.")],
    client_id: Annotated[
        str | None, typer.Option(help="The application to notify. [default: the demo application]")
    ] = None,
    topic: Annotated[
        str, typer.Option(help="orders, or mp-connect for sellers' authorizations and withdrawals.")
    ] = "orders",
    action: Annotated[
        list[str] | None, typer.Option(help="Only this action, such as order.processed; may be given several times.")
    ] = None,
    *,
    live: Annotated[bool, typer.Option("--live/--test", help="Live orders or test orders, never both.")] = False,
) -> Answer:
    """Subscribe an application and print the secret that signs its notifications; it is shown only once."""
    chosen = client_id or service.credentials.document.get("client_id")
    if not chosen:
        raise WrongUsage("The credentials name no application. Add --client-id; `paydesk apps list` shows the ids.")
    body = {
        "client_id": chosen,
        "url": url,
        "topic": topic,
        "live_mode": live,
        "actions": action or None,
    }
    return service.post(PATH, body)


add_list(app, "subscriptions")


@command(app, "show", f"paydesk subscriptions show {EXAMPLE} --json")
def show_one(service: Service, subscription_id: SubscriptionId) -> Answer:
    """Show a subscription with the ids of its secrets."""
    return service.get(_path(subscription_id))


@command(
    app,
    "change",
    f"paydesk subscriptions change {EXAMPLE} --url https://shop.example/webhooks",
    f"paydesk subscriptions change {EXAMPLE} --action order.processed --action order.failed",
    f"paydesk subscriptions change {EXAMPLE} --all-actions",
)
def change(
    service: Service,
    subscription_id: SubscriptionId,
    *,
    url: Annotated[
        str | None, typer.Option(help="Where notifications are sent; also pending ones, from the next attempt on.")
    ] = None,
    action: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this action, from the next event on; replaces all actions; may be given several times."
        ),
    ] = None,
    all_actions: Annotated[bool, typer.Option("--all-actions", help="All actions.")] = False,
) -> Answer:
    """Change only the given fields. The secrets stay."""
    if all_actions and action:
        raise WrongUsage("Give either --action or --all-actions.")
    actions: list[str] | None = [] if all_actions else action or None
    return service.request("PATCH", _path(subscription_id), changes(url=url, actions=actions))


@command(app, "pause", f"paydesk subscriptions pause {EXAMPLE}")
def pause(service: Service, subscription_id: SubscriptionId) -> tuple[Answer, str]:
    """Pause a subscription: nothing is sent; its notifications are kept for 30 days. Repeatable."""
    paused = service.post(f"{_path(subscription_id)}/pause")
    return paused, (
        "Its notifications stay pending and are kept for 30 days."
        f" Resume it with `paydesk subscriptions resume {subscription_id}`."
    )


@command(app, "resume", f"paydesk subscriptions resume {EXAMPLE}")
def resume(service: Service, subscription_id: SubscriptionId) -> tuple[Answer, str]:
    """Resume a paused subscription: its pending notifications are sent, in order per order. Repeatable."""
    return service.post(f"{_path(subscription_id)}/resume"), "Its pending notifications are sent now."


@command(app, "delete", f"paydesk subscriptions delete {EXAMPLE}")
def delete(service: Service, subscription_id: SubscriptionId) -> tuple[Answer, str]:
    """Delete a subscription: it gets no notification any more, and its pending ones are withdrawn. There is no undo."""
    service.request("DELETE", _path(subscription_id))
    ended = (
        "Its secrets are invalid, and later events are not sent to its URL. Its pending notifications are withdrawn;"
        " those that have ended stay in `paydesk deliveries list`."
    )
    return {"id": subscription_id, "deleted": True}, ended


@command(app, "rotate", f"paydesk subscriptions rotate {EXAMPLE}", f"paydesk subscriptions rotate {EXAMPLE} --json")
def rotate(service: Service, subscription_id: SubscriptionId) -> tuple[Answer, str]:
    """Begin a rotation: add a second secret and print it; it is shown only once. Nothing else changes."""
    first = next(
        (secret["id"] for secret in service.get(_path(subscription_id))["secrets"] if secret["is_primary"]), "SECRET_ID"
    )
    added = service.post(f"{_path(subscription_id)}/secrets")
    steps = (
        "It cannot be shown again. Each webhook-signature now has a signature of both secrets; X-Signature is still"
        f" made with {first}.",
        "1. Give the receiver the new secret, in place of the old one. If it verifies X-Signature, it must accept both"
        " until step 3.",
        f"2. `paydesk subscriptions promote {subscription_id} {added['id']}`: X-Signature is made with the new secret.",
        f"3. `paydesk subscriptions drop {subscription_id} {first}`: nothing is signed with the old secret any more.",
    )
    return added, "\n".join(steps)


@command(app, "promote", f"paydesk subscriptions promote {EXAMPLE} 2")
def promote(service: Service, subscription_id: SubscriptionId, secret_id: SecretId) -> tuple[Answer, str]:
    """Make a secret the primary one, which makes X-Signature. Give it to the receiver first. Repeatable."""
    promoted = service.post(f"{_path(subscription_id)}/secrets/{segment(secret_id)}/promote")
    others = [secret["id"] for secret in promoted["secrets"] if not secret["is_primary"]]
    if not others:
        return promoted, "It is the only valid secret."
    return promoted, (
        "X-Signature is now made with it. When notifications arrive:"
        f" `paydesk subscriptions drop {subscription_id} {others[0]}`."
    )


@command(app, "drop", f"paydesk subscriptions drop {EXAMPLE} 1")
def drop(service: Service, subscription_id: SubscriptionId, secret_id: SecretId) -> tuple[Answer, str]:
    """Drop a secret that is not the primary one: nothing is signed with it any more. There is no undo."""
    dropped = service.request("DELETE", f"{_path(subscription_id)}/secrets/{segment(secret_id)}")
    return dropped, "Nothing is signed with it any more; remove it at the receiver."


def _path(subscription_id: str) -> str:
    return f"{PATH}/{segment(subscription_id)}"
