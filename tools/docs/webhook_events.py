"""Generate the page of all notifications: when each is sent, a complete one of each form, and a request."""

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

Every notification that Paydesk sends. [Receive webhooks](webhooks.md) says how to verify and store them, and shows
[a whole request](webhooks.md#what-arrives) with `order.processed`. The [OpenAPI document](openapi.json) has the schema
and an example of each, under `webhooks`."""

_ORDERS = """\
## Orders

`data` is the order at this version; `data.version` counts its changes from 1. `status_detail` of a paid order is
`accredited`, that of its payment is listed below. `live_mode` is false for test orders. An optional field is absent,
never null."""

COMPLETE = ("order.refunded", "application.authorized")
"""The actions whose notification is on the page; the others have no further fields."""

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
    if webhook.description:
        yield webhook.description
    if webhook.moves:
        by = "; ".join(f"{move.by} (`{move.name}`)" for move in webhook.moves)
        details = ", ".join(f"`{detail}`" for detail in samples.status_details(webhook.action))
        yield f"- **When**: {by}.\n- **Its payment**: {details}."
    if webhook.action in COMPLETE:
        yield f"```json\n{json.dumps(webhook.example, indent=2, ensure_ascii=False)}\n```"
