"""Entries of the audit trail on the console's pages: what was done in words, to what, and which values changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from paydesk.console import view
from paydesk.console.api import Document
from paydesk.console.request import PATH
from paydesk.operators.operations import OPERATIONS as ROWS
from paydesk.operators.terminals.fields import serial_of

VALUE_CHARACTERS_MAX = 200
SHOWN_MAX, FIRST = 6, 4
"""So many values are shown at once; of more the first ones, and the others on request."""

_ROWS = {row.action.audit: row for row in ROWS if row.action is not None}
"""The rows by the names of their actions in the audit trail."""
OTHERS: Mapping[str, tuple[str, str, str]] = {
    "codes.create": ("Added", "authorization code", ""),
    "deliveries.send_to": ("Sent to another URL:", "notification", "/webhooks/deliveries"),
    "dev.reset": ("Reset", "database", ""),
    "operators.password": ("Set the password of", "operator", "/operators"),
    "orders.create": ("Added", "order", "/orders"),
    "orders.export": ("Exported", "order", "/orders"),
    "requests.send": ("Sent again", "request", "/requests"),
    "subscriptions.secrets.remove": ("Removed a secret of", "subscription", "/webhooks/subscriptions"),
}
"""What no row records, or none any more, because old entries are read for ever: what was done, to what, and where the
pages of such things are, below the console."""
_NAMED = ("operators", "applications", "sellers", "stores", "pos")
"""What is shown by its name."""
_OF_SELLER: Mapping[str, str] = {"stores": "store", "pos": "pos"}
"""What is on the page of its seller: the parameter that selects it."""


@dataclass(frozen=True, slots=True)
class Change:
    """A value that changed. `before` is None for one that is new, `after` for one that is gone."""

    name: str
    before: str | None
    after: str | None


class About(NamedTuple):
    """What was done to what. `href` is empty if the subject has no page."""

    did: str
    name: str
    """How the subject is shown, if not by its id."""
    href: str


def about_of(entry: Document, names: Mapping[str, str]) -> About:
    """Return what an entry is about. `names` are those of operators by their ids."""
    kind = entry["action"].partition(".")[0]
    did, noun, pages = words_of(entry["action"], kind, entry["subject"])
    before, after = entry.get("before"), entry.get("after")
    return About(
        f"{did} {noun}".strip(),
        _shown(kind, entry["subject"], after, before) or names.get(entry["subject"], ""),
        "" if entry["action"].endswith(".delete") else _href(kind, pages, entry["subject"], after, before),
    )


def values_of(entry: Document) -> tuple[Sequence[Change], Sequence[Change]]:
    """Return the values that an entry changed: those that are shown at once, and the others."""
    changed = [one for one in changes(entry.get("before"), entry.get("after")) if _is_news(one, entry)]
    shown = SHOWN_MAX if len(changed) <= SHOWN_MAX else FIRST
    return changed[:shown], changed[shown:]


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


def words_of(name: str, kind: str, subject: str) -> tuple[str, str, str]:
    """Return what was done, to what, and where the pages of such things are; empty if there are none."""
    row = _ROWS.get(name)
    if row is None:
        did, noun, pages = OTHERS.get(name, (name.partition(".")[2].replace("_", " ").capitalize(), kind, ""))
    else:
        of = row.action.noun
        did, noun, (pages, _, parameter) = row.action.words.did, of.title, of.page.rpartition("/{")
        if f"{{{parameter}" not in of.path or (row.method == "DELETE" and row.answer is None):
            pages = ""  # The page is that of another object, or what it was about is gone.
    if kind == subject:
        # All of a kind, such as an export of orders.
        return did, "", ""
    if kind == "deliveries" and subject.startswith("ORD"):
        # Notifications are also sent again by their order.
        return did, "order", "/orders"
    return did, noun, pages


def _href(kind: str, pages: str, subject: str, *sides: Any) -> str:
    """Return the path of the page about a subject; empty if there is none."""
    if kind in _OF_SELLER:
        sellers = (side.get("seller_id") for side in sides if isinstance(side, dict))
        seller_id = next((one for one in sellers if one), "")
        # The parameter selects the page of the seller's stores, the fragment the place on it.
        name = _OF_SELLER[kind]
        return f"{PATH}/sellers/{seller_id}?{name}={subject}#{kind}-{subject}" if seller_id else ""
    return f"{PATH}{pages}/{subject}" if pages else ""


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
