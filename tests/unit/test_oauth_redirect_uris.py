"""Redirect URIs: which are accepted, and the errors of the others."""

from __future__ import annotations

import pytest

from paydesk.engine.oauth.clients import redirect_uris
from tables import each


@pytest.mark.parametrize(
    "uri",
    [
        "https://shop.example/callback",
        "https://shop.example",
        "https://shop.example:8443/callback?from=pay&x=%2A",
        "https://shop.example/code/state?barcode=1&state_of=SP&Code=x&x=code&error-code=1",
        "https://xn--caf-dma.example/volta",
        "https://192.0.2.1/callback",
        "https://[2001:db8::1]/callback",
        "https://localhost:3000/callback",
        "https://shop.example/" + "x" * (2000 - len("https://shop.example/")),
    ],
)
def test_accepted_everywhere(uri: str) -> None:
    """An https address with a host, of up to 2,000 characters."""
    assert redirect_uris.fault(uri, loopback_allowed=False) is None
    assert redirect_uris.fault(uri, loopback_allowed=True) is None


@pytest.mark.parametrize("uri", ["http://127.0.0.1:3000/cb", "http://localhost/cb", "http://[::1]:9/cb"])
def test_accepted_in_development(uri: str) -> None:
    """Plain http to this machine; otherwise the error names the condition."""
    assert redirect_uris.fault(uri, loopback_allowed=True) is None
    assert "`paydesk dev`" in (redirect_uris.fault(uri, loopback_allowed=False) or "")


@each(
    "uri, said",
    [
        ("", "visible ASCII"),
        ("https://shop.example/" + "x" * 1980, "at most 2,000"),
        ("https://café.example/", "xn--"),
        ("https://shop.example/a b", "visible ASCII"),
        ("https://shop.example/\r\nSet-Cookie:a=b", "visible ASCII"),
        ("https://shop.example\\@evil.example/", "visible ASCII"),
        ("https://shop.example/#done", "fragment"),
        ("https://shop.example/#", "fragment"),
        ("https://ana:secret@shop.example/", "user or a password"),
        ("https://shop.example@evil.example/", "user or a password"),
        ("https://*.shop.example/", "absolute address"),
        ("https://shop.example/*", "without *"),
        ("/callback", "absolute address"),
        ("shop.example/callback", "absolute address"),
        ("https:///callback", "absolute address"),
        ("https://shop.example:0/", "absolute address"),
        ("https://shop.example:99999/", "absolute address"),
        ("https://[::1/", "absolute address"),
        ("https://-shop.example/", "absolute address"),
        ("http://shop.example/callback", "must be https"),
        ("http://127.0.0.1.evil.example/", "must be https"),
        ("ftp://shop.example/", "must be https"),
        ("com.example.app://callback", "must be https"),
        ("javascript://shop.example/%0aalert(1)", "must be https"),
        ("https://shop.example/callback?code=1", "must not have code in its query"),
        ("https://shop.example/callback?from=pay&state", "must not have state in its query"),
        ("https://shop.example/callback?i%73s=", "must not have iss in its query"),
        ("https://shop.example/?error_uri=a&error_description=b&error=c", "error or error_description or error_uri"),
        ("http://127.0.0.1:3000/cb?code=1", "must not have code in its query"),
    ],
)
def test_faults(uri: str, said: str) -> None:
    """Each has its own error, in development too."""
    assert said in (redirect_uris.fault(uri, loopback_allowed=True) or "")
