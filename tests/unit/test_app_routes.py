"""The table of the busiest paths finds the same endpoint and parameters as the routes, one after the other."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httptools
import pytest
from starlette.routing import Route, Router

from every_operation import API, OPERATIONS
from paydesk.platform.http.asgi import Receive, Scope, Send
from paydesk.platform.http.refusals import retired
from paydesk.platform.http.surfaces import Callers
from paydesk.platform.operation import Surface
from paydesk.platform.storage.database import Database
from paydesk.service import app
from paydesk.service.api import OWN
from paydesk.service.app import BUSIEST, TableRouter
from shared_objects import composed
from tables import each

PATHS = tuple(dict.fromkeys((*(row.path for row in OPERATIONS), *retired.PATHS)))
PARAMETER = r"\{\w+(:path)?\}"
VALUES = ("ORD01J67CQQH5904WDBVZEM4JMEP3", "x", "%", ".", "..", "%2e", "é", " ", "{order_id}", "search")
ENDS = ("/", "//", "%2F", "%0A", "/x", "%2Fx", "%0D", "%00", "%20", "%3F", "%23", ";x", "?a=1", "#a", ".json")

METHODS = ("GET", "HEAD", "POST", "DELETE", "OPTIONS", "BREW")


@dataclass
class Endpoint:
    """Notes in `found` which path's endpoint got a request, and with which parameters."""

    path: str
    found: list[tuple[str, dict[str, str]]] = field(repr=False)

    async def __call__(self, scope: Scope, _receive: Receive, _send: Send) -> None:
        """Note the request."""
        self.found.append((self.path, dict(scope.get("path_params", {}))))


def targets(path: str) -> Iterator[str]:
    """Yield targets of requests for the path, and others that differ little from it: more for the busiest paths."""
    is_busy = path in BUSIEST
    yield re.sub(PARAMETER, "", path)
    for value in VALUES if is_busy else VALUES[:1]:
        filled = re.sub(PARAMETER, urllib.parse.quote(value), path)
        yield filled
        yield f"http://localhost{filled}"
        yield from (filled + end for end in (ENDS if is_busy else ENDS[:4]))
        if is_busy:
            yield from (filled.upper(), f"/{filled}", filled[1:], filled[:-1])
            yield from (urllib.parse.quote(filled), urllib.parse.quote(filled, safe=""))
            for place in (place for place, character in enumerate(filled) if character == "/"):
                yield from (f"{filled[:place]}{slash}{filled[place + 1 :]}" for slash in ("%2F", "//", "/%0A"))


def path_of(target: str) -> str:
    """Return the path as the connection decodes it; the target itself if the parser refuses it."""
    try:
        return urllib.parse.unquote((httptools.parse_url(target.encode()).path or b"/").decode("ascii"))
    except httptools.HttpParserInvalidURLError:
        return target


async def test_the_table_chooses_as_the_routes() -> None:
    """For each path: filled, with a slash, an empty part, encoded slashes and line breaks, any method."""
    found: list[tuple[str, dict[str, str]]] = []
    routes, unknown = [Route(path, Endpoint(path, found)) for path in PATHS], Endpoint("unknown", found)
    routers = [make(routes, redirect_slashes=False, default=unknown) for make in (TableRouter, Router)]
    paths = {path_of(target): path in BUSIEST for path in PATHS for target in targets(path)}
    seen = set[str]()
    for path, is_busy in paths.items():
        for method in METHODS if is_busy else METHODS[:1]:
            found.clear()
            for router in routers:
                scope: dict[str, Any] = {"type": "http", "method": method, "path": path, "root_path": ""}
                await router(scope, None, None)  # type: ignore[arg-type]  # no endpoint reads or answers
            assert found[0] == found[1], (method, path)
            seen.add(found[0][0])
    assert seen == {*PATHS, "unknown"}, "every route was found"


@pytest.mark.parametrize("path", BUSIEST)
def test_each_busiest_path_is_in_the_table(path: str) -> None:
    """It is the path of an operation, and only its end can be a parameter."""
    assert path in PATHS
    assert re.fullmatch(r"[^{}]+(\{\w+\})?", path)


async def test_every_endpoint_can_be_built(database: Database) -> None:
    """In a service without parts: each is built for its first request, so no start would show that one cannot be."""
    shared = composed(database).shared
    for operation in OPERATIONS:
        if not operation.development:
            assert app._endpoint(operation, shared).operation is operation


async def test_production_serves_no_operation_for_development(database: Database) -> None:
    """Its table has none, and one that is handed in is not served."""
    assert [row.name for row in OWN.operations if row.development] == []
    assert any(row.development for row in API.operations)
    router = app.build_app(composed(database).shared, API)
    assert isinstance(router, Router)
    served = {route.path for route in router.routes if isinstance(route, Route)}
    only_for_development = {row.path for row in OPERATIONS if row.development} - {
        row.path for row in OPERATIONS if not row.development
    }
    assert served & only_for_development == set()


@each("surface", ["application", "device", "operator", "virtual", "metrics"])
async def test_no_service_starts_without_the_check_of_a_credential(database: Database, surface: Surface) -> None:
    """Nor with one for a surface that has no credential, or without what reads a body first."""
    whole = composed(database).shared.objects[Callers]
    lacking = {name: one for name, one in whole.authenticate.items() if name != surface}
    for authenticate, read_first in (
        (lacking, whole.read_first),
        ({**whole.authenticate, "public": whole.authenticate[surface]}, whole.read_first),
        (whole.authenticate, {}),
    ):
        with pytest.raises(LookupError, match="no function that recognizes its callers"):
            Callers(authenticate, read_first)
