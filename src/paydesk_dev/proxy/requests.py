"""The requests that the proxy of `paydesk dev --proxy` permits: CONNECT to one of the vendor's hosts, on port 443."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from paydesk.core.errors import BAD_REQUEST, FORBIDDEN, METHOD_NOT_ALLOWED, Refusal
from paydesk_dev.proxy.access import OWN_HOSTS
from paydesk_dev.tls.certificates import VENDOR_HOSTS

HTTPS = 443
HTTP_PORTS = {"http": 80, "https": HTTPS}
SHOWN_MAX = 100

_REQUEST_LINE = re.compile(rb"([A-Z]{1,20}) ([\x21-\x7e]+) HTTP/1\.[01]")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t\x20-\x7e\x80-\xff]*)")
_AUTHORITY = re.compile(r"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):([0-9]{1,5})", re.ASCII)
_ONLY = f"This proxy answers for {VENDOR_HOSTS[0]} and {VENDOR_HOSTS[1]} alone, on port {HTTPS}"


@dataclass(frozen=True, slots=True)
class Target:
    """The host and the port that a client wants to reach, without any path or credential."""

    host: str
    port: int

    def __str__(self) -> str:
        text = f"{self.host}:{self.port}"
        return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"


@dataclass(frozen=True, slots=True)
class Request:
    """The request line of a client of the proxy. `target` is None if the request names no host."""

    method: str
    target: Target | None


def parse(head: bytes) -> Request:
    """Return the request in a whole head, which ends with an empty line. Raises BAD_REQUEST, METHOD_NOT_ALLOWED."""
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    request_line = _REQUEST_LINE.fullmatch(first)
    if request_line is None:
        raise BAD_REQUEST.with_reason(
            "no request line of HTTP/1.1", message="This is a proxy for HTTP/1.1. It expects a CONNECT request."
        )
    for line in lines:
        header = _HEADER.fullmatch(line)
        if header is None:
            raise BAD_REQUEST.with_reason("malformed header", message="A header of the request is malformed.")
        name, value = header[1].lower(), header[2].strip()
        if name == b"transfer-encoding" or (name == b"content-length" and value != b"0"):
            # The bytes after the head of CONNECT belong to the tunnel (RFC 9110 section 9.3.6).
            raise BAD_REQUEST.with_reason("a body", message="A request to this proxy has no body.")
    method, target = request_line[1].decode(), request_line[2].decode()
    return Request(method, _authority(target) if method == "CONNECT" else _host_of_url(target))


def check(request: Request, own_url: str) -> None:
    """Refuse a request that is not for one of the vendor's hosts, with what to do instead.

    Raises METHOD_NOT_ALLOWED for a request without a host, sent to the proxy as to a server, otherwise FORBIDDEN.
    """
    target = request.target
    if target is None:
        raise METHOD_NOT_ALLOWED.with_reason(
            "not a request to a proxy",
            message=f"This is a proxy, which takes CONNECT requests alone. Call Paydesk itself at {own_url}.",
            headers=(("allow", "CONNECT"),),
        )
    if target.host in VENDOR_HOSTS:
        if request.method == "CONNECT" and target.port == HTTPS:
            return
        raise _refused(
            target, f"{_ONLY}, not for {target} or without https. Use https: call https://{target.host} instead."
        )
    if _is_this_machine(target.host):
        raise _refused(
            target,
            f"{_ONLY}, not for {target}. Set NO_PROXY={OWN_HOSTS} so that your program calls this machine directly.",
        )
    host = target.host if len(target.host) <= SHOWN_MAX else "the host"
    raise _refused(target, f"{_ONLY}, not for {target}. Add {host} to NO_PROXY so that your program calls it directly.")


def _refused(target: Target, message: str) -> Refusal:
    refusal = FORBIDDEN.with_reason("another target", message=message)
    refusal.facts = {"target": str(target)}
    return refusal


def _authority(text: str) -> Target:
    """Return the target of CONNECT. The dot that may end a full host name is dropped."""
    authority = _AUTHORITY.fullmatch(text)
    if authority is None or not 0 < int(authority[2]) < 1 << 16:
        raise BAD_REQUEST.with_reason(
            "malformed target", message="The target of CONNECT must be a host name or an address, a colon and a port."
        )
    return Target(authority[1].lower().removesuffix("."), int(authority[2]))


def _host_of_url(text: str) -> Target | None:
    """Return the host of an absolute URL, None for a path. Raises BAD_REQUEST."""
    if text.startswith("/") or text == "*":
        return None
    try:
        url = urlsplit(text)
        port = url.port or HTTP_PORTS[url.scheme]
        host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname
    except (ValueError, KeyError):
        host, port = None, 0
    if host is None:
        raise BAD_REQUEST.with_reason("malformed URL", message="The URL of the request is malformed.")
    return _authority(f"{host}:{port}")


def _is_this_machine(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
