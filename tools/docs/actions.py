"""The page generated from the rows with words: what operators can do, a table a noun."""

from __future__ import annotations

from itertools import groupby

from paydesk.operators.forms import address_of
from paydesk.platform.operation import Operation
from paydesk_dev.api import API
from tools.docs.markdown import page, table

_HEAD = """\
# What operators can do

<!-- Written by `make generate` from `operators/*/operations.py`; changes made here are lost. -->

Each action is a request to `/operator/v1`, a form of [the console](console.md) below `/console`, and a command. The
audit trail has each under its name. [Applications, sellers and operators](operators.md) says when to use which."""
_HEADINGS = {"pos": "Points of sale"}
_WHO = {"every": "everyone", "resend": "support, operator, owner", "change": "operator, owner", "owner": "owner"}


def page_of_actions() -> str:
    """Return `docs/actions.md`."""
    rows = sorted(
        (row for row in API.operations if row.action is not None and row.method != "GET"),
        key=lambda row: row.action.noun.collection,
    )
    parts = []
    for collection, actions in groupby(rows, lambda row: row.action.noun.collection):
        head = ("To", "Who may", "Request", "Form", "Command", "Audit trail")
        parts += [f"## {_HEADINGS.get(collection, collection.capitalize())}", table(head, map(_cells, actions))]
    return page(_HEAD, *parts)


def _cells(row: Operation) -> tuple[str, ...]:
    words, action = row.action.words, row.action
    forms = [f"`{address_of(row, one)}`" for one in (words, *words.forms) if one.form is not None]
    return (
        row.summary[:1].lower() + row.summary[1:] + (", in development" if row.development else ""),
        _WHO[row.role or "change"],
        f"`{row.method} {row.path}`",
        ", ".join(forms) or "-",
        f"`paydesk {action.command}`" if action.command is not None else "-",
        f"`{action.audit}`",
    )
