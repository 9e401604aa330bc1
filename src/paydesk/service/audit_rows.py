"""Entries of the audit trail on the console's pages: what was done in words, to what, and which values changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from paydesk.console import view
from paydesk.console.api import Document
from paydesk.console.request import PATH
from paydesk.operators.terminals.fields import serial_of
from paydesk.platform.operation import Operation

VALUE_CHARACTERS_MAX = 200
SHOWN_MAX, FIRST = 6, 4
"""So many values are shown at once; of more the first ones, and the others on request."""

_ROWS: dict[str, Operation] = {}
"""The rows by the names of their actions in the audit trail."""
OTHERS: Mapping[str, tuple[str, str, str]] = {
    "codes.create": ("Added", "authorization code", ""),
    "deliveries.send_to": ("Sent to another URL:", "notification", "/webhooks/deliveries"),
    "dev.reset": ("Reset", "database", ""),
    "operators.password": ("Set the password of", "operator", "/operators"),
    "orders.create": ("Added", "order", "/orders"),
    "orders.export": ("Exported", "order", "/orders"),
    "requests.send": ("Sent again", "request", "/requests"),
    "scenes.create": ("Added", "scene of a test", "/sellers"),
    "subscriptions.clear_fault": ("Cleared the fault of", "subscription", "/webhooks/subscriptions"),
    "subscriptions.set_fault": ("Set a fault of", "subscription", "/webhooks/subscriptions"),
    "subscriptions.secrets.remove": ("Removed a secret of", "subscription", "/webhooks/subscriptions"),
}
"""What no row records, or none any more, because old entries are read for ever: what was done, to what, and where the
pages of such things are, below the console."""
_NAMED = ("operators", "applications", "sellers", "stores", "pos")
"""What is shown by its name."""
_OF_SELLER: Mapping[str, str] = {"stores": "store", "pos": "pos"}
"""What is on the page of its seller: the parameter that selects it."""


Change = tuple[str, str | None, str | None]
"""A value that changed: its name, before and after; None for one that is new or gone."""


def include(rows: Iterable[Operation]) -> None:
    """Let entries be shown by the words of these rows."""
    _ROWS.update((row.action.audit, row) for row in rows if row.action is not None)


def about_of(entry: Document, names: Mapping[str, str]) -> tuple[str, str, str]:
    """Return what was done, how its subject is shown if not by its id, and the page about it; empty without one.

    `names` are those of operators by their ids.
    """
    action, subject, kind = entry["action"], entry["subject"], entry["action"].partition(".")[0]
    did, noun, pages = words_of(action, kind, subject)
    sides = [side for side in (entry.get("after"), entry.get("before")) if isinstance(side, dict)]
    name, href = "", f"{PATH}{pages}/{subject}" if pages else ""
    if kind in ("terminals", "pairings"):
        name = serial_of(subject)
    elif kind in _NAMED:
        name = _cut(next((side["name"] for side in sides if isinstance(side.get("name"), str)), ""))
    if kind in _OF_SELLER:
        seller_id = next((side["seller_id"] for side in sides if side.get("seller_id")), "")
        # The parameter selects the page of the seller's stores, the fragment the place on it.
        place = f"?{_OF_SELLER[kind]}={subject}#{kind}-{subject}"
        href = f"{PATH}/sellers/{seller_id}{place}" if seller_id else ""
    return f"{did} {noun}".strip(), name or names.get(subject, ""), "" if action.endswith(".delete") else href


def values_of(entry: Document) -> tuple[Sequence[Change], Sequence[Change]]:
    """Return the values that an entry changed: those that are shown at once, and the others.

    Each value of nested objects is one by itself. The id of the subject and what a new one lacks say nothing new.
    """
    old, new, changed = dict(_flat(entry.get("before"))), dict(_flat(entry.get("after"))), list[Change]()
    for name in {**old, **new}:
        before, after = old.get(name), new.get(name)
        is_lacking = before is None and (name == "created" or (name.startswith("has ") and after == "no"))
        if before != after and not is_lacking and entry["subject"] not in (before, after):
            changed.append((name, before, after))
    shown = SHOWN_MAX if len(changed) <= SHOWN_MAX else FIRST
    return changed[:shown], changed[shown:]


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
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, str):
        return _cut(value) or "empty"
    if isinstance(value, list) and not any(isinstance(one, dict | list) for one in value):
        return _cut(", ".join(map(str, value))) or "none"
    return _cut(msgspec.json.encode(value).decode())


def _cut(text: str) -> str:
    return text if len(text) <= VALUE_CHARACTERS_MAX else f"{text[:VALUE_CHARACTERS_MAX]}…"
