"""Each path leads to its own application, with what stands in the place of its parameters."""

from __future__ import annotations

import pytest

from paydesk.http.reply import Receive, Scope, Send
from paydesk.http.routes import App, Routes

TEMPLATES = ("/v1/orders", "/v1/orders/{order_id}", "/v1/orders/{order_id}/cancel", "/v1/orders/own", "/a/{b}/c/{d}")


def _app(name: str) -> App:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del receive, send
        scope["answered by"] = name

    return app


def _routes() -> Routes:
    routes = Routes(_app("nobody"))
    for template in TEMPLATES:
        routes.add(template, _app(template))
    return routes


@pytest.mark.parametrize(
    ("path", "template", "values"),
    [
        ("/v1/orders", "/v1/orders", []),
        ("/v1/orders/ORD1", "/v1/orders/{order_id}", ["ORD1"]),
        ("/v1/orders/own", "/v1/orders/own", []),
        ("/v1/orders/ORD1/cancel", "/v1/orders/{order_id}/cancel", ["ORD1"]),
        ("/a/1/c/2", "/a/{b}/c/{d}", ["1", "2"]),
        ("/v1/orders/{}", "/v1/orders/{order_id}", ["{}"]),
        ("/v1/orders/", "nobody", []),
        ("/v1/orders//cancel", "nobody", []),
        ("/v1/orders/ORD1/", "nobody", []),
        ("/v1/orders/ORD1/other", "nobody", []),
        ("/v1/orders/ORD1/cancel/more", "nobody", []),
        ("/v1", "nobody", []),
        ("/a/1", "nobody", []),
        ("//v1/orders", "nobody", []),
        ("/", "nobody", []),
        ("*", "nobody", []),
        ("", "nobody", []),
    ],
)
async def test_a_path_leads_to_its_own(path: str, template: str, values: list[str]) -> None:
    """A whole path is met and nothing else: no segment is empty, none is left over, a fixed one goes first."""
    scope: Scope = {"path": path}
    await _routes()(scope, None, None)  # type: ignore[arg-type]  # the applications here use neither
    assert (scope["answered by"], scope["path_values"]) == (template, values)


def test_a_template_stands_once() -> None:
    """Two applications at one path would hide one of them, whatever the parameters are called."""
    with pytest.raises(AssertionError, match="twice"):
        _routes().add("/v1/orders/{id}", _app("other"))
