"""What an operator does to a subscription: create, change, pause, resume, delete, replay its failed deliveries."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from paydesk.console.actions import ActionForm, Done, Field, act, differing
from paydesk.console.api import every
from paydesk.console.reasons import Document
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import form, screen
from paydesk.operation import Answer
from paydesk.webhooks.schemas import ACTIONS_OF, CONNECT_TOPIC, TOPIC

SECTION, BACK = "webhooks", f"{PATH}/webhooks"
_SELECTED = "action."
"""Before the name of an action: the checkbox that selects it."""
_URL = Field(
    "url",
    "URL",
    maxlength=2000,
    hint="Where notifications are sent: https, and a host with public addresses. In development also http to this"
    " machine.",
)


def page_of(subscription: Document) -> str:
    """Return the path of a subscription's page."""
    return f"{BACK}/subscriptions/{subscription['id']}"


def about(subscription: Document, title: str, *says: str, **more: Any) -> ActionForm:
    """Return the form of an action on a subscription, which leads back to its page."""
    return ActionForm(title, says, page_of(subscription), SECTION, **more)


@screen
async def create(request: ConsoleRequest) -> Answer:
    """Subscribe an application."""
    found = await every(lambda after: request.api.get("applications", after=after))
    options = [(str(one["client_id"]), f"{one['name']} ({one['client_id']})") for one in found]
    action = ActionForm(
        title="Create a subscription",
        says=(
            "Later events of the application are sent to this URL. The secret that signs them is shown once, on the"
            " next page.",
            "If you select no action, all actions are sent.",
        ),
        submit="Create the subscription",
        back=BACK,
        section=SECTION,
        fields=(
            Field("client_id", "Application", "select", options=options),
            _URL,
            Field(
                "topic",
                "Topic",
                "select",
                value=TOPIC,
                options=((TOPIC, "Orders"), (CONNECT_TOPIC, "Authorizations and withdrawals of sellers")),
            ),
            Field(
                "mode",
                "Which orders",
                "select",
                value="test",
                options=(("test", "Test orders"), ("live", "Live orders")),
            ),
            *_action_fields(ACTIONS_OF[TOPIC], ()),
        ),
    )

    async def work(sent: Mapping[str, str]) -> Done:
        body: dict[str, Any] = {
            "client_id": int(sent["client_id"]) if sent["client_id"].isdecimal() else sent["client_id"],
            "url": sent["url"],
            "topic": sent["topic"],
            "live_mode": sent["mode"] == "live",
            # Only actions of orders can be chosen.
            "actions": _chosen(sent) if sent["topic"] == TOPIC else [],
        }
        subscription = await request.api.post("subscriptions", body=body)
        text = (
            "The subscription is created. The receiver verifies the signatures of its notifications with this secret:"
        )
        return Done(text, page_of(subscription), secret=subscription["secret"], secret_label="Secret")  # noqa: S106

    return await act(request, action, work)


@screen
async def change(request: ConsoleRequest) -> Answer:
    """Change the URL or the actions of a subscription."""
    subscription = await request.api.get("subscriptions/{}", request.path)
    action = about(
        subscription,
        "Change the subscription",
        "A new URL applies to every attempt from now on, also of pending notifications. Other actions apply to later"
        " events. The secrets stay.",
        "If you select no action, all actions are sent.",
        repeatable=True,
        is_change=True,
        fields=(
            replace(_URL, value=subscription["url"]),
            *_action_fields(ACTIONS_OF[subscription["topic"]], subscription["actions"]),
        ),
    )

    async def work(sent: Mapping[str, str]) -> Done:
        wanted = differing(action, sent, _changeable)
        if not wanted:
            return Done("Nothing has changed.")
        await request.api.patch("subscriptions/{}", subscription["id"], body=wanted)
        return Done("The subscription is changed.")

    return await act(request, action, work)


@screen
async def pause(request: ConsoleRequest) -> Answer:
    """Pause a subscription."""
    subscription = await request.api.get("subscriptions/{}", request.path)
    action = about(
        subscription,
        "Pause the subscription",
        "Nothing is sent until it is resumed. Its notifications stay pending and are kept for 30 days.",
        "Attempts in progress end first.",
        repeatable=True,
    )

    async def work(_: Mapping[str, str]) -> Done:
        await request.api.post("subscriptions/{}/pause", subscription["id"])
        return Done("The subscription is paused. Its notifications are kept for 30 days.")

    return await act(request, action, work)


