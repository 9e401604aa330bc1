"""The forms, in development, that send a notification once to another URL, and a recorded request again."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any

from paydesk.console.actions import ActionForm, Done, act
from paydesk.console.api import Document, present
from paydesk.console.field import Field
from paydesk.console.request import ConsoleRequest
from paydesk.console.screen import environment, form, screen
from paydesk.console.view import duration
from paydesk.core import ids
from paydesk.core.ids import ULID_PATTERN
from paydesk.core.text.redaction import redacted_url
from paydesk.operators.deliveries.page import SECTION, page_of
from paydesk.operators.list_pages import address
from paydesk.operators.requests.page import HERE as REQUESTS
from paydesk.operators.requests.page import SECTION as REQUESTS_SECTION
from paydesk.platform.operation import Answer
from paydesk.platform.web import html

ANSWER_CHARACTERS_MAX = 300
"""How much of the answer the next page shows."""
RECORDED_LOOKS, RECORDED_LOOK_SECONDS = 20, 0.05
_LINE_END = re.compile(r"[\r\n\t]\s*")
"""JSON means the same without them, and fields of `/operator/v1` must not contain any."""


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


@screen
async def send_request(request: ConsoleRequest) -> Answer:
    """Send a request of an application again, changed or not, and show how it is answered."""
    entry_id = request.path
    one = await request.api.get("requests/{}", entry_id)
    key = one.get("idempotency_key")
    body = Field(
        "body", "Body", "textarea", html.indented(one.get("request_body", "")), maxlength=65_536, required=False
    )
    action = ActionForm(
        title="Send a request again",
        says=(
            f"This sends a {one['method']} request as {one.get('application', 'the demo application')}, with a token of"
            " the credentials file. It takes effect like any request of the application.",
        ),
        submit="Send the request",
        back=f"{REQUESTS}/{entry_id}",
        section=REQUESTS_SECTION,
        fields=(
            Field("path", "Path", value=one["path"], maxlength=500),
            Field(
                "key",
                "X-Idempotency-Key",
                value=ids.uuid() if key else "",
                hint=f"A new one. With the recorded one, {key}, the same request gets its stored answer."
                if key
                else "",
                required=False,
                maxlength=64,
            ),
            *((body,) if one["method"] != "GET" else ()),
        ),
    )

    async def work(sent: Mapping[str, str]) -> Done:
        content = _LINE_END.sub(" ", sent.get("body", ""))
        body = {"path": sent["path"], "idempotency_key": sent["key"], "body": content}
        answer = await request.api.post("requests/{}/send", entry_id, body=body)
        done = f"Sent: it was answered with {answer['status']}."
        if answer["replayed"]:
            done = f"Sent: it had the stored answer of an earlier request with this key, {answer['status']}."
        request_id = answer["request_id"]
        for _ in range(RECORDED_LOOKS):
            if recorded := (await request.api.get("requests", request_id=request_id))["data"]:
                return Done(done, path=f"{REQUESTS}/{recorded[0]['entry_id']}")
            await asyncio.sleep(RECORDED_LOOK_SECONDS)
        return Done(done, path=address(REQUESTS, {"request_id": request_id}))

    return await act(request, action, work)


def _button(page: str, words: str) -> str:
    ui: Any = environment().globals["ui"]
    button: str = ui.act(page, words)
    return button


def _send_request_button(request: ConsoleRequest, recorded: Document) -> str:
    is_sendable = request.may_change and recorded["path"].startswith(("/v1/", "/terminals/"))
    return _button(f"{REQUESTS}/{recorded['entry_id']}/send", "Edit and send") if is_sendable else ""


ADDITIONS: dict[str, Callable[[ConsoleRequest, Document], str]] = {
    "delivery.acts": lambda request, delivery: (
        _button(f"{page_of(delivery['id'])}/send-to", "Send to another URL") if request.may_resend else ""
    ),
    "request.acts": _send_request_button,
}
OPERATIONS = (
    *form("/webhooks/deliveries/{delivery_id}/send-to", send_to, development=True),
    *form("/requests/{entry_id}/send", send_request, path_pattern=f"^{ULID_PATTERN}$", development=True),
)
