"""A received request: its headers and checks of them, and its body, read within limits."""

from __future__ import annotations

import ipaddress
import re
import urllib.parse
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any

from paydesk.core.errors import (
    BAD_REQUEST,
    FORBIDDEN,
    HOW_TO_GET_TEST_TOKENS,
    INVALID_PATH_PARAM,
    MISDIRECTED_REQUEST,
    PROPERTY_VALUE,
    UNAUTHORIZED,
    UNSUPPORTED_HEADER,
    UNSUPPORTED_MEDIA_TYPE,
    ErrorKind,
)
from paydesk.platform.http import body
from paydesk.platform.http.asgi import DISCONNECTED, Receive, Scope
from paydesk.platform.operation import Call, Caller, Operation
from paydesk.platform.web.forms import BACKGROUND

SANDBOX_HEADER_GONE = f"The header x-test-scope is no longer supported. Use a test token; {HOW_TO_GET_TEST_TOKENS}."
IN_PROCESS = "paydesk.in_process"
"""A key of the ASGI scope of requests that were made by this process."""
TARGET_HOST = "paydesk.target_host"
"""The key of the ASGI scope with the host of a request line in absolute form."""
PORT_DIGITS_MAX, PORT_MAX = 5, 65_535
HOP_CHARACTERS_MAX = 64
PATH_PARAMETER_CHARACTERS_MAX = 200
MISSING = "authorization value not present"
_HOP = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::[0-9]{1,5})?|([0-9.]+)(?::[0-9]{1,5})?|([0-9A-Fa-f:.]+)")


class Disconnected(Exception):
    """The client disconnected before its request was complete."""


