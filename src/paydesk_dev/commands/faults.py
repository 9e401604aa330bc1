"""`paydesk webhooks fault`: disturb the notifications of `paydesk dev`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Annotated

import typer

from paydesk.commands.client.client import Answer, Service, given, segment
from paydesk.commands.client.command import command
from paydesk.commands.client.failure import WrongUsage
from paydesk.commands.client.options import group, show_list
from paydesk.commands.nouns import webhooks
from paydesk.core.text.durations import typed_seconds

faults = group("Faults: disturb the notifications of a subscription, in `paydesk dev` only.")
webhooks.app.add_typer(faults, name="fault")

SUBSCRIPTIONS = "/operator/v1/subscriptions"
COLUMNS = ("id", "kind", "every", "delay_seconds", "seed", "url")
WHICH = "[default: the subscription of the demo inbox]"

Every = Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="Disturb one of every N notifications.")]
Seed = Annotated[
    int | None,
    typer.Option(help="Choose which one of every N, the same in each run. [default: the last of every N]"),
]
Delay = Annotated[str, typer.Option(metavar="TIME", help="How long: 10s, 2m, at most 10m.")]
Subscription = Annotated[
    str | None, typer.Option(metavar="ID", help=f"The subscription, see `paydesk subscriptions list`. {WHICH}")
]

FAULTS = {
    "late": "Send notifications later. Newer ones of the same order wait too.",
    "out_of_order": "Hold a notification back until a newer one of its order was delivered, at most for the time.",
    "twice": "Send notifications two times: the second time right after the first was answered 2xx.",
    "before_answer": "Send `order.created` before the response that creates the order, which waits 5 s at most.",
    "bad_signature": "Make both signatures of the first attempt invalid. A retry is valid.",
    "old_timestamp": "Sign the first attempt with a time that is 10 minutes old. A retry has the current time.",
    "drop": "Do not send notifications: they become `exhausted`, and can be resent.",
}
DELAYING = ("late", "out_of_order")


def _fault(kind: str) -> Callable[..., tuple[Answer, str]]:
    """Return the function of the command that sets a fault of this kind."""

    def run(
        service: Service,
        delay: Delay = "10s",
        every: Every = 1,
        seed: Seed = None,
        subscription: Subscription = None,
    ) -> tuple[Answer, str]:
        seconds = typed_seconds(delay)
        if seconds is None:
            raise WrongUsage(f"--delay {delay} is not a duration. Use one such as 30s or 2m.")
        subscription_id = _demo(service) if subscription is None else subscription
        fields = {"kind": kind, "every": every, "seed": seed, "delay_seconds": seconds if kind in DELAYING else None}
        fault = service.request("PUT", f"{SUBSCRIPTIONS}/{segment(subscription_id)}/fault", given(fields))
        clear = "paydesk webhooks fault clear" + (f" --subscription {subscription}" if subscription else "")
        return {"subscription_id": subscription_id, **fault}, f"The fault stays until you clear it: `{clear}`."

    run.__doc__ = FAULTS[kind]
    signature = inspect.signature(run, eval_str=True)
    options = [one for one in signature.parameters.values() if one.name != "delay" or kind in DELAYING]
    run.__signature__ = signature.replace(parameters=options)  # type: ignore[attr-defined]
    return run


for _kind in FAULTS:
    _example = f"paydesk webhooks fault {_kind}{' --delay 30s' if _kind in DELAYING else ''}"
    command(faults, _kind, _example, f"{_example} --every 3 --seed 7")(_fault(_kind))


@command(faults, "list", "paydesk webhooks fault list", "paydesk webhooks fault list --json")
def list_faults(service: Service, *, as_json: bool) -> None:
    """List the subscriptions that have a fault."""
    rows = [
        {"id": subscription["id"], "url": subscription["url"], **subscription["fault"]}
        for subscription in _subscriptions(service)
        if "fault" in subscription
    ]
    show_list({"data": rows}, COLUMNS, as_json=as_json)


@command(faults, "clear", "paydesk webhooks fault clear")
def clear(service: Service, subscription: Subscription = None) -> Answer:
    """Clear the fault of a subscription. Notifications that it held back are sent."""
    subscription_id = _demo(service) if subscription is None else subscription
    service.request("DELETE", f"{SUBSCRIPTIONS}/{segment(subscription_id)}/fault")
    return {"subscription_id": subscription_id, "cleared": True}


def _demo(service: Service) -> str:
    """Return the id of the demo application's subscription to the demo inbox. Raises `WrongUsage` if there is none."""
    document = service.credentials.document
    url, client_id = document.get("webhook", {}).get("url"), document.get("client_id")
    for subscription in _subscriptions(service):
        if (subscription["url"], subscription["client_id"], subscription["topic"]) == (url, client_id, "orders"):
            return str(subscription["id"])
    raise WrongUsage(
        "No subscription leads to the demo inbox. Name one with --subscription ID, see `paydesk subscriptions list`."
    )


def _subscriptions(service: Service) -> Iterator[Answer]:
    after: str | None = None
    while True:
        page = service.get(SUBSCRIPTIONS, {"after": after})
        yield from page["data"]
        after = page.get("next")
        if after is None:
            return
