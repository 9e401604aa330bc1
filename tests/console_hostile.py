"""Texts that try to become markup, in everything that clients, terminals and receivers can send and the console shows.

They are written straight into the rows, so that also what the interface refuses today is tried.
"""

from __future__ import annotations

import json

from console_world import World

TAG, ATTRIBUTE = "hostile", "data-hostile"
"""Of no page. They appear as an element or an attribute if a text was taken for markup."""

COLUMNS = (
    "applications.name", "sellers.name", "stores.name", "pos.name", "operators.name",
    "orders.description", "orders.external_reference", "orders.payer_email", "orders.authorization_code",
    "orders.reference_id",
    "terminal_sessions.app_version", "pairings.model", "pairings.serial",
    "recorded_requests.request_id", "recorded_requests.path", "recorded_requests.idempotency_key",
    "recorded_requests.reason", "recorded_requests.user_agent",
    "recorded_requests.request_body", "recorded_requests.response_body",
    "attempts.answer_body", "attempts.error",
    "subscriptions.url",
    "operator_sessions.user_agent", "operator_sessions.address",
    "operator_events.message",
    "print_actions.content", "print_actions.external_reference",
)  # fmt: skip
"""Columns with a text that the service does not choose itself."""
INSIDE = (
    ("orders.card", "6351"),
    ("orders.payment_method", "visa"),
    ("attempts.request", "127.0.0.1"),
    ("operator_audit.after", "Left the shop"),
    ("applications.redirect_uris", "till.example"),
)
"""Columns with JSON, and a text in it."""


def text_of(name: str) -> str:
    """Return the text for a column: it ends elements, attributes, scripts and comments, and names the column."""
    return (
        f"javascript:{name}//\"'><{TAG} {ATTRIBUTE}=1 onfocus=hostile() autofocus><img src=x onerror=hostile()>"
        f"</title></textarea></script><script>hostile()</script>--> {{{{7*7}}}} \u202e {name}"
    )


def long_text(name: str) -> str:
    """Return such a text that ends with 1,000 characters without a space."""
    return f"{text_of(name)}{'W' * 1_000}"


async def spoil(made: World, *, is_long: bool = False) -> None:
    """Put such a text into every column."""
    text = long_text if is_long else text_of
    run = made.service.scene.run
    for name in COLUMNS:
        table, _, column = name.partition(".")
        await run(f"UPDATE {table} SET {column} = $1 WHERE {column} IS NOT NULL", text(name))
    for name, word in INSIDE:
        table, _, column = name.partition(".")
        within = json.dumps(text(name))[1:-1]
        await run(f"UPDATE {table} SET {column} = replace({column}, $1, $2)", word, within)
