"""The page generated from the rows with words: what operators can do, by noun."""

from __future__ import annotations

from paydesk.platform.operation import Operation
from paydesk.platform.roles import lowest
from paydesk_dev.api import API
from tools.docs.markdown import page, table

_HEAD = """\
# What operators can do

<!-- Written by `make generate` from `operators/*/operations.py`; changes made here are lost. -->

Each action is a request to `/operator/v1`, a form of [the console](console.md) and a [command](commands.md). The audit
trail has each under its name. *Role* is the lowest that may: `viewer`, `support`, `operator`, `owner`. [Applications,
sellers and operators](operators.md) says when to use which."""

WRITTEN = {
    "acquirers.test": "acquirers test",
    "applications.secrets.remove": "apps secrets remove",
    "deliveries.resend": "webhooks resend",
    "operators.create": "operators create",
    "operators.password_link": "operators link",
    "orders.cancel": "orders cancel --reason",
    "orders.refund": "orders refund --reason",
    "pairings.approve": "terminals pair",
    "pairings.deny": "terminals pair --deny",
    "sessions.end": "sessions end",
    "terminals.create": "terminals create --virtual",
    "terminals.release": "terminals release",
}
"""The commands that are not made from a row, by the name in the audit trail."""


def page_of_actions() -> str:
    """Return `docs/actions.md`."""
    rows = sorted(
        (row for row in API.operations if row.action is not None and row.method != "GET"),
        key=lambda row: row.action.noun.collection,
    )
    return page(_HEAD, table(("To", "Role", "Request", "Command", "Audit trail"), map(_cells, rows)))


def _cells(row: Operation) -> tuple[str, ...]:
    action = row.action
    command = action.command or WRITTEN.get(action.audit)
    return (
        row.summary[:1].lower() + row.summary[1:] + (", in development" if row.development else ""),
        lowest(row.role or "change"),
        f"`{row.method} {row.path}`",
        f"`paydesk {command}`" if command is not None else "-",
        f"`{action.audit}`",
    )
