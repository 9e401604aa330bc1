"""Build the ASGI application: the routes of the operations, and the objects that they share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import Any

from starlette.routing import Route, Router

from paydesk.console.request import SESSION
from paydesk.core import runtime
from paydesk.core.errors import Refusal
from paydesk.platform.docs.site import Site
from paydesk.platform.http import request_metrics
from paydesk.platform.http.asgi import ASGIApp, Receive, Scope, Send
from paydesk.platform.http.constant import ConstantEndpoint
from paydesk.platform.http.endpoint import Endpoint
from paydesk.platform.http.fleet import FleetEndpoint
from paydesk.platform.http.in_process import InProcess
from paydesk.platform.http.on_behalf import OnBehalfEndpoint
from paydesk.platform.http.recording.refused import note_refused
from paydesk.platform.http.refusals import retired
from paydesk.platform.http.refusals.unknown_paths import UnknownPaths, method_not_allowed
from paydesk.platform.http.reply import refused, request_id, send_reply
from paydesk.platform.http.request import Request
from paydesk.platform.http.surfaces import POLICIES, SurfacePolicy, policy_of_path
from paydesk.platform.operation import Operation, Surface
from paydesk.platform.shared import Shared
from paydesk.platform.web.html import AGAIN
from paydesk.service.api import Api
from paydesk.service.pages import NOWHERE

BUSIEST = ("/v1/orders/{order_id}", "/oauth/token", "/v1/orders", "/device/v1/next")
"""Found in a table; routes are matched one after the other. Each has at most one parameter, at its end."""

CONSOLE = "/console/"
Wire = Callable[[ASGIApp, Shared], ASGIApp]
"""Returns an application that passes requests to another one, such as to hold its responses."""

EVERY_SURFACE: tuple[Surface, ...] = (
    "application",
    "token",
    "device",
    "operator",
    "virtual",
    "page",
    "console",
    "metrics",
    "operators_public",
    "public",
)


def build_app(
    shared: Shared, api: Api, surfaces: Collection[Surface] = EVERY_SURFACE, wire: Wire | None = None
) -> ASGIApp:
    """Return the ASGI application of the operations on the `surfaces`, behind the `wire`.

    Operations for development are served in development only, also those of another distribution.
    """
    paths: dict[str, list[Operation]] = {}
    for row in api.operations:
        if row.surface in surfaces and (shared.development or not row.development):
            paths.setdefault(row.path, []).append(row)
    shared.objects[Site].bind(row for of_path in paths.values() for row in of_path)
    routes = [Route(path, PathEndpoint(paths[path], shared)) for path in paths]
    if "application" in surfaces:
        routes += [Route(path, Refusing(shared, retired.refusal)) for path in retired.PATHS]
    unknown_paths = UnknownPaths.of(paths)
    unknown: ASGIApp = Refusing(shared, unknown_paths.refusal, has_console="console" in surfaces)
    if "console" in surfaces:
        unknown = BelowConsole(PathEndpoint([NOWHERE], shared), unknown)
    router = TableRouter(routes, redirect_slashes=False, default=unknown)
    application: ASGIApp = router if wire is None else wire(router, shared)
    shared.objects[InProcess].bind(application, min(shared.host_names))
    return application


class TableRouter(Router):
    """Finds the endpoints of the busiest paths in a table, and matches the routes with all other paths."""

    def __init__(self, routes: Sequence[Route], **options: Any) -> None:
        super().__init__(routes, **options)
        busiest = {route.path: route.endpoint for route in routes if route.path in BUSIEST}
        parts = [(*path.partition("{"), endpoint) for path, endpoint in busiest.items()]
        self._exact = {start: endpoint for start, _, name, endpoint in parts if not name}
        self._below = {start: (name[:-1], endpoint) for start, _, name, endpoint in parts if name}

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        """Pass the request to the endpoint of its path."""
        path: str = scope["path"]
        endpoint: Any = self._exact.get(path)
        parameters: dict[str, str] = {}
        if endpoint is None:
            start = path.rfind("/") + 1
            name, endpoint = self._below.get(path[:start], ("", None))
            if endpoint is None or start == len(path):
                return super().__call__(scope, receive, send)
            parameters[name] = path[start:]
        scope["path_params"] = parameters
        found: Coroutine[Any, Any, None] = endpoint(scope, receive, send)
        return found


class Refusing:
    """Answers requests that reach no operation with the `refusal` of their method and path; logs and records them.

    The answer has the format of `policy`, or of the path: below `/console` it is a page, if the listener has those.
    """

    def __init__(
        self,
        shared: Shared,
        refusal: Callable[[str, str], Refusal],
        policy: SurfacePolicy | None = None,
        *,
        has_console: bool = False,
    ) -> None:
        self._shared, self._refusal, self._policy = shared, refusal, policy
        self._has_console = has_console

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answer with the refusal."""
        started, request = runtime.monotonic(), Request(scope)
        refusal = self._refusal(request.method, request.path)
        identity = request_id(
            request.headers.get("x-request-id"), checked=self._shared.settings.card_numbers_refused_in_references
        )
        policy = self._policy
        if policy is None and self._has_console and request.path.startswith(CONSOLE):
            policy, refusal = POLICIES["console"], replace(refusal, extra={AGAIN: CONSOLE.rstrip("/")})
        reply = refused(refusal, policy or policy_of_path(request.path), request.headers)
        await send_reply(scope, send, reply, identity)
        request_metrics.NOWHERE.add(refusal.kind.status, runtime.monotonic() - started)
        note_refused(self._shared, None, request, reply, identity, started)


class BelowConsole:
    """Passes pages that operators open below `/console` to `nowhere`, a screen of it, and all else to `other`."""

    def __init__(self, nowhere: PathEndpoint, other: ASGIApp) -> None:
        self._nowhere, self._other = nowhere, other

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        is_console = scope["method"] == "GET" and scope["path"].startswith(CONSOLE)
        if is_console and SESSION in Request(scope).headers.get("cookie", ""):
            await self._nowhere({**scope, "path_params": {}}, receive, send)
        else:
            await self._other(scope, receive, send)


class PathEndpoint:
    """The operations of one path, by method; the endpoint of each is built for its first request."""

    def __init__(self, operations: Iterable[Operation], shared: Shared) -> None:
        self._operations = {operation.method: operation for operation in operations}
        self._shared = shared
        self._endpoints: dict[str, Endpoint] = {}

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Pass the request to the endpoint of its method."""
        endpoint = self._endpoints.get(scope["method"]) or self._first(scope["method"])
        return endpoint(scope, receive, send)

    def _first(self, method: str) -> Endpoint | Refusing:
        """Return the endpoint of a method that had no request before, or one that refuses the method."""
        if method in self._operations:
            return self._endpoints.setdefault(method, _endpoint(self._operations[method], self._shared))
        policies = (POLICIES[operation.surface] for operation in self._operations.values())
        page = next((policy for policy in policies if policy.error_page is not None), None)
        return Refusing(self._shared, lambda method, _: method_not_allowed(method, self._operations), page)


def _endpoint(operation: Operation, shared: Shared) -> Endpoint:
    if operation.on_behalf is not None:
        return OnBehalfEndpoint(operation, shared)
    if operation.of_fleet:
        return FleetEndpoint(operation, shared)
    if operation.is_constant and operation.method == "GET":
        return ConstantEndpoint(operation, shared)
    return Endpoint(operation, shared)
