"""Every error that an operation declares is reached over HTTP: a new one without a way fails here."""

from __future__ import annotations

import asyncio
import contextlib
import html
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace

import pytest

from conftest import short_and_long
from declared import applications, console, devices, metrics, operators, pages, public, tokens, virtual, virtual_pages
from declared.attempt import PAGES, Attempt, Table, Way
from declared.everywhere import EVERY_SURFACE, FAILURES
from every_operation import OPERATIONS
from faulty_database import FaultyDatabase
from paydesk.core.clock import MovableClock
from paydesk.core.errors import ErrorKind
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.simulator.acquirer import Simulator
from paydesk.platform.http.openapi.document import errors_in_order
from paydesk.platform.operation import Operation
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk.platform.web.language import texts
from rotating import quarter
from service import Reply, Service, running

TABLES = [
    module.TABLE
    for module in (applications, tokens, devices, operators, virtual, pages, virtual_pages, console, metrics, public)
]
SETTINGS = Settings(
    bearer_failures_per_minute=FAILURES,
    client_failures_per_minute=tokens.CLIENT_FAILURES,
    sign_in_failures_per_hour=pages.SIGN_IN_FAILURES,
    metrics_token=f"env:{metrics.VARIABLE}",
    pairings_open_max=public.PAIRINGS_OPEN_MAX,
    pairing_polls_per_minute_address=public.POLLS_PER_MINUTE,
    searches_per_minute_address=public.SEARCHES_PER_MINUTE,
)
FIRST = ("request_timeout", "unauthorized", "too_many_requests")
"""What is asked of all operations at once: one takes its time, one counts failures, one exhausts them."""
FLAT = {"message", "error", "error_description", "status", "cause"}
LISTED = {"errors", "error", "message", "status", "cause"}
NOTICES = {
    "sign_in_failed": "failed",
    "sign_in_throttled": "throttled",
    "form_outdated": "outdated",
    "session_ended": "ended",
}
"""What the form to sign in with says that is shown for an error."""

every_table = pytest.mark.parametrize(
    ("database_url", "table"),
    [("sqlite", table) for table in TABLES] + [("postgres", applications.TABLE)],
    indirect=["database_url"],
    ids=lambda value: value.name if isinstance(value, Table) else value,
)
"""What applications may be refused stands on both databases; the rest is the same code's."""


def test_every_error_of_every_operation_has_a_way() -> None:
    """Every operation is in a table, and nothing that it declares is left out."""
    asked = [(table, operation) for table in TABLES for operation in table.operations]
    assert sorted(operation.name for _, operation in asked) == sorted(operation.name for operation in OPERATIONS)
    for table, operation in asked:
        for kind in errors_in_order(operation):
            if kind.code not in table.elsewhere:
                _way(table, operation, kind)


@every_table
@pytest.mark.parametrize("some", short_and_long(quarter, list), ids=["some", "all"])
async def test_every_declared_error_is_reached(
    database: Database, table: Table, some: Callable[[list[Operation]], list[Operation]]
) -> None:
    """Each of each operation by a request of its own, with its status and its code; what all surfaces share of some."""
    async with _running(database) as (service, faulty):
        base = [await table.good(service, faulty, operation) for operation in table.operations]
        asked_all = some(table.operations)
        for code in FIRST:
            await asyncio.gather(
                *[_reach(table, attempt, kind) for attempt, kind in _declared(base) if kind.code == code]
            )
        for operation in table.operations:
            for kind in errors_in_order(operation):
                is_shared = table.find(operation, kind) is None
                if kind.code not in FIRST + table.elsewhere and (operation in asked_all or not is_shared):
                    await _reach(table, await table.good(service, faulty, operation), kind)


@every_table
async def test_each_attempt_succeeds_before_it_is_spoiled(database: Database, table: Table) -> None:
    """The requests that the ways begin with succeed, so each error has the one cause that its way gives it."""
    async with _running(database) as (service, faulty):
        for operation in table.operations:
            if operation.name not in table.needs_more:
                reply = await (await table.good(service, faulty, operation)).send()
                assert reply.status in (operation.status, *operation.further_statuses), (operation.name, reply.raw)


@pytest.fixture(autouse=True)
def _metrics_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(metrics.VARIABLE, metrics.TOKEN)


@contextlib.asynccontextmanager
async def _running(database: Database) -> AsyncIterator[tuple[Service, FaultyDatabase]]:
    faulty, clock = FaultyDatabase(database), MovableClock()
    # No order's, so that terminals have none.
    acquirers = Acquirers(test=Simulator(faulty, clock), live={"main": Simulator(faulty, clock, live=True)})
    async with running(
        faulty,
        settings=SETTINGS,
        workers=False,
        development=True,
        clock=clock,
        has_fleet=True,
        console_key=console.KEY,
        acquirers=acquirers,
    ) as service:
        yield replace(service, scene=replace(service.scene, clock=clock)), faulty


def _declared(attempts: list[Attempt]) -> Iterator[tuple[Attempt, ErrorKind]]:
    for attempt in attempts:
        for kind in errors_in_order(attempt.operation):
            yield attempt, kind


def _way(table: Table, operation: Operation, kind: ErrorKind) -> Way:
    way = table.find(operation, kind) or EVERY_SURFACE.find(operation, kind)
    assert way is not None, f"no test reaches {kind.code} of {operation.name}"
    return way


async def _reach(table: Table, attempt: Attempt, kind: ErrorKind) -> None:
    operation = attempt.operation
    reply = await _way(table, operation, kind)(attempt)
    assert (reply.status, kind.code in _codes(table, reply)) == (kind.status, True), (
        operation.name,
        kind.code,
        reply.status,
        reply.raw,
    )
    assert reply.headers["x-request-id"]


def _codes(table: Table, reply: Reply) -> set[str]:
    """Return the codes of the response, in the format of its surface."""
    is_page = reply.headers.get("content-type", "").startswith("text/html")
    if is_page or (table.name in PAGES and reply.status != 408):  # which the server answers before any page
        return _codes_of_page(html.unescape(reply.raw.decode()))
    if table.name == "token":
        assert set(reply.body) == FLAT
        return {reply.body["error"]}
    body = reply.body
    assert set(body) >= LISTED
    described = [(error["code"], detail) for error in body["errors"] for detail in error["details"] or [""]]
    assert [cause["code"] for cause in body["cause"]] == [code for code, _ in described]
    for cause, (_, detail) in zip(body["cause"], described, strict=True):
        # The path and the rule of a detail; a rule such as `is required` is in the message.
        assert detail.partition(" - ")[0][1:] in cause["description"]
        assert reply.status == 401 or cause["description"].endswith("."), cause
    assert reply.status == 401 or body["message"] == body["cause"][0]["description"]
    return {error["code"] for error in body["errors"]}


def _codes_of_page(page: str) -> set[str]:
    words = texts("en")
    code = page.partition(words("error.for_developers", code=""))[2].partition("<")[0]
    shown = {code for code, name in NOTICES.items() if words(f"sign_in.{name}", minutes="{").partition("{")[0] in page}
    return shown | {code} | set(re.findall('data-error="(.*?)"', page))
