"""No request blocks the event loop for more than 50 ms: every operation is sent the most expensive requests.

The test measures the processor time of the event loop's thread from the first byte to the answer. It sends the request
from another thread and runs no workers, so that the loop does nothing else. The best of several tries counts, compared
with a loop in the same process (`cost.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

import hostile
from conftest import short_and_long
from cost import TRIES_MAX, milliseconds
from declared import applications, console, devices, metrics, operators, pages, public, tokens, virtual
from declared.attempt import PAGES, Attempt, Table
from faulty_database import FaultyDatabase
from paydesk.core.clock import MovableClock
from paydesk.platform.http import request_log
from paydesk.platform.http.body import BODY_BYTES_MAX
from paydesk.platform.http.refusals.error_responses import takes_body
from paydesk.platform.operation import Operation
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from service import running

TABLES = [
    module.TABLE for module in (applications, tokens, devices, operators, virtual, pages, console, metrics, public)
]
ALIKE = {"console": 4, "operator": 4}
"""By table: how many operations share the requests that one has elsewhere. All bodies of a table are read alike."""
MILLISECONDS_MAX = 50.0
SETTINGS = Settings(trusted_proxies=("127.0.0.1",), results_per_lease_max=100_000)
NOT_REACHED = {401, 405, 408, 413, 415, 421, 429, 431}
"""Statuses of requests that were refused before their content was processed."""
FORM = "application/x-www-form-urlencoded"
INSTEAD = {"operator_create_terminals": {"pos_id": 1}}
"""Valid requests need the process of the virtual terminals; these are refused in the handler."""


Good = Callable[[Table, Operation], Awaitable[Attempt]]
Renewed = Callable[[], Awaitable[Attempt]]


@dataclass(frozen=True)
class Sent:
    """The expensive part of a request: its body, query, header fields or path."""

    body: bytes | None = None
    query: str | None = None
    fields: list[str] = field(default_factory=list)
    path: str | None = None
    media_type: str = "application/json"
    is_read: bool = True
    """Whether the request passes authentication and reaches the checks of its content."""


Making = Callable[[], Sent]
"""What makes a request, called only if it is sent: making one costs more than many operations."""


def requests_of(attempt: Attempt) -> Iterator[tuple[str, Making]]:
    """Yield the requests for an operation, each with a name."""
    operation = attempt.operation
    if takes_body(operation):
        yield from _bodies(attempt)
    for name, query in hostile.queries(tuple(one.name for one in operation.query)):
        yield f"query {name}", partial(Sent, query=query)
    for name, fields in hostile.headers():
        yield f"header {name}", partial(Sent, fields=fields, is_read=False)
    if attempt.token:
        for name, text in hostile.texts(hostile.HEADER_BYTES_MAX, len):
            if text.isascii() and text.isprintable():
                yield f"token {name}", partial(Sent, fields=[f"Authorization: Bearer x{text}"], is_read=False)
    for parameter in attempt.paths if "{" in operation.path else ():
        for name, text in hostile.texts(hostile.QUERY_BYTES_MAX, lambda unit: len(hostile.quoted(unit))):
            yield f"path {parameter}={name}", partial(_at, attempt, parameter, text)


def _at(attempt: Attempt, parameter: str, text: str) -> Sent:
    return Sent(path=attempt.at(**{parameter: hostile.quoted(text)}).path, is_read=False)


def _bodies(attempt: Attempt) -> Iterator[tuple[str, Making]]:
    operation = attempt.operation
    if operation.surface in (*PAGES, "token"):
        for name, made in hostile.forms(attempt.body):
            yield f"form {name}", partial(_written, made, media_type=FORM)
    if operation.surface not in PAGES:
        names = tuple(operation.body.model_fields) if operation.body is not None else ()
        for name, body in hostile.documents():
            yield f"body {name}", partial(Sent, body)
        for name, made in hostile.spoiled(attempt.body, names):
            yield f"body {name}", partial(_written, made)


def _written(made: Callable[[], bytes], media_type: str = "application/json") -> Sent:
    return Sent(made(), media_type=media_type)


def _large(attempt: Attempt) -> Iterator[tuple[str, Making]]:
    """Yield the requests beyond the limit of most bodies, for an operation that has another one."""
    if (bytes_max := attempt.operation.body_bytes_max) is not None:
        for name, body in hostile.large(attempt.body, bytes_max):
            yield f"body {name}", partial(Sent, body)


@pytest.fixture(autouse=True)
def log_as_in_production() -> Iterator[None]:
    """Write the JSON log line of each request to the null device, so that its redaction is measured too."""
    with Path(os.devnull).open("w") as nowhere:
        request_log.configure(enabled=True, json_stream=nowhere)
        yield
        request_log.configure(enabled=True, json_stream=None)


@contextlib.asynccontextmanager
async def serving(url: str) -> AsyncIterator[Good]:
    """Run a service without workers; yield a function that prepares a valid request for an operation."""
    database = await open_database(url)
    faulty, clock = FaultyDatabase(database), MovableClock()
    async with running(
        faulty, settings=SETTINGS, workers=False, development=True, clock=clock, has_fleet=True
    ) as served:
        service = replace(served, scene=replace(served.scene, clock=clock))

        async def good(table: Table, operation: Operation) -> Attempt:
            attempt = await table.good(service, faulty, operation)
            return replace(attempt, body=INSTEAD.get(operation.name, attempt.body))

        yield good
    await database.close()


def raw_request(attempt: Attempt, sent: Sent) -> bytes:
    """Return the bytes of the request."""
    operation = attempt.operation
    path = sent.path or attempt.path
    if sent.query is not None:
        path += ("&" if "?" in path else "?") + sent.query
    own = {"Host": "localhost", "Connection": "close", **attempt.headers}
    named = {line.partition(":")[0].lower() for line in sent.fields}
    if attempt.token:
        own["Authorization"] = f"Bearer {attempt.token}"
    if operation.idempotent:
        own["X-Idempotency-Key"] = os.urandom(8).hex()
    body = b""
    if takes_body(operation):
        body = attempt._encoded(attempt.body) if sent.body is None else sent.body
        own["Content-Type"] = FORM if operation.surface in PAGES else sent.media_type
        own["Content-Length"] = str(len(body))
    lines = [f"{name}: {value}" for name, value in own.items() if name.lower() not in named]
    head = "\r\n".join([f"{operation.method} {path} HTTP/1.1", *lines, *sent.fields, "", ""])
    return head.encode("latin-1") + body


def exchange(address: tuple[str, int], request: bytes) -> int:
    """Send the request on a connection of its own and return the status."""
    with socket.create_connection(address, timeout=30) as connection:
        connection.sendall(request)
        received = b""
        while part := connection.recv(1 << 16):
            received += part
    return int(received.split(b" ", 2)[1])


async def measured(attempt: Attempt, request: bytes) -> tuple[int, float]:
    """Send the request; return the status and the milliseconds that the event loop's thread spent."""
    url = urllib.parse.urlsplit(attempt.service.base_url)
    address = (url.hostname or "", url.port or 0)
    before = time.thread_time()
    status = await asyncio.to_thread(exchange, address, request)
    return status, milliseconds(time.thread_time() - before, MILLISECONDS_MAX / 2)


