"""The sections of the reference: operations and webhooks by what people do with them, not by their paths."""

from __future__ import annotations

import re
from dataclasses import dataclass

from paydesk.platform.operation import Operation
from paydesk.platform.web import assets


@dataclass(frozen=True, slots=True)
class Section:
    """Operations that serve one purpose. `guides` are the names of the guides that belong to it."""

    group: str
    title: str
    pattern: str
    """Matches the surface and the path of its operations, as in `application /v1/orders`."""
    guides: tuple[str, ...] = ()


_NOUNS = "operator /operator/v1/"
APPLICATIONS, TERMINALS, OPERATORS, DEVELOPMENT = "Applications", "Terminals", "Operators", "Development"
SECTIONS = (
    Section(APPLICATIONS, "Orders", "application /v1/orders(?!/.*refund)", ("quickstart", "order-lifecycle")),
    Section(APPLICATIONS, "Refunds", "application .*/refund", ("refunds",)),
    Section(APPLICATIONS, "Terminals", "application /terminals/v1/(list|setup)", ("terminals",)),
    Section(APPLICATIONS, "Printing", "application /terminals/v1/actions"),
    Section(APPLICATIONS, "Tokens", "token |application /users/", ("get-a-token", "token-lifecycle")),
    Section(APPLICATIONS, "Webhooks", "webhook |application /v1/events", ("webhooks", "webhook-events")),
    Section(TERMINALS, "Pairing", "public /device/", ("build-a-terminal",)),
    Section(TERMINALS, "Session and payment", "device ", ("terminals", "unknown-outcomes")),
    Section(OPERATORS, "Accounts", _NOUNS + "(applications|sellers|grants)", ("operators",)),
    Section(OPERATORS, "Stores and terminals", _NOUNS + "(stores|pos|terminals|pairings)"),
    Section(OPERATORS, "Orders and money", _NOUNS + "(orders|refunds|inquiries|reversals|confirmations|exports)"),
    Section(OPERATORS, "Webhooks", _NOUNS + "(subscriptions|deliveries)", ("webhook-events",)),
    Section(OPERATORS, "Acquirers", _NOUNS + "acquirers", ("acquirers",)),
    Section(OPERATORS, "Operators", _NOUNS + "(operators|password|sessions|audit)", ("operators",)),
    Section(OPERATORS, "What happens", _NOUNS, ("operations", "runbooks")),
    Section(OPERATORS, "Health and metrics", "metrics |public /(livez|readyz)", ("metrics",)),
    Section(DEVELOPMENT, "Virtual terminals", "development virtual ", ("virtual-terminals", "test-without-hardware")),
    Section(
        DEVELOPMENT,
        "Clock, faults, inbox",
        "development (?!public /dev/docs)",
        ("testing", "ci", "faults", "unhappy-paths", "simulator"),
    ),
)
"""In the order of the sidebar. An operation is in the first section that matches it, or on no page."""


def section_of(row: Operation) -> Section | None:
    """Return the section of an operation; None for pages, assets and documents."""
    if row.media_type.startswith("text/html") or row.path.startswith(assets.PATH):
        return None
    return section_at(f"{'development ' if row.development else ''}{row.surface} {row.path}")


def section_at(address: str) -> Section | None:
    """Return the first section whose pattern matches the address."""
    return next((one for one in SECTIONS if re.match(one.pattern, address)), None)
