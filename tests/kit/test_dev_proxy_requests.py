"""Which requests the proxy of `paydesk dev --proxy` permits, and what it says of the others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paydesk.core.errors import BAD_REQUEST, FORBIDDEN, METHOD_NOT_ALLOWED, ErrorKind, Refusal
from paydesk_dev.proxy.requests import Target, check, parse
from paydesk_dev.tls.certificates import VENDOR_HOSTS
from tables import each

OWN_URL = "http://127.0.0.1:8377"
ONLY = "This proxy answers for api.mercadopago.com and auth.mercadopago.com alone, on port 443, not for"


def head(line: str, *headers: str) -> bytes:
    """Return the head of a request."""
    return "".join(f"{one}\r\n" for one in (line, *headers, "")).encode("latin-1")


def refusal(line: str, *headers: str) -> Refusal:
    """Return the refusal of the request."""
    with pytest.raises(Refusal) as refused:
        check(parse(head(line, *headers)), OWN_URL)
    return refused.value


def kind(line: str, *headers: str) -> ErrorKind:
    """Return the kind of the refusal of the request."""
    return refusal(line, *headers).kind


@each("host", [*VENDOR_HOSTS, "API.MercadoPago.com", "api.mercadopago.com."])
@each("version", ["1.0", "1.1"])
def test_connect_to_a_host_of_the_vendor_is_permitted(host: str, version: str) -> None:
    """In any case, with and without the dot that may end a host name."""
    request = parse(head(f"CONNECT {host}:443 HTTP/{version}", f"Host: {host}:443", "Proxy-Authorization: Basic eA=="))
    check(request, OWN_URL)
    assert request.target is not None
    assert request.target.host in VENDOR_HOSTS


@pytest.mark.parametrize(
    "target",
    ["169.254.169.254:443", "api.mercadopago.com.evil.example:443", "evil-api.mercadopago.com:443",
     "api.mercadopago.com..:443", "www.mercadopago.com:443", "mercadopago.com:443", "example.org:443",
     "[2001:db8::1]:443"],
)  # fmt: skip
def test_another_host_is_refused_with_advice(target: str) -> None:
    """The message names the target, the hosts that the proxy answers for, and NO_PROXY."""
    refused = refusal(f"CONNECT {target} HTTP/1.1")
    host, _, _ = target.rpartition(":")
    host = host.removesuffix(".")
    assert refused.kind is FORBIDDEN
    assert refused.message == (f"{ONLY} {host}:443. Add {host} to NO_PROXY so that your program calls it directly.")
    assert refused.facts == {"target": f"{host}:443"}


@pytest.mark.parametrize(
    "target",
    ["localhost:22", "LOCALHOST.:8378", "a.localhost:443", "127.0.0.1:8378", "127.9.9.9:1", "[::1]:8378", "0.0.0.0:80"],
)
def test_this_machine_is_refused_with_its_value_of_no_proxy(target: str) -> None:
    """So that a program calls the service's own address directly."""
    refused = refusal(f"CONNECT {target} HTTP/1.1")
    assert refused.kind is FORBIDDEN
    assert "Set NO_PROXY=localhost,127.0.0.1 so that your program calls this machine directly." in str(refused.message)


@pytest.mark.parametrize(
    "line",
    [
        "CONNECT api.mercadopago.com:80 HTTP/1.1",
        "CONNECT api.mercadopago.com:22 HTTP/1.1",
        "CONNECT api.mercadopago.com:4430 HTTP/1.1",
        "GET http://api.mercadopago.com/v1/orders HTTP/1.1",
        "POST http://API.mercadopago.com:443/v1/orders HTTP/1.1",
        "GET https://api.mercadopago.com/v1/orders HTTP/1.1",
    ],
)
def test_a_host_of_the_vendor_without_https_is_refused(line: str) -> None:
    """Only a tunnel on port 443 is permitted."""
    refused = refusal(line)
    assert refused.kind is FORBIDDEN
    assert "Use https: call https://api.mercadopago.com instead." in str(refused.message)


def test_a_url_is_shown_without_path_and_credentials() -> None:
    """The message and the log have the host and the port alone."""
    refused = refusal("GET http://user:secret@example.org/orders?token=secret HTTP/1.1")
    assert refused.facts == {"target": "example.org:80"}
    assert "secret" not in str(refused.message)
    assert "Add example.org to NO_PROXY" in str(refused.message)