class Request:
    """The head of a request. Header names are lower case; `headers` has the last value of a repeated header."""

    __slots__ = (
        "_raw_headers",
        "address",
        "call",
        "caller",
        "headers",
        "method",
        "path",
        "query_string",
        "raw",
        "scope",
    )

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query_string: str = scope["query_string"].decode("latin-1")
        self._raw_headers: list[tuple[bytes, bytes]] = scope["headers"]
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in self._raw_headers}
        client = scope.get("client")
        self.address: str = client[0] if client else ""
        self.raw = b""
        """The body, once it is read."""
        self.caller: Caller | None = None
        self.call: Call | None = None

    def all(self, name: str) -> list[str]:
        """Return every value of a header."""
        if name not in self.headers:
            return []
        if len(self.headers) == len(self._raw_headers):
            return [self.headers[name]]
        raw = name.encode()
        return [value.decode("latin-1") for sent, value in self._raw_headers if sent == raw]

    def bearer(self) -> str | None:
        """Return the bearer token, or None without one. Raises `unauthorized` for another scheme."""
        value = self.headers.get("authorization")
        if value is None:
            return None
        scheme, _, token = value.partition(" ")
        if scheme.lower() != "bearer":
            raise UNAUTHORIZED.with_reason("not a bearer authorization", message=MISSING)
        return token.strip() or None

    @property
    def disconnected(self) -> Callable[[], bool] | None:
        """Return the server's function that returns whether the client has disconnected, or None without one."""
        extension: Callable[[], bool] | None = self.scope.get("extensions", {}).get(DISCONNECTED)
        return extension

    def is_background(self, *, of_console: bool) -> bool:
        """Return whether the console or an open page reads what has changed: such a request is not logged.

        `of_console`: the header counts only for operations of the console, so that no other client can keep its
        requests out of the log.
        """
        return self.method == "GET" and (IN_PROCESS in self.scope or (of_console and BACKGROUND in self.headers))

    def query(self) -> dict[str, str]:
        """Return the query's parameters, with the last value of a repeated one."""
        return dict(urllib.parse.parse_qsl(self.query_string, keep_blank_values=True)) if self.query_string else {}

    def check_parameters(self, names: Collection[str], *, may_be_empty: bool) -> None:
        """Refuse a repeated parameter of the query that is in `names`, and unless it may be, an empty one."""
        seen = set[str]()
        for name, value in urllib.parse.parse_qsl(self.query_string, keep_blank_values=True):
            if name in seen:
                raise PROPERTY_VALUE.with_reason("a parameter was sent twice", f"'{name}' - must be sent only once")
            if name in names and not (may_be_empty or value):
                raise PROPERTY_VALUE.with_reason("an empty parameter", f"'{name}' - must not be empty; leave it out")
            if name in names:
                seen.add(name)

    @property
    def has_small_body(self) -> bool:
        """Return whether the head announces a body within the general limit."""
        length = self.headers.get("content-length", "" if "transfer-encoding" in self.headers else "0")
        return length.isdigit() and len(length) <= 9 and int(length) <= body.BODY_BYTES_MAX

    async def read(self, receive: Receive, bytes_max: int = body.BODY_BYTES_MAX) -> bytes:
        """Read the body. Raises `payload_too_large` as soon as the limit is exceeded, and `Disconnected`."""
        self._check_length(bytes_max)
        whole = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            part: bytes = message.get("body", b"")
            whole += part
            if len(whole) > bytes_max:
                raise body.too_large(bytes_max)
            if not message.get("more_body", False):
                self.raw = whole
                return whole

    def announces_body(self, bytes_max: int) -> bool:
        """Return whether the head announces a body. Raises `payload_too_large` if its length is above the limit."""
        self._check_length(bytes_max)
        return self.headers.get("content-length", "0") != "0" or "transfer-encoding" in self.headers

    def _check_length(self, bytes_max: int) -> None:
        length = self.headers.get("content-length", "")
        if length.isdigit() and (len(length) > 9 or int(length) > bytes_max):
            raise body.too_large(bytes_max)

    def check_host(self, names: Collection[str], https_names: Collection[str]) -> None:
        """Refuse a request without exactly one `Host`, or with one that is not configured.

        The host of a request line in absolute form must be configured too (RFC 9112 section 3.2.2).
        `https_names` are accepted only on a TLS listener.
        """
        sent_once = len(self.headers) == len(self._raw_headers)
        if sent_once and self.headers.get("host") in names and TARGET_HOST not in self.scope:
            return
        hosts = self.all("host")
        if len(hosts) != 1:
            raise BAD_REQUEST.with_reason("not exactly one Host header", "send exactly one Host header")
        if TARGET_HOST in self.scope:
            target = self.scope[TARGET_HOST]
            hosts.append(f"[{target}]" if ":" in target else target)
        for host in hosts:
            name = host_name(host)
            if name not in names and not (name in https_names and self.scope["scheme"] == "https"):
                raise MISDIRECTED_REQUEST.with_reason("host is not configured")

    def check_headers(self, read_once: Collection[str], doubled: ErrorKind) -> None:
        """Refuse headers that are not supported, and with `doubled` repeated ones of those in `read_once`."""
        if len(self.headers) < len(self._raw_headers):
            for name, count in Counter(name.decode("latin-1") for name, _ in self._raw_headers).items():
                if count > 1 and name in read_once:
                    message = f"{name.title()} must be sent only once."
                    raise doubled.with_reason(f"{name} was sent {count} times", message=message)
        if "x-test-scope" in self.headers:
            raise UNSUPPORTED_HEADER.with_reason("x-test-scope was sent", message=SANDBOX_HEADER_GONE)

    def check_body_headers(self, accepted: tuple[str, ...]) -> str:
        """Return the media type of a request with a body. Raises `unsupported_media_type`."""
        if "content-encoding" in self.headers:
            raise UNSUPPORTED_MEDIA_TYPE.with_reason(
                "content-encoding was sent", "send the body without Content-Encoding"
            )
        return body.check_content_type(self.headers.get("content-type"), accepted)

    def check_development(self, *, loopback_only: bool, of_page: bool = False) -> None:
        """Refuse development operations to pages of other origins and, if `loopback_only`, to other machines.

        `of_page`: a page sends its own forms, with `Origin: null` as it has no referrer; its handler checks them.
        """
        origin = self.headers.get("origin")
        if origin is not None and not of_page and origin.partition("://")[2] != self.headers.get("host"):
            raise FORBIDDEN.with_reason("foreign origin", message="Pages of other origins may not use this.")
        if loopback_only and not is_loopback(self.address):
            raise FORBIDDEN.with_reason("not from loopback", message="This is open on loopback only.")

    def check_test_header(self, *, live: bool) -> None:
        """Refuse `X-Test-Token: true` with a live token."""
        if live and self.headers.get("x-test-token", "").lower() == "true":
            raise UNSUPPORTED_HEADER.with_reason(
                "X-Test-Token with a live token",
                message=f"X-Test-Token requests a test order, but the access token is live; {HOW_TO_GET_TEST_TOKENS}.",
            )

    def client_address(self, trusted_proxies: tuple[str, ...]) -> str:
        """Return the client's address: what trusted proxies report, otherwise the connection's."""
        if not trusted_proxies:
            return self.address
        return forwarded_address(self.address, self.all("x-forwarded-for"), trusted_proxies)

    def forget_alert(self) -> None:
        """Drop the handler's event for operators, because its transaction was not committed."""
        if self.call is not None:
            self.call.alert = None

    def identity(self) -> dict[str, Any]:
        """Return the ids of the caller for the log, as far as the bearer or the handler has authenticated them."""
        caller, call = self.caller, self.call
        if caller is not None and caller.application_id:
            return {"application_id": caller.application_id, "seller_id": caller.seller_id}
        if caller is not None and caller.terminal_id:
            return {"seller_id": caller.seller_id, "terminal_id": caller.terminal_id}
        found: dict[str, Any] = {} if caller is None else {"operator_id": caller.operator_id}
        if call is not None:
            found |= {"application_id": call.logged_application_id, "seller_id": call.logged_seller_id}
        return {name: value for name, value in found.items() if value}


