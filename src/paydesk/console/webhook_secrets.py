"""How an operator rotates the secret of a subscription: add a second one, make it the primary one, drop the first."""

from __future__ import annotations

from collections.abc import Mapping

from paydesk.console.actions import Done, act
from paydesk.console.request import ConsoleRequest
from paydesk.console.screen import form, screen
from paydesk.console.webhook_subscriptions import about
from paydesk.operation import Answer


@screen
async def rotate(request: ConsoleRequest) -> Answer:
    """Add a second secret to a subscription, and show it once."""
    subscription = await request.api.get("subscriptions/{}", request.path)
    action = about(
        subscription,
        "Rotate the secret",
        "A second secret is created and shown once, on the next page.",
        "From then on webhook-signature has a signature of each secret. X-Signature is still made with the first one,"
        " until you make the second one primary.",
        "Give the receiver the new secret, make it primary, then drop the old one.",
        submit="Add a second secret",
    )

    async def work(_: Mapping[str, str]) -> Done:
        added = await request.api.post("subscriptions/{}/secrets", subscription["id"])
        text = (
            f"Secret {added['id']} is added. Give it to the receiver, then make it primary. A receiver that verifies"
            " X-Signature must accept both secrets until then."
        )
        return Done(text, secret=added["secret"], secret_label=f"Secret {added['id']}")

    return await act(request, action, work)


@screen
async def promote(request: ConsoleRequest) -> Answer:
    """Make a secret the primary one."""
    sent_id, secret_id = request.call.paths
    subscription = await request.api.get("subscriptions/{}", sent_id)
    action = about(
        subscription,
        f"Make secret {secret_id} primary",
        f"X-Signature is made with secret {secret_id} from now on. The receiver must have it already.",
    )

    async def work(_: Mapping[str, str]) -> Done:
        await request.api.post("subscriptions/{}/secrets/{}/promote", subscription["id"], secret_id)
        return Done(f"Secret {secret_id} is the primary one. When notifications arrive, drop the other one.")

    return await act(request, action, work)


@screen
async def drop(request: ConsoleRequest) -> Answer:
    """Drop a secret that is not the primary one."""
    sent_id, secret_id = request.call.paths
    subscription = await request.api.get("subscriptions/{}", sent_id)
    action = about(
        subscription,
        f"Drop secret {secret_id}",
        f"Nothing is signed with secret {secret_id} any more. A receiver that has only this one refuses notifications.",
        "This cannot be undone.",
        danger=True,
    )

    async def work(_: Mapping[str, str]) -> Done:
        await request.api.delete("subscriptions/{}/secrets/{}", subscription["id"], secret_id)
        return Done(f"Secret {secret_id} is dropped. Remove it at the receiver.")

    return await act(request, action, work)


_ONE = "/webhooks/subscriptions/{subscription_id}"
OPERATIONS = (
    *form(f"{_ONE}/rotate", "subscription_rotate", "Rotate the secret of a subscription", rotate),
    *form(f"{_ONE}/secrets/{{secret_id}}/promote", "secret_promote", "Make a secret the primary one", promote),
    *form(f"{_ONE}/secrets/{{secret_id}}/drop", "secret_drop", "Drop a secret", drop),
)
