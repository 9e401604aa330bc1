"""The lookups of a search, for all sellers: each finds one type of object by the text, and presents it.

Those that find orders are in `orders`.
"""

from __future__ import annotations

from collections.abc import Sequence

from paydesk.core import ids
from paydesk.core.clock import rfc3339
from paydesk.core.text.redaction import redacted_url
from paydesk.engine.orders.status_labels import Labels
from paydesk.engine.terminals import presence
from paydesk.operators import lists
from paydesk.operators.deliveries import handlers as deliveries
from paydesk.operators.search.hits import RESULTS_MAX, Hits, Lookup, SearchHit
from paydesk.operators.search.orders import (
    order,
    orders_by_card,
    orders_by_ending,
    orders_by_payer,
    orders_by_reference,
)
from paydesk.platform.storage.database import Row, Transaction

# There are few terminals, applications and sellers compared with orders, so a part of a name is searched in all.
TERMINAL_IDS = """
SELECT seller_id, terminal_id FROM terminal_owners
 WHERE LOWER(terminal_id) LIKE $1 ESCAPE '!' ORDER BY terminal_id LIMIT $2"""

TERMINALS_AT = """
SELECT p.seller_id, t.terminal_id FROM pos p
  JOIN terminals t ON t.seller_id = p.seller_id AND t.pos_id = p.pos_id
 WHERE LOWER(p.name) LIKE $1 ESCAPE '!' OR LOWER(p.external_pos_id) LIKE $1 ESCAPE '!'
 ORDER BY t.terminal_id LIMIT $2"""

TERMINAL_OWNER = "SELECT seller_id, terminal_id FROM terminal_owners WHERE terminal_id = $1"

TERMINAL = f"""
SELECT t.terminal_id, p.name, t.operating_mode, {presence.COLUMNS} FROM terminals t {presence.LIVE_ORDER}
  LEFT JOIN pos p ON p.seller_id = t.seller_id AND p.pos_id = t.pos_id
 WHERE t.seller_id = $1 AND t.terminal_id = $2"""

_REQUEST = "entry_id, method, path, status, error, created_ms"
REQUESTS = f"""
SELECT {_REQUEST} FROM recorded_requests WHERE request_id = $1
 UNION SELECT {_REQUEST} FROM recorded_requests WHERE entry_id = $1
 ORDER BY entry_id DESC LIMIT $2"""

SELLERS = """
SELECT seller_id, name, email, suspended_ms FROM sellers
 WHERE seller_id = $1 OR email = $2 OR LOWER(name) LIKE $3 ESCAPE '!' ORDER BY name, seller_id LIMIT $4"""

APPLICATIONS = """
SELECT application_id, name, suspended_ms FROM applications
 WHERE application_id = $1 OR LOWER(name) LIKE $2 ESCAPE '!' ORDER BY name, application_id LIMIT $3"""

SUBSCRIPTION = """
SELECT subscription_id, url, paused_ms, created_ms FROM subscriptions
 WHERE subscription_id = $1 AND deleted_ms IS NULL"""


async def terminal(tx: Transaction, text: str, labels: Labels) -> Hits:
    """Find the terminal of an id, in upper or lower case."""
    for spelling in dict.fromkeys((text, text.upper())):
        if owners := await tx.all(TERMINAL_OWNER, spelling):
            return await _terminals(tx, owners, labels)
    return []


async def terminals(tx: Transaction, text: str, labels: Labels) -> Hits:
    """Find terminals by a part of their id, such as the serial number, or of their point of sale's name."""
    sought = lists.containing(text)
    keys = [*await tx.all(TERMINAL_IDS, sought, RESULTS_MAX), *await tx.all(TERMINALS_AT, sought, RESULTS_MAX)]
    return await _terminals(tx, list(dict.fromkeys(map(tuple, keys)))[:RESULTS_MAX], labels)


async def requests(tx: Transaction, text: str, labels: Labels) -> Hits:  # noqa: ARG001 - as every lookup
    """Find the recorded requests with this id, newest first."""
    return [
        SearchHit("request", entry_id, f"{method} {path}", error or "", str(status), rfc3339(created_ms))
        for entry_id, method, path, status, error, created_ms in await tx.all(REQUESTS, text, RESULTS_MAX)
    ]


async def sellers(tx: Transaction, text: str, labels: Labels) -> Hits:  # noqa: ARG001
    """Find sellers by id, e-mail address, or a part of the name."""
    rows = await tx.all(SELLERS, lists.id_in_path(text), text.lower(), lists.containing(text), RESULTS_MAX)
    return [
        SearchHit("seller", str(seller_id), name, email, _suspended(suspended_ms))
        for seller_id, name, email, suspended_ms in rows
    ]


async def applications(tx: Transaction, text: str, labels: Labels) -> Hits:  # noqa: ARG001
    """Find applications by `client_id`, or a part of the name."""
    rows = await tx.all(APPLICATIONS, lists.id_in_path(text), lists.containing(text), RESULTS_MAX)
    return [
        SearchHit("application", str(client_id), name, f"client_id {client_id}", _suspended(suspended_ms))
        for client_id, name, suspended_ms in rows
    ]


async def subscription(tx: Transaction, text: str, labels: Labels) -> Hits:  # noqa: ARG001
    """Find the subscription of an id."""
    rows = await tx.all(SUBSCRIPTION, text.lower()) if ids.UUID.fullmatch(text) else ()
    return [
        SearchHit(
            "subscription", id_, redacted_url(url), "", "active" if paused_ms is None else "paused", rfc3339(created_ms)
        )
        for id_, url, paused_ms, created_ms in rows
    ]


async def delivery(tx: Transaction, text: str, labels: Labels) -> Hits:  # noqa: ARG001
    """Find the delivery of an id: an event's and a subscription's, joined by a point."""
    event_id, _, subscription_id = text.lower().partition(".")
    if not (ids.UUID.fullmatch(event_id) and ids.UUID.fullmatch(subscription_id)):
        return []
    one = await deliveries.find(tx, text.lower())
    if one is None:
        return []
    about = one.order_id or (f"application {one.client_id}" if one.client_id else "operators")
    return [SearchHit("delivery", one.id, f"{one.action} to {one.url}", about, one.status, one.created_date)]


EXACT: tuple[Lookup, ...] = (order, delivery, subscription, terminal)
"""Lookups by id. The first that finds an object ends the search."""
OTHERS: tuple[Lookup, ...] = (
    requests,
    orders_by_reference,
    orders_by_card,
    orders_by_ending,
    terminals,
    applications,
    sellers,
    orders_by_payer,
)
"""The other lookups, in the order of their results."""


async def _terminals(tx: Transaction, keys: Sequence[Row], labels: Labels) -> Hits:
    hits = []
    for key in keys:
        for terminal_id, place, mode, *seen in await tx.all(TERMINAL, *key):
            shown = presence.shown(seen, labels.of_status)
            order = shown["current_order"]
            facts = (place, f"mode {mode}", order and f"order {order.id}")
            hits.append(
                SearchHit("terminal", terminal_id, terminal_id, " · ".join(filter(None, facts)), shown["presence"],
                          shown["last_seen_date"])
            )  # fmt: skip
    return hits


def _suspended(suspended_ms: int | None) -> str | None:
    return None if suspended_ms is None else "suspended"