class PathRules:
    """The rules for an operation's path parameters."""

    def __init__(self, operation: Operation) -> None:
        self._last_name = operation.path.rpartition("{")[2].partition("}")[0]
        self._pattern = re.compile(operation.path_pattern) if operation.path_pattern else None

    def checked(self, values: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
        """Return the last path parameter, and all of them. Raises `invalid_path_param`.

        A value that matches its pattern only in upper case is upper-cased: webhooks have order ids in lower case.
        """
        if not values:
            return "", ()
        *others, last = values.values()
        for value in (*others, last):
            if len(value) > PATH_PARAMETER_CHARACTERS_MAX:
                raise INVALID_PATH_PARAM.with_reason("a path parameter is too long")
        if self._pattern is not None and not self._pattern.fullmatch(last):
            # The upper case of some non-ASCII letters is ASCII.
            if not (last.isascii() and self._pattern.fullmatch(last.upper())):
                raise INVALID_PATH_PARAM.with_reason("the id is malformed", f"'{self._last_name}' - is malformed")
            last = last.upper()
        return last, (*others, last)


def forwarded_address(address: str, forwarded: Iterable[str], trusted_proxies: tuple[str, ...]) -> str:
    """Return the address that trusted proxies report for a connection from `address`.

    If a proxy reports anything but an IP address, the proxy counts as the client.
    """
    hops = [hop.strip() for value in forwarded for hop in value.split(",")]
    while hops and is_trusted(address, trusted_proxies):
        hop = hops.pop()
        reported = _ip_address(hop) if len(hop) <= HOP_CHARACTERS_MAX else None
        if reported is None:
            break
        address = reported
    return address


@lru_cache(10_000)
def is_trusted(address: str, trusted_proxies: tuple[str, ...]) -> bool:
    """Return whether the address is in one of the networks of proxies."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(parsed in ipaddress.ip_network(network) for network in trusted_proxies)


@lru_cache(10_000)
def _ip_address(hop: str) -> str | None:
    """Return the IP address in `203.0.113.9`, `203.0.113.9:4711`, `2001:db8::1` or `[2001:db8::1]:4711`, else None.

    An IPv6 zone is refused, because it can be any text.
    """
    match = _HOP.fullmatch(hop)
    try:
        return str(ipaddress.ip_address(match[match.lastindex or 0])) if match is not None else None
    except ValueError:
        return None


@lru_cache(16)
def host_name(host: str) -> str:
    """Return the host without its port, in lower case; with what follows it, which is no name, if that is no port."""
    text = host.lower()
    colon = text.find(":", text.find("]") + 1)
    if colon < 0:
        return text
    port = text[colon + 1 :]
    is_port = port.isascii() and port.isdigit() and len(port) <= PORT_DIGITS_MAX and int(port) <= PORT_MAX
    return text[:colon] if is_port or not port else text


def is_loopback(address: str) -> bool:
    """Return whether the text is a loopback IP address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
