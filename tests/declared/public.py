"""Errors of operations without credentials: health, docs, pairing, and the pages of development."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import structlog

import counted
from declared.attempt import Attempt, Table
from declared.console import cookies
from faulty_database import FaultyDatabase
from moved_time import advance
from operator_calls import operator
from operator_people import begin_session, make_person
from pairing_scene import ask_to_pair, new_terminal
from paydesk.engine.terminals.pairing.rates import FULL_SECONDS
from paydesk.platform.operation import Operation
from paydesk.platform.storage.database import Unavailable
from service import Reply, Service

LOOKS_ANEW_SECONDS, LOOKS_MAX = 1.0, 200
PAIRINGS_OPEN_MAX = 50
POLLS_PER_MINUTE = 60
SEARCHES_PER_MINUTE = 60
NAMES = {
    "docs_page": {"page": "livez"},
    "docs_guide": {"name": "quickstart"},
    "docs_guide_image": {"name": "console-overview.png"},
    "docs_example": {"name": "terminal.py"},
}


async def _good(service: Service, database: FaultyDatabase, operation: Operation) -> Attempt:
    if operation.name == "device_pair":
        return Attempt(service, database, operation, body=new_terminal())
    if operation.name == "device_pairing_token":
        codes = await ask_to_pair(service)
        await (await operator(service)).did("POST", f"pairings/{codes['user_code']}", {"seller_id": service.seller_id})
        return Attempt(service, database, operation, body={"device_code": codes["device_code"]})
    if operation.name == "docs_send":
        token = await begin_session(service, (await make_person(service, "owner", counted.email())).operator_id)
        signed_in = {"Cookie": cookies(service, token)}
        return Attempt(service, database, operation, body={"operation": "livez"}, headers=signed_in)
    return Attempt(service, database, operation, body={}, paths=NAMES.get(operation.name, {}))


TABLE = Table("public", _good, also=("operators_public",))


@TABLE.way("livez/bad_request", "readyz/bad_request")
async def _two_lengths(attempt: Attempt) -> Reply:
    return await attempt.send_raw("Content-Length: 2", "Content-Length: 3")


@TABLE.way("device_pair/too_many_requests")
async def _many_pairings(attempt: Attempt) -> Reply:
    for _ in range(PAIRINGS_OPEN_MAX + 1):
        reply = await attempt.send()
    await attempt.service.scene.run("DELETE FROM pairings")
    advance(FULL_SECONDS)
    return reply


@TABLE.way("device_pairing_token/too_many_requests")
async def _many_polls(attempt: Attempt) -> Reply:
    while (reply := await attempt.send()).status != 429:
        assert reply.status < 500, reply
    advance(60)
    return reply


@TABLE.way("docs_search/too_many_requests")
async def _many_searches(attempt: Attempt) -> Reply:
    while (reply := await attempt.send()).status != 429:
        assert reply.status < 500, reply
    advance(60)
    return reply


@TABLE.way("expired_token")
async def _unknown_device_code(attempt: Attempt) -> Reply:
    return await attempt.send(body={"device_code": "0" * 40})


@TABLE.way("access_denied")
async def _denied(attempt: Attempt) -> Reply:
    codes = await ask_to_pair(attempt.service)
    denied = await (await operator(attempt.service)).ask("DELETE", f"pairings/{codes['user_code']}")
    assert denied.status == 204
    return await attempt.send(body={"device_code": codes["device_code"]})


@TABLE.way("authorization_pending")
async def _undecided(attempt: Attempt) -> Reply:
    return await attempt.send(body={"device_code": (await ask_to_pair(attempt.service))["device_code"]})


@TABLE.way("slow_down")
async def _twice_at_once(attempt: Attempt) -> Reply:
    undecided = {"device_code": (await ask_to_pair(attempt.service))["device_code"]}
    await attempt.send(body=undecided)
    return await attempt.send(body=undecided)


@TABLE.way("docs_page/not_found", "docs_guide/not_found", "docs_guide_image/not_found", "docs_example/not_found")
async def _no_such_page(attempt: Attempt) -> Reply:
    return await replace(attempt, paths=dict.fromkeys(attempt.paths, "unknown")).send()


@TABLE.way("docs_send/not_found")
async def _no_such_operation(attempt: Attempt) -> Reply:
    return await attempt.send(body={"operation": "unknown"})


@TABLE.way("demo_inbox_receive/property_value")
async def _two_subjects(attempt: Attempt) -> Reply:
    return await replace(attempt, query="?data.id=1&data.id=2").send()


@TABLE.way("not_ready")
async def _database_away(attempt: Attempt) -> Reply:
    return await _once_it_looks(attempt, Unavailable("away"))


@TABLE.way("readyz/internal_error")
async def _defect(attempt: Attempt) -> Reply:
    with structlog.testing.capture_logs() as logged:
        reply = await _once_it_looks(attempt, RuntimeError("a defect"))
    assert "unhandled_exception" in {line["event"] for line in logged}
    return reply


async def _once_it_looks(attempt: Attempt, fault: Exception) -> Reply:
    """It looks at the database once a second: what it saw before is gone when this begins."""
    await _until(attempt, lambda reply: reply.status == 200)
    attempt.database.fault = fault
    try:
        return await _until(attempt, lambda reply: reply.status != 200)
    finally:
        attempt.database.fault = None


async def _until(attempt: Attempt, is_it: Callable[[Reply], bool]) -> Reply:
    for _ in range(LOOKS_MAX):
        reply = await attempt.send()
        if is_it(reply):
            return reply
        advance(LOOKS_ANEW_SECONDS)
    raise AssertionError(reply)