async def cost(attempt: Attempt, name: str, sent: Sent, renewed: Renewed) -> tuple[float, bool]:
    """Return the milliseconds of the best try, and whether the request had an effect."""
    best, operation = float("inf"), attempt.operation
    for _ in range(TRIES_MAX):
        status, spent = await measured(attempt, raw_request(attempt, sent))
        assert status < 500, (operation.name, name, status)
        assert not sent.is_read or status not in NOT_REACHED, (operation.name, name, status)
        best = min(best, spent)
        if best <= MILLISECONDS_MAX / 2:
            break
        attempt = await renewed()
    return best, status < 400 and operation.method != "GET"


async def worst_of(table: Table, operation: Operation, good: Good, every: int) -> tuple[float, str]:
    """Return the milliseconds and the name of the most expensive request, or of the first beyond the limit."""
    worst = 0.0, ""
    renewed = partial(good, table, operation)
    # The first request compiles templates and fills caches.
    await measured(attempt := await renewed(), raw_request(attempt, Sent()))
    attempt = await renewed()
    everything = list(requests_of(attempt))
    # Operations share their checks: where each is sent a part of the requests, its neighbours are sent the others.
    chosen = everything[len(operation.name) % every :: every]
    for name, making in (*chosen, *_large(attempt)):
        sent = making()
        assert len(sent.body or b"") <= (operation.body_bytes_max or BODY_BYTES_MAX), (operation.name, name)
        spent, is_done = await cost(attempt, name, sent, renewed)
        worst = max(worst, (spent, name))
        if spent > MILLISECONDS_MAX:
            break
        if is_done:
            attempt = await renewed()
    return worst


@pytest.mark.long("the largest bodies to every operation")
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
@pytest.mark.parametrize("every", short_and_long(16, 1))
async def test_no_request_blocks_the_event_loop(sqlite_url: str, table: Table, every: int) -> None:
    """Every operation, with the worst bodies, queries, headers and paths, or with a part of them."""
    async with serving(sqlite_url) as good:
        operations = [operation for operation in table.operations if operation.name != console.STREAM]
        share = every * ALIKE.get(table.name, 1) if every > 1 else 1
        costs = {operation.name: await worst_of(table, operation, good, share) for operation in operations}
    for name, (spent, what) in sorted(costs.items(), key=lambda item: -item[1][0]):
        print(f"{spent:7.1f} ms  {name}: {what}")  # noqa: T201 - shown where the test fails
    assert not {name: worst for name, worst in costs.items() if worst[0] > MILLISECONDS_MAX}
