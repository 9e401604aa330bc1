"""The head of a request: the check of its origin, and the client's address behind proxies."""

from __future__ import annotations

import contextlib

import pytest

from paydesk.core.errors import Refusal
from paydesk.engine.orders.errors import ORDER_NOT_FOUND
from paydesk.engine.terminals.schemas import TERMINAL_ID_PATTERN
from paydesk.operators.noun import Noun
from paydesk.platform.http.request import PathRules, Request
from paydesk.platform.operation import Answer, Call
from tables import each

PROXY, CLIENT = "192.0.2.1", "198.51.100.7"


def request(*headers: tuple[bytes, bytes]) -> Request:
    """A request with these header fields, by way of the proxy."""
    scope = {"method": "GET", "path": "/", "query_string": b"", "headers": list(headers), "client": (PROXY, 1)}
    return Request(scope)


@pytest.mark.parametrize("origin", [b"null", b"", b"http://[", b"http://localhost:1", b"localhost", b"http://\xe9"])
def test_an_origin_that_is_not_this_service_s_is_refused(origin: bytes) -> None:
    """A malformed one too."""
    with pytest.raises(Refusal) as refused:
        request((b"host", b"localhost"), (b"origin", origin)).check_development(loopback_only=False)
    assert refused.value.reason == "foreign origin"


@pytest.mark.parametrize("headers", [[], [(b"origin", b"http://localhost")], [(b"origin", b"https://localhost")]])
def test_the_own_origin_and_a_missing_one_are_accepted(headers: list[tuple[bytes, bytes]]) -> None:
    """Programs other than browsers send no origin."""
    request((b"host", b"localhost"), *headers).check_development(loopback_only=False)


@pytest.mark.parametrize(
    ("scheme", "host", "is_accepted"),
    [
        ("http", b"localhost:8377", True),
        ("https", b"LOCALHOST", True),
        ("https", b"vendor.example:443", True),
        ("http", b"vendor.example", False),
        ("https", b"other.example", False),
        ("https", b"", False),
    ],
)
def test_some_host_names_are_accepted_with_tls_only(scheme: str, host: bytes, *, is_accepted: bool) -> None:
    """Those of the official clients, which a proxy leads to the TLS listener."""
    received = request((b"host", host))
    received.scope["scheme"] = scheme
    refused = contextlib.nullcontext() if is_accepted else pytest.raises(Refusal, match="not configured")
    with refused:
        received.check_host({"localhost"}, {"vendor.example"})


@each(
    "forwarded, address",
    [
        (CLIENT, CLIENT),
        (f"203.0.113.9, {CLIENT}", CLIENT),
        (f"203.0.113.9, {CLIENT}, {PROXY}", CLIENT),
        (f"{CLIENT}:4711", CLIENT),
        ("2001:DB8::1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:4711", "2001:db8::1"),
        (f"{CLIENT}, [{PROXY}]:4711", CLIENT),
        ("", PROXY),
        ("unknown", PROXY),
        ("_hidden", PROXY),
        ("4111111111111111", PROXY),
        ("4111.1111.1111.1111", PROXY),
        ("fe80::1%4111111111111111", PROXY),
        (f"{CLIENT}:port", PROXY),
        (f"{CLIENT}, {'1' * 5000}", PROXY),
        (f"{CLIENT}, unknown", PROXY),
        ("\xb2.1.1.1", PROXY),
        ("a\x85b", PROXY),
        ("\xad", PROXY),
        (f"{CLIENT}, a\x85b, {PROXY}", PROXY),
    ],
)
def test_the_address_is_the_last_one_that_a_trusted_proxy_reports(forwarded: str, address: str) -> None:
    """Its port and brackets are dropped. Where it is no IP address, the proxy that reports it counts as the client."""
    given = request((b"x-forwarded-for", forwarded.encode("latin-1")))
    assert given.client_address((PROXY,)) == address
    assert given.client_address(()) == PROXY


@pytest.mark.parametrize(
    ("sent", "checked"),
    [
        ("NEWLAND_N950__n950ncb8", "NEWLAND_N950__n950ncb8"),
        ("newland_n950__n950ncb8", "NEWLAND_N950__N950NCB8"),
        ("NEWLAND_N950", None),
    ],
)
def test_a_path_parameter_is_upper_cased_only_where_it_is_invalid_as_sent(sent: str, checked: str | None) -> None:
    """Terminals whose ids differ only in the case of a letter are two terminals."""
    resource = Noun("things/{id}", "thing", TERMINAL_ID_PATTERN, None, ORDER_NOT_FOUND)

    async def handler(_: Call) -> Answer:
        return Answer(200)

    rules = PathRules(resource.reading(handler, summary="Read"))
    if checked is not None:
        assert rules.checked({"id": sent}) == (checked, (checked,))
        return
    with pytest.raises(Refusal) as refused:
        rules.checked({"id": sent})
    assert refused.value.kind.code == "invalid_path_param"
