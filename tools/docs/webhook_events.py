"""Generate the page of all notifications: a complete one of each action, when it is sent, and the request of one."""

from __future__ import annotations

import json
from collections.abc import Iterator

from paydesk.core.secrets import Secret
from paydesk.engine.orders import samples
from paydesk.engine.orders.openapi import SENT_MS, WEBHOOKS, Webhook
from paydesk.engine.webhooks.delivery.notice import Notice
from paydesk.engine.webhooks.delivery.send import request
from paydesk.engine.webhooks.schemas import TOPIC
from tools.docs.markdown import page, table

_HEAD = """\
# Webhook events

<!-- Written by `make generate` from `status.py` and `samples.py` in `engine/orders/`; changes made here are lost. -->

Every notification that Paydesk sends, complete. [Receive webhooks](webhooks.md) says how to verify and store them;
the [API reference](openapi.json) has their schemas, under `webhooks`. Later versions may add actions and fields: answer
those that you do not know with 200."""

_REQUEST = """\
## The request

`data.id` and `type` are added to the parameters of your URL. An order's id is in lower case there, and as in all
responses in the body. `X-Request-Id` and the body are the same on every attempt; the times and signatures are new, and
`X-Retry` counts the attempts made before."""

_ORDERS = """\
## Orders

`data` is the order at this version; `data.version` counts its changes from 1. `status_detail` of a paid order is
`accredited`. `live_mode` is false for test orders. An optional field is absent, never null."""

_CONSENTS = """\
## Authorizations of sellers

Notifications of topic `mp-connect`. `id` and `user_id` are numbers, and there is no version."""


def page_of_events() -> str:
    """Return docs/webhook-events.md."""
    orders = [webhook for webhook in WEBHOOKS if webhook.topic == TOPIC]
    consents = [webhook for webhook in WEBHOOKS if webhook.topic != TOPIC]
    return page(
        _HEAD,
        table(("Action", "Meaning"), ((f"[`{one.action}`](#{_anchor(one)})", one.summary) for one in WEBHOOKS)),
        _REQUEST,
        f"```http\n{request_text()}\n```",
        _ORDERS,
        *(block for webhook in orders for block in _blocks(webhook)),
        _CONSENTS,
        *(block for webhook in consents for block in _blocks(webhook)),
    )


def request_text() -> str:
    """Return the first lines of a request as it is on the wire, without the user agent, which has the version."""
    paid = samples.sample("order.processed", now_ms=SENT_MS)
    notice = Notice(paid.event_id, paid.action, paid.seller_id, paid.source_id, paid.body)
    secret = Secret("whsec_" + "QSBzZWNyZXQgb2YgdGhlIGV4YW1wbGVzIG9ubHkhISE=")
    sent = request(notice.message("https://shop.example/webhooks?store=7", 1), [secret], SENT_MS // 1000)
    headers = {name: value for name, value in sent.headers.items() if name not in {"User-Agent", "Accept-Encoding"}}
    lines = (f"POST {sent.url.raw_path_qs} HTTP/1.1", f"Host: {sent.url.host}", *map(": ".join, headers.items()))
    return "\n".join(lines)


def _anchor(webhook: Webhook) -> str:
    return webhook.action.replace(".", "")


def _blocks(webhook: Webhook) -> Iterator[str]:
    yield f"### {webhook.action}"
    yield f"{webhook.summary}. {webhook.description}".rstrip()
    if webhook.moves:
        by = "; ".join(f"{move.by} (`{move.name}`)" for move in webhook.moves)
        details = ", ".join(f"`{detail}`" for detail in samples.status_details(webhook.action))
        yield f"- **When**: {by}.\n- **`status_detail` of the payment**: {details}."
    yield f"```json\n{json.dumps(webhook.example, indent=2, ensure_ascii=False)}\n```"
