"""Validation of a subscription's URL, and the URL of one notification."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from paydesk.webhooks.addresses import AddressRefused, CheckedResolver, literal

if TYPE_CHECKING:
    from yarl import URL

URL_CHARACTERS_MAX = 500
_VISIBLE = re.compile(r"[!-~]+")
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9])?\.?")
_OUR_PARAMETERS = {"data.id", "type"}


def faults(url: str, *, ports: Collection[int], loopback_allowed: bool) -> list[str]:
    """Return the faults of `url`, each as a phrase "must …". Its host is not resolved."""
    from yarl import URL

    if not _VISIBLE.fullmatch(url) or len(url) > URL_CHARACTERS_MAX or "\\" in url:
        return [f"must be at most {URL_CHARACTERS_MAX} visible ASCII characters (write a name like café.com as xn--…)"]
    try:
        parsed = URL(url, encoded=True)
        host, port = (parsed.raw_host or "").lower(), parsed.port
    except ValueError:
        return ["must be a URL"]
    schemes = ("https", "http") if loopback_allowed else ("https",)
    if parsed.scheme not in schemes:
        return [f"must be {' or '.join(schemes)}"]
    if not host or (literal(host) is None and not _HOST.fullmatch(host)):
        return ["must have a host"]
    problems = []
    if "@" in parsed.raw_authority:
        problems.append("must not contain a user or a password")
    if "#" in url:
        problems.append("must not have a fragment")
    if not loopback_allowed and port not in ports:
        problems.append(f"must have one of the ports {', '.join(str(one) for one in sorted(ports))}")
    problems.extend(
        f"must not have a parameter {name} of its own"
        for name in sorted(_OUR_PARAMETERS.intersection(dict(parse_qsl(parsed.raw_query_string, True))))
    )
    return problems


async def address_fault(url: str, resolver: CheckedResolver) -> str | None:
    """Return the fault of a valid `url` whose host can't be resolved, or None. Raises `AddressRefused`."""
    from yarl import URL

    host = (URL(url, encoded=True).raw_host or "").lower()
    address = literal(host)
    try:
        if address is None:
            await resolver.resolve(host)
        else:
            resolver.check(host, [address])
    except AddressRefused:
        raise
    except (OSError, UnicodeError):
        return "must have a host that can be resolved"
    return None


def with_parameters(url: str, data_id: str, kind: str = "order") -> URL:
    """Append our two parameters to `url`, whose own parameters stay the same byte for byte."""
    from yarl import URL

    separator = "?" if "?" not in url else "" if url.endswith(("?", "&")) else "&"
    return URL(f"{url}{separator}data.id={data_id}&type={kind}", encoded=True)
