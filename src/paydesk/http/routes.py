"""Which application a path belongs to: a tree of the paths' segments, looked down once for each request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from paydesk.http.reply import Receive, Scope, Send

App = Callable[[Scope, Receive, Send], Awaitable[None]]

_PARAMETER, _END = "{}", ""
"""Neither can be a segment of a template: a parameter has a name, and no template ends in a slash."""


class Routes:
    """An ASGI application that hands each request to the one of its path, with the values of `{parameters}`.

    A segment as it stands in a template goes before a parameter at its place. A parameter is one segment, never empty.
    """

    def __init__(self, otherwise: App) -> None:
        self._otherwise = otherwise
        self._tree: dict[str, Any] = {}

    def add(self, template: str, app: App) -> None:
        """Serve `app` at a path such as `/v1/orders/{order_id}`."""
        node = self._tree
        for segment in template[1:].split("/"):
            node = node.setdefault(_PARAMETER if segment.startswith("{") else segment, {})
        assert _END not in node, f"{template} is there twice"
        node[_END] = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Hand the request on; the scope gets the parameters' values as `path_values`, in their order."""
        app, values = self.find(scope["path"])
        scope["path_values"] = values
        return app(scope, receive, send)

    def find(self, path: str) -> tuple[App, list[str]]:
        """The application of a path, and what stands in the place of its parameters."""
        node, values = self._tree, list[str]()
        for segment in path[1:].split("/"):
            below = node.get(segment) if segment not in (_PARAMETER, _END) else None
            if below is None and segment:
                below = node.get(_PARAMETER)
                values.append(segment)
            node = below or {}
        app: App | None = node.get(_END)
        return (app, values) if app is not None else (self._otherwise, [])
