"""The rules for redirect URIs, to which the browser is sent with the code. No input or output."""

from __future__ import annotations

import re
import urllib.parse
from urllib.parse import SplitResult

CHARACTERS_MAX = 2000
LOOPBACK = ("127.0.0.1", "::1", "localhost")
RESERVED = ("code", "state", "iss", "error", "error_description", "error_uri")
"""The query parameters of an authorization response (RFC 6749 sections 4.1.2 and 4.1.2.1, RFC 9207)."""

_VISIBLE = re.compile(r"[!-~]+")
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9])?\.?")
_NO_ADDRESS = "must be an absolute address, such as https://shop.example/callback"


def fault(text: str, *, loopback_allowed: bool) -> str | None:
    """Return what is wrong with the address, as the end of a sentence, or None.

    Addresses are compared character by character (RFC 9700 section 4.1.3), so there are no wildcards.
    `loopback_allowed`: whether plain http to this machine is accepted, as it is in development.
    """
    # Browsers read a backslash as a slash and would see another host.
    if len(text) > CHARACTERS_MAX or not _VISIBLE.fullmatch(text) or "\\" in text:
        return f"must be at most {CHARACTERS_MAX:,} visible ASCII characters (write a name like café.com as xn--…)"
    address = _split(text)
    if address is None:
        return _NO_ADDRESS
    for sign, part, rule in (
        ("#", text, "must not have a fragment"),
        ("@", address.netloc, "must not carry a user or a password"),
        ("*", text, "must be one address, without * (as a plain character it is %2A)"),
    ):
        if sign in part:
            return rule
    if address.scheme == "http" and address.hostname in LOOPBACK:
        if not loopback_allowed:
            return "must be https; http on the own machine is for `paydesk dev` alone"
    elif address.scheme != "https":
        return "must be https" + (", or http on this machine" if loopback_allowed else "")
    names = {name for name, _ in urllib.parse.parse_qsl(address.query, keep_blank_values=True)}
    taken = " or ".join(name for name in RESERVED if name in names)
    return f"must not have {taken} in its query: Paydesk adds parameters of that name; rename yours" if taken else None


def _split(text: str) -> SplitResult | None:
    """Return the parts of the address; None if it is malformed or has no host."""
    try:
        address = urllib.parse.urlsplit(text)
        host, port = address.hostname or "", address.port
    except ValueError:
        return None
    is_host = ":" in host or _HOST.fullmatch(host)
    return address if is_host and port != 0 else None
