"""The form of a delivery's page, in development, that sends the notification once to another URL."""

from __future__ import annotations

from collections.abc import Mapping

from paydesk.console.actions import ActionForm, Done, act
from paydesk.console.api import Document, present
from paydesk.console.field import Field
from paydesk.console.request import ConsoleRequest
from paydesk.console.screen import form, screen
from paydesk.console.view import duration
from paydesk.core.text.redaction import redacted_url
from paydesk.operators.deliveries.page import SECTION, page_of
from paydesk.platform.operation import Answer

ANSWER_CHARACTERS_MAX = 300
"""How much of the answer the next page shows."""


@screen
async def send_to(request: ConsoleRequest) -> Answer:
    """Send the notification of a delivery once to another URL, and say what its receiver answered."""
    delivery = await request.api.get("deliveries/{}", request.path)
    url = ""
    if not request.is_sent:
        # In the subscription's URL often only the port differs. One with a secret is not filled in.
        subscription = await present(request.api.get("subscriptions/{}", delivery["subscription_id"])) or {"url": ""}
        url = subscription["url"] if redacted_url(subscription["url"]) == subscription["url"] else ""
    action = ActionForm(
        title=f"Send {delivery['action']} to another URL",
        says=(
            "The same notification is sent once, at once, with a new signature by the secret of its subscription. Only"
            " this URL receives it.",
            "This delivery stays as it is: its status, its attempts and its subscription.",
            f"The next page shows the answer, or after {request.call.settings.webhook_timeout_seconds} s that there was"
            " none.",
        ),
        submit="Send it to this URL",
        back=page_of(delivery["id"]),
        section=SECTION,
        fields=(
            Field(
                "url",
                "URL",
                value=url,
                hint="Where your receiver listens, such as http://127.0.0.1:3000/webhooks."
                + (" The subscription's URL is filled in." if url else ""),
                inputmode="url",
                maxlength=2000,
            ),
        ),
        permitted=request.may_resend,
    )

    async def work(sent: Mapping[str, str]) -> Done:
        answered = await request.api.post("deliveries/{}/send-to", delivery["id"], body={"url": sent["url"]})
        is_accepted = "answer" in answered and 200 <= answered["answer"]["status"] < 300
        return Done(result_of(answered), tone="ok" if is_accepted else "bad")

    return await act(request, action, work)


def result_of(sent: Document) -> str:
    """Return in sentences the result of sending a notification to another URL."""
    url, took = sent["url"], duration(sent["duration_ms"])
    if "error" in sent:
        return f"No answer from {url} after {took}: {sent['error']}."
    status, body = sent["answer"]["status"], " ".join(sent["answer"]["body"].split())
    start = body if len(body) <= ANSWER_CHARACTERS_MAX else f"{body[:ANSWER_CHARACTERS_MAX]}…"
    return f"{url} answered {status} in {took}{f': “{start}”' if start else ', without a body.'}"


OPERATIONS = form("/webhooks/deliveries/{delivery_id}/send-to", send_to, development=True)
