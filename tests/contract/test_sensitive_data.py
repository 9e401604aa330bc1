"""No card number, stripe, verification value or PIN block is stored or logged, in whatever place it is sent."""

from __future__ import annotations

import contextlib
import io
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import pytest
from aiohttp import web

from declared import applications, console, devices, metrics, operators, pages, public, tokens, virtual, virtual_pages
from declared.attempt import Table
from faulty_database import FaultyDatabase
from kept_logging import kept_logging
from paydesk.core.clock import MovableClock
from paydesk.platform import logs
from paydesk.platform.operation import Operation
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from rotating import quarter
from sensitive_data import Canaries, Sending, sprayed, stored
from service import Service, running
from waiting import until
from webhooks_scene import Receiver, receiver, subscribe

STREAMS = ("virtual_page_events", console.STREAM)
"""Their answers do not end; their paths and queries are those of pages."""
MODULES = (applications, tokens, devices, pages, virtual_pages, virtual, metrics, public, console, operators)
OPERATIONS_MAX = 20
NOTIFYING = (applications, devices, virtual)
"""Their operations change orders, of which receivers hear."""


class Part(NamedTuple):
    """Some operations of a surface."""

    table: Table
    operations: list[Operation]
    is_notifying: bool


def _parts() -> Iterator[Any]:
    """Yield the surfaces, the large ones in parts."""
    for module in MODULES:
        operations = [operation for operation in module.TABLE.operations if operation.name not in STREAMS]
        for first in range(0, len(operations), OPERATIONS_MAX):
            name = module.__name__.removeprefix("declared.") + (f"-{first}" if first else "")
            # Neighbours stay together: what one suspends the next resumes.
            part = operations[first : first + OPERATIONS_MAX]
            # Before something is deleted, and perhaps the only trace with it.
            chosen = sorted(part, key=lambda operation: operation.method == "DELETE")
            yield pytest.param(Part(module.TABLE, chosen, module in NOTIFYING), id=name)


SETTINGS = Settings(card_numbers_refused_in_references=True, results_per_lease_max=1000)


@pytest.fixture
async def inbox(canaries: Canaries) -> AsyncIterator[Receiver]:
    """A receiver that answers each notification with card data."""

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        named, texts = canaries.named(), list(canaries.texts())
        body = json.dumps({"seen": named, "as": json.dumps(named), "note": texts, "x": canaries.word()})
        return web.Response(status=500, reason=texts[5], text=body, headers={"X-Card": texts[0]})

    async with receiver(answer) as made:
        yield made


@pytest.fixture
def canaries() -> Canaries:
    """What is sent, to be looked for."""
    return Canaries()


def _some(part: Part, sendings: list[Sending], shift: int) -> list[Sending]:
    """Return a quarter of the requests of operators and of their pages, which cost most, and all others."""
    return quarter(sendings, shift) if part.table in (operators.TABLE, console.TABLE) else sendings


def _all(_: Part, sendings: list[Sending], shift: int) -> list[Sending]:  # noqa: ARG001 - `_some` has it
    return sendings


@pytest.mark.long("orders of operators, with hundreds of deliveries")
@pytest.mark.parametrize(
    ("choose", "database_url"),
    [
        pytest.param(_some, "sqlite", id="some"),
        pytest.param(_all, "sqlite", id="all", marks=pytest.mark.slow),
        pytest.param(_all, "postgres", id="all-postgres", marks=pytest.mark.slow),
    ],
    indirect=["database_url"],
)
@pytest.mark.parametrize("part", list(_parts()))
async def test_no_card_data_is_stored_or_logged(
    database: Database, inbox: Receiver, canaries: Canaries, part: Part, choose: Callable[..., list[Sending]]
) -> None:
    """Sent to every operation in its headers, parameters and fields; then all tables and the log are searched."""
    stream, answered, table = io.StringIO(), Counter[int](), part.table
    async with _logged(database, stream) as (service, faulty):
        await subscribe(database, inbox.url, application_id=service.scene.application.application_id)
        for shift, operation in enumerate(part.operations):
            if operation.method == "DELETE":
                assert await _leaks(database, canaries) == {}
            valid, chosen = partial(table.good, service, faulty, operation), partial(choose, part, shift=shift)
            async for reply in sprayed(valid, canaries, chosen):
                answered[reply.status] += 1
                assert reply.status < 500 or operation.name in table.needs_more, (operation.name, reply)
        await _elsewhere(service, canaries)
        await until(lambda: bool(inbox.got) or not part.is_notifying)
    assert await _leaks(database, canaries) == {}
    lines = stream.getvalue().rstrip("\n").split("\n")
    assert [line for line in lines if canaries.found_in(line)] == []
    written = [json.loads(line) for line in lines if line.startswith("{")]
    defects = [line for line in written if line["event"] in ("unhandled_exception", "undeclared_error")]
    assert {line["operation"] for line in defects} <= set(table.needs_more), defects
    assert len(lines) >= answered.total() > len(part.operations), "there is something to search"


async def _leaks(database: Database, canaries: Canaries) -> dict[str, list[str]]:
    """The canaries in the database, by table."""
    found = {table: canaries.found_in(text) for table, text in (await stored(database)).items()}
    return {table: values for table, values in found.items() if values}


@contextlib.asynccontextmanager
async def _logged(database: Database, stream: io.StringIO) -> AsyncIterator[tuple[Service, FaultyDatabase]]:
    """A service with its workers and a seller of its own, whose log goes into the stream as JSON."""
    faulty, clock = FaultyDatabase(database), MovableClock()
    async with running(
        faulty, settings=SETTINGS, development=True, clock=clock, has_fleet=True, records=True
    ) as service:
        with kept_logging():
            logs.configure("json", stream)
            yield replace(service, scene=replace(service.scene, clock=clock)), faulty


async def _elsewhere(service: Service, canaries: Canaries) -> None:
    for text in canaries.texts():
        headers = {"X-Request-Id": text[:64]} if text.isascii() else {}
        for path in ("/", "/v1/payments/", "/point/integration-api/devices/"):
            await service.request("GET", f"{path}{text}?pan={text}", headers=headers)


def test_the_search_finds_what_is_there() -> None:
    """A canary is found in any script and grouping, and by its word."""
    canaries = Canaries()
    for text in (*canaries.texts(), *canaries.named().values()):
        assert canaries.found_in(f'{{"x": "{text}"}}'), text
    assert canaries.found_in("4111 2026-01-31 nothing") == []
