"""A `Call` is for handlers: what lies below them takes plain values, so that workers and tests can use it too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import paydesk
from every_operation import OPERATIONS
from paydesk.operators.lists import Pages
from paydesk.platform.operation import ThreePhase

SOURCES = Path(paydesk.__file__).parents[1]
ALLOWED = {
    "paydesk.platform.operation": "declares the last phase of a three-phase operation",
    "paydesk.platform.http.endpoint": "runs the handlers",
    "paydesk.platform.http.three_phase": "runs the handlers",
    "paydesk.platform.http.on_behalf": "finds the seller on whose behalf an operator calls a handler",
    "paydesk.platform.http.fleet": "limits how many calls are handled at once",
    "paydesk_dev.extras": "adds fields to the answers of handlers, in development",
    "paydesk.platform.idempotency": "runs a handler, and checks whether it wrote",
    "paydesk.engine.orders.change": "takes the change out of the call",
    "paydesk.engine.sellers.accounts": "signs in at the pages of sellers and operators, for both",
    "paydesk.engine.sellers.sessions": "notes the seller who signs in, for the log",
    "paydesk.engine.oauth.pages.seller_request": "reads cookies and headers for the handlers of pages",
    "paydesk.platform.web.forms": "reads cookies and headers for the handlers of pages",
    "paydesk.console.request": "reads cookies and headers for the screens of the console",
    "paydesk.console.screen": "makes handlers of the screens of the console",
    "paydesk.console.api": "sends the requests of a screen to `/operator/v1`",
    "paydesk_dev.virtual.page.access": "checks the key of a page for its handlers",
    "paydesk.operators.audit": "records who makes the call, and from where",
    "paydesk.operators.subject": "locks, changes and records what the handlers of a noun change",
    "paydesk.engine.payments.simulator.order_moves": "POST /v1/orders/{order_id}/events calls it for some statuses",
}
"""Modules without handlers that take calls, each with its reason."""


def _handling() -> Iterator[str]:
    """Yield the modules with handlers and conflict keys of operations."""
    for operation in OPERATIONS:
        handler = operation.handler
        phases = (handler.begin, handler.call, handler.finish) if isinstance(handler, ThreePhase) else (handler,)
        pages = getattr(handler, "__self__", None)
        finding = (pages.find,) if isinstance(pages, Pages) else ()
        for function in (*phases, *finding, operation.conflict_keys):
            yield getattr(function, "__module__", "")


def _taking() -> Iterator[tuple[str, str]]:
    """Yield the functions that take a call, each with its module."""
    for file in SOURCES.rglob("*.py"):
        module = ".".join(file.relative_to(SOURCES).with_suffix("").parts)
        for node in ast.walk(ast.parse(text)) if "Call" in (text := file.read_text()) else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                if any(one.annotation is not None and ast.unparse(one.annotation) == "Call" for one in given):
                    yield module, node.name


def test_only_handlers_take_a_call() -> None:
    """And the few modules that work for them all, which are still used."""
    handling, taking = set(_handling()), list(_taking())
    below = {f"{module}.{name}" for module, name in taking if module not in handling and module not in ALLOWED}
    assert below == set(), "hand plain values to what lies below a handler: the transaction, the time, the caller"
    assert set(ALLOWED) <= {module for module, _ in taking} - handling
