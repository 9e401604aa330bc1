"""The secrets of a subscription: add, promote and drop. The response that adds one shows it, once."""

from __future__ import annotations

from dataclasses import replace

from paydesk.core.errors import IN_USE, Refusal
from paydesk.core.response import Closed
from paydesk.engine.webhooks.subscriptions import rotation
from paydesk.engine.webhooks.subscriptions.store import Subscription
from paydesk.operators import audit, lists
from paydesk.operators.errors import SECRET_NOT_FOUND, TOO_MANY_SECRETS
from paydesk.operators.subscriptions.handlers import SUBSCRIPTION, SubscriptionDocument, present
from paydesk.platform.operation import Answer, Call
from paydesk.platform.storage.database import Transaction


class NewSubscriptionSecret(Closed, frozen=True):
    """A new secret of a subscription, which is not the primary one yet."""

    id: str
    secret: str


async def add(call: Call) -> Answer:
    """Add a second secret to a subscription."""
    subscription = await SUBSCRIPTION.locked(call)
    before = await present(call.tx, subscription)
    added = await rotation.add(call.tx, call.keys, subscription.subscription_id, call.now_ms)
    if added is None:
        raise TOO_MANY_SECRETS.with_reason(
            "two valid secrets",
            f"the valid secrets are {' and '.join(secret.id for secret in before.secrets)}: drop one first",
            message=f"The subscription already has {rotation.VALID_SECRETS_MAX} valid secrets.",
        )
    generation, secret = added
    await _record(call, "subscriptions.secrets.add", subscription, before)
    return Answer(201, NewSubscriptionSecret(str(generation), secret.reveal()))


async def promote(call: Call) -> Answer:
    """Make a secret the primary one: it alone makes `X-Signature`."""
    subscription, generation = await _locked(call)
    before = await present(call.tx, subscription)
    if not await rotation.promote(call.tx, subscription.subscription_id, generation):
        raise _unknown_secret()
    promoted = replace(subscription, secret_generation=generation)
    return Answer(200, await _record(call, "subscriptions.secrets.promote", promoted, before))


async def drop(call: Call) -> Answer:
    """Drop a secret that is not the primary one: it no longer signs anything."""
    subscription, generation = await _locked(call)
    before = await present(call.tx, subscription)
    if generation == subscription.secret_generation:
        others = [secret.id for secret in before.secrets if not secret.is_primary]
        advice = f"promote {others[0]} first" if others else "add another one and promote that first"
        raise IN_USE.with_reason(
            "the primary secret",
            f"{generation} is the primary secret; {advice}",
            message="The primary secret makes X-Signature and can't be dropped.",
        )
    if not await rotation.drop(call.tx, subscription.subscription_id, generation, call.now_ms):
        raise _unknown_secret()
    return Answer(200, await _record(call, "subscriptions.secrets.drop", subscription, before))


async def _locked(call: Call) -> tuple[Subscription, int]:
    """Lock the subscription of the path; return it, and the generation of the path's secret."""
    return await SUBSCRIPTION.locked(call), lists.id_in_path(call.paths[1])


async def _record(
    call: Call, action: str, subscription: Subscription, before: SubscriptionDocument
) -> SubscriptionDocument:
    """Record the ids of the secrets before and after in the audit trail, unless they are the same."""
    tx: Transaction = call.tx
    after = await present(tx, subscription)
    if after.secrets != before.secrets:
        earlier, later = {"secrets": before.secrets}, {"secrets": after.secrets}
        await audit.record(call, tx, action, subscription.subscription_id, before=earlier, after=later)
    return after


def _unknown_secret() -> Refusal:
    return SECRET_NOT_FOUND.with_reason(
        "unknown or dropped secret", message="The subscription has no such valid secret."
    )
