"""An answer of every kind, as a linter of HTTP sees it."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

import openapi_tools
from conftest import skip_unless_ci
from openapi_tools import FOLDER, Findings, run
from paydesk.core.clock import MovableClock
from paydesk.platform.storage.database import Database
from service import Reply, Service, running

KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "an object": ("GET", "/users/me", {}),
    "a list": ("GET", "/v1/orders", {}),
    "a long poll": ("GET", "/v1/events", {}),
    "a wrong body": ("POST", "/v1/orders", {"body": {}}),
    "no token": ("GET", "/v1/orders", {"token": None}),
    "no such object": ("GET", "/v1/orders/ORD01J67CQQH5904WDBVZEM4JMEP3", {}),
    "no such path": ("GET", "/nowhere", {}),
    "another method": ("PUT", "/v1/orders", {}),
    "a retired operation": ("GET", "/point/integration-api/devices", {}),
    "a token request": ("POST", "/oauth/token", {"body": {}, "token": None}),
    "the metadata": ("GET", "/.well-known/oauth-authorization-server", {"token": None}),
    "a document": ("GET", "/openapi.json", {"token": None}),
    "a page": ("GET", "/docs", {"token": None}),
    "a page with a form": ("GET", "/sign-in", {"token": None}),
    "a page that redirects": ("GET", "/applications", {"token": None}),
    "an asset": ("GET", "/pages/assets/icon.svg", {"token": None}),
    "a health check": ("GET", "/livez", {"token": None}),
    "the metrics": ("GET", "/metrics", {"token": None}),
}
AS_IT_IS = {"Accept-Encoding": "identity"}
ACCEPTED = {
    "CREATED_WITHOUT_LOCATION": "The body has the id, and existing clients read no `Location`.",
    "FRESHNESS_HEURISTIC": "Nothing has a `Last-Modified` from which a cache could guess.",
    "REQUEST_HDR_IN_RESPONSE": "RFC 6749, section 5.1, requires `Pragma: no-cache`.",
    "STATUS_BAD_REQUEST": "It is one.",
}
"""Notes that stay, each with the reason."""


@pytest.fixture
async def service(database: Database) -> AsyncIterator[Service]:
    """A service with a terminal."""
    async with running(database, clock=MovableClock(), development=True) as service:
        yield service


async def test_answers_have_no_warning(service: Service) -> None:
    """Of each kind one, and of an order that is created and of nothing."""
    try:
        openapi_tools.install()
    except (Findings, OSError) as missing:
        skip_unless_ci(f"the linter could not be installed: {missing}")
    answers: dict[str, tuple[str, Reply]] = {
        kind: (method, await service.request(method, path, headers=AS_IT_IS, **options))
        for kind, (method, path, options) in KINDS.items()
    }
    answers["a created order"] = ("POST", await service.create(await service.terminal()))
    given = [
        {
            "method": method,
            "status": reply.status,
            "headers": list(reply.headers.items()),
            "body": reply.raw.decode("latin-1"),
        }
        for method, reply in answers.values()
    ]
    printed = run(
        sys.executable, FOLDER / "lint_http.py", given=json.dumps(given), PYTHONPATH=str(openapi_tools.PYTHON_TOOLS)
    )
    notes = dict(zip(answers, json.loads(printed), strict=True))
    found = {kind: [one for one in of_kind if one.split()[0] not in ACCEPTED] for kind, of_kind in notes.items()}
    assert {kind: of_kind for kind, of_kind in found.items() if of_kind} == {}
