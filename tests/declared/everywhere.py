"""The ways to the errors that all surfaces share; a surface's own go before them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import structlog

from declared.attempt import Attempt, Ways
from moved_time import advance
from paydesk.platform.storage.database import Unavailable
from service import Reply
from waiting import until

FAILURES = 100
EVERY_SURFACE = Ways()


@EVERY_SURFACE.way("bad_request")
async def _two_hosts(attempt: Attempt) -> Reply:
    return await attempt.send_raw("Host: localhost")


@EVERY_SURFACE.way("misdirected_request")
async def _other_host(attempt: Attempt) -> Reply:
    return await attempt.send_raw(host="elsewhere.example")


@EVERY_SURFACE.way("payload_too_large")
async def _large_body(attempt: Attempt) -> Reply:
    return await attempt.send(data=b" " * (64 * 1024 + 1))


@EVERY_SURFACE.way("request_timeout")
async def _slow_body(attempt: Attempt) -> Reply:
    sending = asyncio.create_task(attempt.send_raw("Content-Length: 10", body=b"{"))
    await until(lambda: attempt.service.gauges.requests_arriving > 0)
    while not sending.done():
        advance(1)
        await asyncio.sleep(0.002)
    return await sending


@EVERY_SURFACE.way("unsupported_media_type")
async def _text(attempt: Attempt) -> Reply:
    return await attempt.send(data=b"{}", headers={"Content-Type": "text/plain"})


@EVERY_SURFACE.way("unsupported_header")
async def _sandbox_header(attempt: Attempt) -> Reply:
    return await attempt.send(headers={"x-test-scope": "sandbox"})


@EVERY_SURFACE.way("unauthorized")
async def _no_token(attempt: Attempt) -> Reply:
    return await attempt.send(token=None)


@EVERY_SURFACE.way("too_many_requests")
async def _guessed_tokens(attempt: Attempt) -> Reply:
    for _ in range(FAILURES + 1):
        reply = await attempt.send(token="APP_USR-guessed")
        if reply.status == 429:
            break
        assert reply.status == 401
    return reply


@EVERY_SURFACE.way("forbidden")
async def _page_of_elsewhere(attempt: Attempt) -> Reply:
    return await attempt.send(headers={"Origin": "https://elsewhere.example"})


@EVERY_SURFACE.way("invalid_path_param")
async def _long_id(attempt: Attempt) -> Reply:
    return await attempt.at(**dict.fromkeys(attempt.paths, "1" * 201)).send()


@EVERY_SURFACE.way("json_syntax_error")
async def _half_an_object(attempt: Attempt) -> Reply:
    return await attempt.send(data=b"{")


@EVERY_SURFACE.way("required_properties")
async def _another_field(attempt: Attempt) -> Reply:
    return await attempt.send(body={"zzz": 1})


@EVERY_SURFACE.way("unsupported_properties")
async def _unknown_field(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "zzz": 1})


@EVERY_SURFACE.way("property_type")
async def _array(attempt: Attempt) -> Reply:
    return await attempt.send(body=["not an object"])


@EVERY_SURFACE.way("property_value")
async def _control_character(attempt: Attempt) -> Reply:
    if attempt.operation.method == "GET":
        return await replace(attempt, query="?limit=0").send()
    return await attempt.send(body={"zzz": "\n", **attempt.body})


@EVERY_SURFACE.way("minimum_properties")
async def _empty_object(attempt: Attempt) -> Reply:
    return await attempt.send(data=b"{}")


@EVERY_SURFACE.way("internal_error")
async def defect(attempt: Attempt) -> Reply:
    """Send it while a statement raises an exception: the answer has nothing of it."""
    with structlog.testing.capture_logs() as logged:
        reply = await with_fault(attempt, RuntimeError("s3cret of the inside"))
    errors = [line for line in logged if line["log_level"] == "error" and "logger" not in line]  # not of a library
    assert [line["event"] for line in errors] == ["unhandled_exception", "request"], logged
    assert b"s3cret" not in reply.raw
    return reply


@EVERY_SURFACE.way("service_unavailable")
async def _database_away(attempt: Attempt) -> Reply:
    return await with_fault(attempt, Unavailable("away"))


async def with_fault(attempt: Attempt, fault: Exception) -> Reply:
    """Send it while the database is broken in this way."""
    attempt.database.fault = fault
    try:
        return await attempt.send()
    finally:
        attempt.database.fault = None
