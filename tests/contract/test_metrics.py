"""`/metrics`: its token, and the page of a process without siblings."""

from __future__ import annotations

import pytest

from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from scraped import page_of
from service import Service, running

TOKEN = "0123456789abcdef0123456789abcdef"
VARIABLE = "PROMETHEUS_TOKEN"


async def _status(service: Service, token: str | None) -> tuple[int, str, list[str]]:
    """Return the status of the answer, its message and its details."""
    reply = await service.request("GET", "/metrics", token=token)
    return (reply.status, "", []) if reply.body is None else (reply.status, reply.body["message"], reply.details)


async def test_the_page_needs_the_token(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither another one nor that of an application or operator reads it, in development neither if one is set."""
    monkeypatch.setenv(VARIABLE, TOKEN)
    settings = Settings(metrics_token=f"env:{VARIABLE}")
    for development in (False, True):
        async with running(database, settings=settings, workers=False, development=development) as service:
            assert await _status(service, TOKEN) == (200, "", [])
            for other in (TOKEN[:-1], service.access_token, f"PDO-{'0' * 40}"):
                assert (await _status(service, other))[:2] == (401, "invalid access token")
            assert (await _status(service, None))[:2] == (401, "authorization value not present")


async def test_without_a_token_in_the_settings_the_refusal_names_it(database: Database) -> None:
    """Whatever is sent."""
    async with running(database, workers=False) as service:
        for token in (None, TOKEN):
            status, _, details = await _status(service, token)
            assert status == 401
            assert "set metrics_token to file:PATH or env:NAME, and restart" in " ".join(details)


async def test_one_process_has_a_page_without_the_label_process(database: Database) -> None:
    """In development no token is needed. The page is fresh, and counts this process as the only one."""
    async with running(database, development=True) as service:
        reply = await service.request("GET", "/metrics", token=None)
        assert reply.status == 200
        assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert reply.headers["cache-control"] == "no-store"
        before = page_of(reply.raw.decode())
        assert before.processes == {None}
        assert (before.total("paydesk_processes"), before.total("paydesk_processes_silent")) == (1, 0)
        for _ in range(3):
            assert (await service.request("GET", "/v1/orders/ORD01J67CQQH5904WDBVZEM4JMEP3")).status == 404
        after = page_of((await service.request("GET", "/metrics", token=None)).raw.decode())
        found = {"operation": "get_order", "code": "404"}
        requests = [page.total("paydesk_http_requests_total", **found) for page in (before, after)]
        assert requests[1] - requests[0] == 3
