"""Entries of the audit trail on the console's pages: what was done in words, to what, and which values changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from paydesk.console import view
from paydesk.console.api import Document
from paydesk.console.request import PATH
from paydesk.console.terminal_looks import serial_of

VALUE_CHARACTERS_MAX = 200
SHOWN_MAX, FIRST = 6, 4
"""So many values are shown at once; of more the first ones, and the others on request."""

_NOUNS: Mapping[str, tuple[str, str]] = {
    "applications": ("application", f"{PATH}/applications/"),
    "codes": ("authorization code", ""),
    "deliveries": ("notification", f"{PATH}/webhooks/deliveries/"),
    "dev": ("database", ""),
    "grants": ("authorization", ""),
    "operators": ("operator", f"{PATH}/operators/"),
    "orders": ("order", f"{PATH}/orders/"),
    "pairings": ("terminal", f"{PATH}/terminals/"),
    "pos": ("point of sale", ""),
    "requests": ("request", f"{PATH}/requests/"),
    "reversals": ("reversal", ""),
    "sellers": ("seller", f"{PATH}/sellers/"),
    "sessions": ("session", ""),
    "stores": ("store", ""),
    "subscriptions": ("subscription", f"{PATH}/webhooks/subscriptions/"),
    "terminals": ("terminal", f"{PATH}/terminals/"),
}
"""By the first word of an action: what it was done to, and the path of its page."""
_VERBS: Mapping[str, str] = {
    "approve": "Paired",
    "cancel": "Canceled",
    "change": "Changed",
    "clear_fault": "Cleared the fault of",
    "create": "Added",
    "delete": "Deleted",
    "deny": "Denied the pairing of",
    "end": "Ended",
    "export": "Exported",
    "password": "Set the password of",
    "password_link": "Made a link for",
    "pause": "Paused",
    "refund": "Refunded",
    "release": "Released",
    "replay": "Sent notifications again of",
    "resend": "Sent again",
    "reset": "Reset",
    "resolve": "Set the outcome of",
    "resume": "Resumed",
    "revoke": "Revoked",
    "secrets.add": "Added a secret to",
    "secrets.drop": "Dropped a secret of",
    "secrets.promote": "Made another secret primary of",
    "secrets.remove": "Removed a secret of",
    "send": "Sent again",
    "send_to": "Sent to another URL:",
    "set_fault": "Set a fault of",
    "suspend": "Suspended",
    "withdraw": "Withdrew",
}
"""By what follows the first word of an action."""
_NAMED = ("operators", "applications", "sellers", "stores", "pos")
"""What is shown by its name."""
_OF_SELLER: Mapping[str, str] = {"stores": "store", "pos": "pos"}
"""What is on the page of its seller: the parameter that selects it."""
_WITHOUT_PAGE = (
    "terminals.delete", "subscriptions.delete", "operators.delete", "applications.delete", "sellers.delete",
    "stores.delete", "pos.delete", "pairings.deny",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """A value that changed. `before` is None for one that is new, `after` for one that is gone."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One entry. `author` is empty if the operator is deleted; `href` if the subject has no page."""

    id: str
    created_date: str
    author: str
    author_id: str
    author_href: str
    did: str
    subject: str
    subject_name: str
    """How the subject is shown, if not by its id."""
    href: str
    address: str
    first: Sequence[Change]
    rest: Sequence[Change]
    """The values that changed: those that are shown at once, and the others."""


def row_of(entry: Document, names: Mapping[str, str]) -> AuditRow:
    """Return the row of an entry. `names` are those of operators by their ids."""
    kind, _, verb = entry["action"].partition(".")
    noun, page = _noun_of(kind, entry["subject"])
    before, after = entry.get("before"), entry.get("after")
    changed = [one for one in changes(before, after) if _is_news(one, entry)]
    shown = SHOWN_MAX if len(changed) <= SHOWN_MAX else FIRST
    return AuditRow(
        id=entry["entry_id"],
        created_date=entry["created_date"],
        author=entry.get("name", ""),
        author_id=entry["operator_id"],
        author_href=f"{PATH}/operators/{entry['operator_id']}",
        did=f"{_VERBS.get(verb, verb.replace('_', ' ').capitalize())} {noun}".strip(),
        subject=entry["subject"],
        subject_name=_shown(kind, entry["subject"], after, before) or names.get(entry["subject"], ""),
        href="" if entry["action"] in _WITHOUT_PAGE else _href(kind, page, entry["subject"], after, before),
        address="this machine" if entry["address"] == "local" else entry["address"],
        first=changed[:shown],
        rest=changed[shown:],
    )


def changes(before: Any, after: Any) -> Iterator[Change]:
    """Yield the values that differ, each value of nested objects by itself."""
    old, new = dict(_flat(before)), dict(_flat(after))
    for name in {**old, **new}:
        if old.get(name) != new.get(name):
            yield Change(name, old.get(name), new.get(name))


def _is_news(change: Change, entry: Document) -> bool:
    """Return whether a value says more than the entry does, unlike the id of its subject and what a new one lacks."""
    if change.before is None and (
        change.name == "created" or (change.name.startswith("has ") and change.after == "no")
    ):
        return False
    return entry["subject"] not in (change.before, change.after)


def _noun_of(kind: str, subject: str) -> tuple[str, str]:
    """Return what an action was done to, and the path of its page: notifications are also sent again by their order."""
    if kind == subject:
        # All of a kind, such as an export of orders.
        return "", ""
    if kind == "deliveries" and subject.startswith("ORD"):
        return _NOUNS["orders"]
    if kind == "deliveries" and "." not in subject:
        return _NOUNS["subscriptions"]
    return _NOUNS.get(kind, (kind, ""))


def _href(kind: str, page: str, subject: str, *sides: Any) -> str:
    """Return the path of the page about a subject; empty if there is none."""
    if kind in _OF_SELLER:
        sellers = (side.get("seller_id") for side in sides if isinstance(side, dict))
        seller_id = next((one for one in sellers if one), "")
        # The parameter selects the page of the seller's stores, the fragment the place on it.
        name = _OF_SELLER[kind]
        return f"{PATH}/sellers/{seller_id}?{name}={subject}#{kind}-{subject}" if seller_id else ""
    return f"{page}{subject}" if page else ""


def _shown(kind: str, subject: str, *sides: Any) -> str:
    if kind in ("terminals", "pairings"):
        return serial_of(subject)
    if kind not in _NAMED:
        return ""
    names = (side.get("name") for side in sides if isinstance(side, dict))
    return _cut(next((name for name in names if isinstance(name, str)), ""))


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, one in value.items():
            words = key.replace("_", " ")
            yield from _flat(one, f"{name} {words}" if name else words)
    elif isinstance(value, list) and value and all(isinstance(one, dict) and "id" in one for one in value):
        # Each by its id, such as the secrets of an application.
        for one in value:
            rest = {key: part for key, part in one.items() if key != "id"}
            yield from _flat(rest, f"{name.removesuffix('s')} {view.short(str(one['id']))}")
    elif name:
        yield name.removesuffix(" date"), _words(value)


def _words(value: Any) -> str:
    if isinstance(value, str):
        return _cut(value) or "empty"
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, list) and not any(isinstance(one, dict | list) for one in value):
        return _cut(", ".join(map(str, value))) or "none"
    return _cut(msgspec.json.encode(value).decode())


def _cut(text: str) -> str:
    return text if len(text) <= VALUE_CHARACTERS_MAX else f"{text[:VALUE_CHARACTERS_MAX]}…"