@screen
async def resume(request: ConsoleRequest) -> Answer:
    """Resume a paused subscription."""
    subscription = await request.api.get("subscriptions/{}", request.path)
    action = about(
        subscription,
        "Resume the subscription",
        "Its pending notifications are sent now, those of each order in sequence; new ones are sent at once.",
        repeatable=True,
    )

    async def work(_: Mapping[str, str]) -> Done:
        await request.api.post("subscriptions/{}/resume", subscription["id"])
        return Done("The subscription is resumed. Its pending notifications are being sent.")

    return await act(request, action, work)


@screen
async def delete(request: ConsoleRequest) -> Answer:
    """Delete a subscription."""
    subscription = await request.api.get("subscriptions/{}", request.path)
    action = about(
        subscription,
        "Delete the subscription",
        f"Nothing is sent to {subscription['url']} any more, and its secrets become invalid.",
        "Its pending notifications are withdrawn. Ended ones stay in the history.",
        "This cannot be undone. To stop for a while, pause it instead.",
        repeatable=True,
        danger=True,
    )

    async def work(_: Mapping[str, str]) -> Done:
        await request.api.delete("subscriptions/{}", subscription["id"])
        return Done("The subscription is deleted. Its pending notifications are withdrawn.", BACK)

    return await act(request, action, work)


@screen
async def replay(request: ConsoleRequest) -> Answer:
    """Send the notifications of a subscription again that were given up or replaced by newer ones."""
    subscription = await request.api.get("subscriptions/{}", request.path)
    says = [
        "Notifications that were given up, or replaced by newer ones, become pending again and are sent in order.",
        "The receiver may have newer versions of the orders already, so it must compare `version`.",
    ]
    if subscription["status"] == "paused":
        says.append("The subscription is paused: they are sent when it is resumed.")
    action = about(
        subscription,
        "Send failed notifications again",
        *says,
        submit="Send them again",
        fields=(
            Field(
                "since",
                "Since",
                required=False,
                hint="A date in UTC, such as 2026-01-31, or a time, such as 2026-01-31T14:26:42Z. Empty: all of them.",
                noun="time",
            ),
        ),
        permitted=request.may_resend,
    )

    async def work(sent: Mapping[str, str]) -> Done:
        body = {"subscription_id": subscription["id"], **({"since": sent["since"]} if sent.get("since") else {})}
        return Done(replayed(await request.api.post("deliveries/replay", body=body)))

    return await act(request, action, work)


def replayed(answer: Document) -> str:
    """Return what a replay did."""
    count = answer["count"]
    if not count:
        return "No notification was given up or replaced by a newer one since then, so nothing is sent again."
    return f"{count} {'notification is' if count == 1 else 'notifications are'} pending again."


def _action_fields(names: Collection[str], chosen: Collection[str]) -> list[Field]:
    return [
        Field(f"{_SELECTED}{name}", name, "checkbox", value="yes" if name in chosen else "", required=False)
        for name in names
    ]


def _changeable(sent: Mapping[str, str]) -> dict[str, Any]:
    """Return the properties that the form of a change sets."""
    return {"url": sent["url"], "actions": _chosen(sent)}


def _chosen(sent: Mapping[str, str]) -> list[str]:
    """Return the actions whose checkboxes are set."""
    return [name.removeprefix(_SELECTED) for name, value in sent.items() if name.startswith(_SELECTED) and value]


_ONE = "/webhooks/subscriptions/{subscription_id}"
OPERATIONS = (
    *form("/webhooks/create", "subscription_create", "Create a subscription", create),
    *form(f"{_ONE}/change", "subscription_change", "Change a subscription", change),
    *form(f"{_ONE}/pause", "subscription_pause", "Pause a subscription", pause),
    *form(f"{_ONE}/resume", "subscription_resume", "Resume a subscription", resume),
    *form(f"{_ONE}/delete", "subscription_delete", "Delete a subscription", delete),
    *form(f"{_ONE}/replay", "subscription_replay", "Send failed notifications of a subscription again", replay),
)
