"""Validation of a subscription's URL, and the URL of one notification."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from paydesk.engine.webhooks.addresses import AddressRefused, CheckedResolver, literal

if TYPE_CHECKING:
    from yarl import URL

URL_CHARACTERS_MAX = 500
LOOKUP_SECONDS_MAX = 10
"""Limit of the lookup at registration. An attempt includes its lookup in `webhook_timeout_seconds`."""
_VISIBLE = re.compile(r"[!-~]+")
_HOST = re.compile(r"(?=.{1,254}\Z)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?")
# Such a name is an IPv4 address, as in browsers: the C library reads octal, hexadecimal and short forms.
_ENDS_IN_NUMBER = re.compile(r"(.*\.)?([0-9]+|0x[0-9a-f]*)\.?")
_OUR_PARAMETERS = {"data.id", "type"}


def faults(url: str, *, ports: Collection[int], loopback_allowed: bool) -> list[str]:
    """Return the faults of `url`, each as a phrase "must …". Its host is not resolved."""
    from yarl import URL

    if not _VISIBLE.fullmatch(url) or len(url) > URL_CHARACTERS_MAX or "\\" in url:
        return [f"must be at most {URL_CHARACTERS_MAX} visible ASCII characters (write a name like café.com as xn--…)"]
    try:
        parsed = URL(url, encoded=True)
        problems = connection_faults(parsed, ports=ports, loopback_allowed=loopback_allowed)
    except ValueError:
        return ["must be a URL"]
    if "#" in url:
        problems.append("must not have a fragment")
    problems.extend(
        f"must not have a parameter {name} of its own"
        for name in sorted(_OUR_PARAMETERS.intersection(dict(parse_qsl(parsed.raw_query_string, True))))
    )
    return problems


def connection_faults(url: URL, *, ports: Collection[int], loopback_allowed: bool) -> list[str]:
    """Return the faults of a connection to `url`: its scheme, host, port, user and password. Raises `ValueError`.

    Checked at registration and before every attempt, because a stored URL may be older than a rule or a setting.
    """
    schemes = ("https", "http") if loopback_allowed else ("https",)
    if url.scheme not in schemes:
        return [f"must be {' or '.join(schemes)}"]
    host, port = (url.raw_host or "").lower(), url.port
    if literal(host) is None:
        if not _HOST.fullmatch(host) or "[" in url.raw_authority:
            return ["must have a host of ASCII letters, digits, dots and hyphens, or an IP address without a zone"]
        if _ENDS_IN_NUMBER.fullmatch(host):
            return ["must have an IPv4 address as four decimal numbers, such as 93.184.216.34"]
    problems = []
    if "@" in url.raw_authority:
        problems.append("must not contain a user or a password")
    if not loopback_allowed and port not in ports:
        problems.append(f"must have one of the ports {', '.join(str(one) for one in sorted(ports))}")
    return problems


async def address_fault(url: str, resolver: CheckedResolver) -> str | None:
    """Return the fault of a valid `url` whose host can't be resolved, or None. Raises `AddressRefused`."""
    from yarl import URL

    host = (URL(url, encoded=True).raw_host or "").lower()
    address = literal(host)
    try:
        if address is None:
            async with asyncio.timeout(LOOKUP_SECONDS_MAX):
                await resolver.resolve(host)
        else:
            resolver.check(host, [address])
    except AddressRefused:
        raise
    except (OSError, UnicodeError):
        # `TimeoutError` is an `OSError`.
        return "must have a host that can be resolved"
    return None


def with_parameters(url: str, data_id: str, kind: str = "order") -> URL:
    """Append our two parameters to `url`, whose own parameters stay the same byte for byte."""
    from yarl import URL

    separator = "?" if "?" not in url else "" if url.endswith(("?", "&")) else "&"
    return URL(f"{url}{separator}data.id={data_id}&type={kind}", encoded=True)
