"""The screen of a delivery: each attempt to deliver a notification, and how its signatures were made.

A form verifies what a receiver got, and shows which parts differ from what was sent.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from paydesk.console import webhook_looks
from paydesk.console.api import ApiRefused, Document
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import form, page, render, screen
from paydesk.console.view import duration
from paydesk.operation import Answer, Query
from paydesk.web import statuses
from paydesk.webhooks.faults import DROPPED

SECTION = "webhooks"
HISTORY_MAX = 50
"""How many attempts the page shows; a delivery has more only after many resends."""
BODY_START_CHARACTERS = 60
"""How much of the body the page shows in the text that `webhook-signature` signs."""
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:[ \t]*(.*)")
_REQUEST_LINE = re.compile(r"(?:[A-Z]{3,10} )?(\S+)(?: HTTP/[0-9.]+)?")


@dataclass(frozen=True, slots=True)
class Signature:
    """How one signature is made: the headers, the signed text, the key, the result."""

    title: str
    headers: Sequence[tuple[str, str]]
    parts: str
    """What the text is made of."""
    text: str
    key: str
    secret_id: str
    result: str
    valid: bool
    reasons: Sequence[str] = field(default=())


@screen
async def show(request: ConsoleRequest) -> Answer:
    """Show a delivery."""
    delivery = await request.api.get("deliveries/{}", request.path)
    subscription = await _subscription(request, delivery)
    explained = await _explained(request, delivery)
    history = delivery["history"][::-1]
    return render(
        request,
        "delivery.html",
        section=SECTION,
        title=delivery["action"],
        live_on=f"delivery:{delivery['id']} deliveries:{delivery['id']} subscriptions:{delivery['subscription_id']}",
        here=page_of(delivery["id"]),
        delivery=delivery,
        subscription=subscription,
        look=webhook_looks.delivery_look(delivery),
        why=why(delivery),
        history=history[:HISTORY_MAX],
        hidden=len(history) - HISTORY_MAX,
        answer_look=_answer_look,
        host=webhook_looks.host(delivery["url"]),
        explained=explained,
        signatures=_signatures(delivery, explained),
        notification=_indented(delivery["notification"]),
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
        "verify.html",
        section=SECTION,
        title="Check what a receiver got",
        here=page_of(delivery["id"]),
        delivery=delivery,
        values=sent,
        result=result,
        refused=refused,
    )


def why(delivery: Document) -> str:
    """Return in sentences the state of the delivery, its reason, and what follows."""
    last = next((one for one in reversed(delivery["history"])), None)
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
        is_dropped = last is not None and last.get("error") == DROPPED
        repair = "Clear the fault of its subscription" if is_dropped else "Repair the receiver"
        to_do = f"{repair}, then send it again."
    return " ".join(text for text in (sentence, said, to_do) if text)


def answer_of(attempt: Document) -> str:
    """Return the result of an attempt in words."""
    took = duration(attempt["duration_ms"])
    if "error" in attempt:
        error = str(attempt["error"])
        return f"none after {took}, {error[:1].lower()}{error[1:]}"
    return f"{attempt['answer']['status']} in {took}"


def _answer_look(attempt: Document) -> statuses.Look:
    return statuses.answer_look(None if "error" in attempt else attempt["answer"]["status"])


async def _subscription(request: ConsoleRequest, delivery: Document) -> Document | None:
    """Return the delivery's subscription, or None if it was deleted."""
    try:
        found: Document = await request.api.get("subscriptions/{}", delivery["subscription_id"])
    except ApiRefused as refused:
        if refused.status == 404:
            return None
        raise
    return found


async def _explained(request: ConsoleRequest, delivery: Document) -> Document | None:
    """Return the check of the attempt that `?attempt=` names, by default of the last one; None without one."""
    with_request = [one["number"] for one in delivery["history"] if "request" in one]
    if not with_request:
        return None
    wanted = request.query.get("attempt", "")
    number = next((one for one in with_request if str(one) == wanted), with_request[-1])
    found: Document = await request.api.post("deliveries/{}/verify", delivery["id"], body={"attempt": number})
    return found


def _signatures(delivery: Document, explained: Document | None) -> list[Signature]:
    """Return how both signatures of the explained attempt were made."""
    if explained is None:
        return []
    attempt = next(one for one in delivery["history"] if one["number"] == explained["attempt"])
    headers: dict[str, str] = attempt["request"]["headers"]
    first, second = explained["signatures"]
    data_id = parse_qs(urlsplit(attempt["request"]["url"]).query).get("data.id", [""])[-1]
    identity, moment = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    return [
        Signature(
            "X-Signature",
            [("X-Signature", headers.get("X-Signature", "")), ("X-Request-Id", headers.get("X-Request-Id", "")),
             ("data.id of the query", data_id)],
            "data.id of the query, X-Request-Id, and ts of X-Signature",
            first.get("signed", ""),
            "the whole secret as text, whsec_ included",
            first.get("secret_id", ""),
            "The HMAC-SHA256 of this text, in hexadecimal, is v1. It does not cover the body.",
            first["valid"],
            first["reasons"],
        ),
        Signature(
            "Standard Webhooks",
            [(name, headers.get(name, "")) for name in ("webhook-id", "webhook-timestamp", "webhook-signature")],
            "webhook-id, webhook-timestamp and the body as it was sent, with dots between",
            f"{identity}.{moment}.{_start(delivery)}…",
            "the part of the secret after whsec_, decoded from base64",
            second.get("secret_id", ""),
            "The HMAC-SHA256 of this text, in base64, is in webhook-signature.",
            second["valid"],
            second["reasons"],
        ),
    ]  # fmt: skip


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
            raise ApiRefused(400, "property_value", message, (), request.call.request_id)
    if not found:
        message = "Paste the headers that the receiver got, one a line: Name: value."
        raise ApiRefused(400, "required_properties", message, (), request.call.request_id)
    # Browsers send line ends as CR and LF, whatever was pasted.
    return {
        "headers": found,
        **({"body_base64": base64.b64encode(body.replace("\r\n", "\n").encode()).decode()} if body else {}),
        **({"url": url} if url else {}),
    }


def _start(delivery: Document) -> str:
    return msgspec.json.encode(delivery["notification"]).decode()[:BODY_START_CHARACTERS]


def _indented(notification: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(notification), indent=2).decode()


def page_of(delivery_id: str) -> str:
    """Return the path of a delivery's page."""
    return f"{PATH}/webhooks/deliveries/{delivery_id}"


_ONE = "/webhooks/deliveries/{delivery_id}"
OPERATIONS = (
    page(
        _ONE,
        show,
        query=(Query("attempt", {"type": "string"}, "The one whose signatures are explained; by default the last."),),
    ),
    *form(f"{_ONE}/verify", verify),
)
