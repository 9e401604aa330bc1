"""The screen of a delivery: each attempt to deliver a notification, and how its signatures were made.

A form verifies what a receiver got, and shows which parts differ from what was sent.
"""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from paydesk.console.api import ApiRefused, Document, present
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import form, page, render, screen
from paydesk.console.view import duration
from paydesk.operators.subscriptions import looks as webhook_looks
from paydesk.operators.subscriptions.repairs import REPAIR, Repairs
from paydesk.platform.operation import Answer, Query

SECTION = "webhooks"
HISTORY_MAX = 50
"""How many attempts the page shows; a delivery has more only after many resends."""
BODY_START_CHARACTERS = 60
"""How much of the body the page shows in the text that `webhook-signature` signs."""
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:[ \t]*(.*)")
_REQUEST_LINE = re.compile(r"(?:[A-Z]{3,10} )?(\S+)(?: HTTP/[0-9.]+)?")


@screen
async def show(request: ConsoleRequest) -> Answer:
    """Show a delivery."""
    delivery = await request.api.get("deliveries/{}", request.path)
    delivery_id, history = delivery["id"], delivery["history"][::-1]
    explained, attempt, data_id = None, None, ""
    # The attempt that `?attempt=` names, by default the last one.
    sent = [one for one in history if "request" in one]
    if sent:
        wanted = request.query.get("attempt", "")
        attempt = next((one for one in sent if str(one["number"]) == wanted), sent[0])
        body = {"attempt": attempt["number"]}
        explained = await request.api.post("deliveries/{}/verify", delivery_id, body=body)
        data_id = parse_qs(urlsplit(attempt["request"]["url"]).query).get("data.id", [""])[-1]
    return render(
        request,
        "deliveries/page.html",
        section=SECTION,
        title=delivery["action"],
        live_on=f"delivery:{delivery_id} deliveries:{delivery_id} subscriptions:{delivery['subscription_id']}",
        here=page_of(delivery_id),
        delivery=delivery,
        subscription=await present(request.api.get("subscriptions/{}", delivery["subscription_id"])),
        why=why(delivery, request.call.shared.objects.get(Repairs) or Repairs()),
        history=history[:HISTORY_MAX],
        hidden=len(history) - HISTORY_MAX,
        explained=explained,
        attempt=attempt,
        data_id=data_id,
        body_start=msgspec.json.encode(delivery["notification"]).decode()[:BODY_START_CHARACTERS],
    )


@screen
async def verify(request: ConsoleRequest) -> Answer:
    """Verify what a receiver got: which signature is valid, and which part differs from what was sent."""
    delivery = await request.api.get("deliveries/{}", request.path)
    result, refused, sent = None, None, request.sent
    if request.is_sent:
        try:
            body = _received(request, sent.get("headers", ""), sent.get("body", ""), sent.get("url", ""))
            result = await request.api.post("deliveries/{}/verify", delivery["id"], body=body)
        except ApiRefused as error:
            refused = error
    return render(
        request,
        "deliveries/verify.html",
        section=SECTION,
        title="Check what a receiver got",
        here=page_of(delivery["id"]),
        delivery=delivery,
        values=sent,
        result=result,
        refused=refused,
    )


def why(delivery: Document, repairs: Repairs) -> str:
    """Return in sentences the state of the delivery, its reason, and what follows."""
    last = delivery["history"][-1] if delivery["history"] else None
    count = delivery["attempts"]
    tried = f"{count} {webhook_looks.attempts(count)}"
    said = f"The last answer: {answer_of(last)}." if last is not None else ""
    if delivery.get("paused"):
        sentence = "It waits until its subscription is resumed."
    elif delivery["status"] == "pending" and not count:
        sentence = "It has not been sent yet: it is due, or waits for an earlier notification of the same order."
    else:
        sentence = {
            "pending": f"{tried} failed, and it is retried.",
            "delivered": f"The receiver accepted it after {tried}.",
            "exhausted": f"It was given up after {tried}.",
            "superseded": f"After {tried} a newer notification of the same order was sent in its place.",
            "withdrawn": "It was withdrawn: the subscription was deleted, or the seller has withdrawn the application's"
            " authorization.",
        }[delivery["status"]]
    to_do = ""
    if delivery["status"] == "exhausted":
        error = last.get("error", "") if last is not None else ""
        to_do = f"{repairs.of_errors.get(error, REPAIR)}, then send it again."
    return " ".join(text for text in (sentence, said, to_do) if text)


def answer_of(attempt: Document) -> str:
    """Return the result of an attempt in words."""
    took = duration(attempt["duration_ms"])
    if "error" in attempt:
        error = str(attempt["error"])
        return f"none after {took}, {error[:1].lower()}{error[1:]}"
    return f"{attempt['answer']['status']} in {took}"


def _received(request: ConsoleRequest, headers: str, body: str, url: str) -> dict[str, Any]:
    """Return the request to verify from the texts of the form. Raises `ApiRefused` for a line that is no header."""
    found: dict[str, str] = {}
    for line in headers.splitlines():
        text = line.strip().removeprefix("> ")
        matched = _HEADER.fullmatch(text)
        if matched is not None:
            found[matched[1]] = matched[2]
        elif text and not found and _REQUEST_LINE.fullmatch(text):
            # The first line of a request has its path and query.
            url = url or _REQUEST_LINE.sub(r"\1", text)
        elif text:
            message = f"{text[:80]!r} is not a header. Write one a line: Name: value."
            raise request.refusal(400, "property_value", message)
    if not found:
        message = "Paste the headers that the receiver got, one a line: Name: value."
        raise request.refusal(400, "required_properties", message)
    # Browsers send line ends as CR and LF, whatever was pasted.
    return {
        "headers": found,
        **({"body_base64": base64.b64encode(body.replace("\r\n", "\n").encode()).decode()} if body else {}),
        **({"url": url} if url else {}),
    }


def page_of(delivery_id: str) -> str:
    """Return the path of a delivery's page."""
    return f"{PATH}/webhooks/deliveries/{delivery_id}"


_ONE = "/webhooks/deliveries/{delivery_id}"
_ATTEMPT = Query("attempt", {"type": "string"}, "The one whose signatures are explained; by default the last.")
OPERATIONS = (
    page(_ONE, show, query=(_ATTEMPT,)),
    *form(f"{_ONE}/verify", verify),
)