def test_a_long_host_is_shown_shortened() -> None:
    """No message and no log line has hundreds of characters of a client."""
    refused = refusal(f"CONNECT {'a' * 253}:443 HTTP/1.1")
    assert len(str(refused.message)) < 350
    assert len(refused.facts["target"]) <= 101


@pytest.mark.parametrize("line", ["GET / HTTP/1.1", "OPTIONS * HTTP/1.1", "POST /oauth/token HTTP/1.0"])
def test_a_request_as_to_a_server_is_refused_with_the_address_of_the_service(line: str) -> None:
    """A program or a browser has the proxy's address instead of the service's."""
    refused = refusal(line)
    assert refused.kind is METHOD_NOT_ALLOWED
    assert OWN_URL in str(refused.message)
    assert refused.headers == (("allow", "CONNECT"),)


@each(
    "line",
    [
        "CONNECT api.mercadopago.com HTTP/1.1",
        "CONNECT api.mercadopago.com: HTTP/1.1",
        "CONNECT api.mercadopago.com:0 HTTP/1.1",
        "CONNECT api.mercadopago.com:65536 HTTP/1.1",
        "CONNECT api.mercadopago.com:443:443 HTTP/1.1",
        "CONNECT user@api.mercadopago.com:443 HTTP/1.1",
        "CONNECT https://api.mercadopago.com:443 HTTP/1.1",
        "CONNECT api.mercadopago.com:443/ HTTP/1.1",
        "CONNECT api.mercadopago.com%00.evil.example:443 HTTP/1.1",
        "CONNECT api.mercadopago.com:٤٤٣ HTTP/1.1".encode().decode("latin-1"),
        "CONNECT [::1:443 HTTP/1.1",
        "CONNECT  api.mercadopago.com:443 HTTP/1.1",
        "CONNECT\tapi.mercadopago.com:443 HTTP/1.1",
        "CONNECT api.mercadopago.com:443 HTTP/2.0",
        "CONNECT api.mercadopago.com:443",
        "connect api.mercadopago.com:443 HTTP/1.1",
        "CONNECT api.mercadopago.com\r:443 HTTP/1.1",
        "CONNECT api.mercadopago.com\n:443 HTTP/1.1",
        "PRI * HTTP/2.0",
        "GET ftp://example.org/ HTTP/1.1",
        "GET http:///path HTTP/1.1",
        "GET http://[::1/ HTTP/1.1",
        "GET http://example.org:99999/ HTTP/1.1",
        "GET example.org/ HTTP/1.1",
        "",
    ],
)
def test_a_malformed_request_line_is_refused(line: str) -> None:
    """Nothing is guessed: another proxy or client might read the same text differently."""
    assert kind(line) is BAD_REQUEST


@each(
    "header",
    [" folded", "no colon", "Name : value", "X:\rvalue", "X:\nY: value", "X: \0", "Transfer-Encoding: chunked",
     "Content-Length: 5", "content-length: 00", ": empty name"],
)  # fmt: skip
def test_a_malformed_header_or_a_body_is_refused(header: str) -> None:
    """The bytes after the head belong to the tunnel."""
    assert kind("CONNECT api.mercadopago.com:443 HTTP/1.1", header) is BAD_REQUEST


def test_headers_of_clients_are_accepted() -> None:
    """An empty value, a length of zero, text that is not ASCII."""
    headers = ("Content-Length: 0", "Proxy-Connection: Keep-Alive", "User-Agent:", "X-Name: Jos\xe9")
    assert parse(head("CONNECT api.mercadopago.com:443 HTTP/1.1", *headers)).target == Target(
        "api.mercadopago.com", 443
    )


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_every_head_is_permitted_or_refused(line: bytes, header: bytes) -> None:
    """Whatever the bytes, only one of the vendor's hosts on port 443 is permitted."""
    for begin in (
        b"",
        b"CONNECT ",
        b"CONNECT api.mercadopago.com",
        b"GET http://",
        b"CONNECT api.mercadopago.com:443 ",
    ):
        for end in (b"", b":443 HTTP/1.1"):
            try:
                request = parse(begin + line + end + b"\r\n" + header + b"\r\n\r\n")
                check(request, OWN_URL)
            except Refusal:
                continue
            assert request.target is not None
            assert (request.method, request.target.port) == ("CONNECT", 443)
            assert request.target.host in VENDOR_HOSTS
