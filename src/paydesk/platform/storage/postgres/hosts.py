"""The hosts of a PostgreSQL URL, tried one after the other, each with its own deadline, until the primary answers.

The driver has one deadline for all hosts: one that accepts connections and never answers would use it up.
"""

from __future__ import annotations

import errno
import math
import os
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import asyncpg
import structlog

from paydesk.platform.storage.database import Unavailable, UnsafeDatabase

HOST_SECONDS_MAX: Final = 3.0
"""For one of several hosts, or the deadline divided by their number, or `connect_timeout` if that is less."""
PORT = "5432"
MALFORMED = (
    "The database URL is malformed. Write postgresql://user:password@host/name, or several hosts:"
    " postgresql://user:password@first:5432,second:5432/name."
)

_TIMEOUT_MALFORMED = "connect_timeout in the database URL must be a whole number of seconds; 0 stands for no limit."
_REFUSED = ("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout")
"""Parameters of libpq that the driver would send to the server, which has no such settings."""

_REFUSES_SETTINGS = "unsupported startup parameter"
"""The error of a connection pooler for settings in the startup message that it does not keep for each client."""

_CONNECTION_ERRORS = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)

_UNREACHABLE = (errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH)
"""The system reports these after seconds without an answer."""

log = structlog.get_logger("database")


class Lost(Exception):
    """The connection or the server was lost."""


class Expired(Exception):
    """A round trip exceeded its deadline, and the connection was dropped."""


class Unanswered(Unavailable):
    """A host did not answer in time, and no other one could be used."""


@dataclass(frozen=True, slots=True)
class Host:
    """One host: a URL with that host only, and its name and port for the log."""

    url: str
    name: str = ""
    port: str = PORT


class Hosts:
    """The hosts of one URL, beginning with the one that answered last. Raises `UnsafeDatabase` for a malformed URL."""

    def __init__(self, url: str) -> None:
        try:
            url, self._seconds_max = _without_timeout(url)
            self._hosts = list(hosts_of(url))
            self._attributes = _session_attributes(url) if len(self._hosts) > 1 else None
        except ValueError as error:
            raise UnsafeDatabase(MALFORMED) from error
        self._failed: dict[Host, str] = {}
        self.refuse_settings = False
        """Whether a pooler refused the session's settings: connections have only their name since."""

    async def connect(self, timeout_seconds: float, **options: Any) -> asyncpg.Connection:
        """Connect to the first host that answers. Raises `Unavailable`, `UnsafeDatabase` for a malformed URL.

        Of several hosts, standbys are skipped unless the URL asks for one.
        """
        seconds = timeout_seconds
        if len(self._hosts) > 1:
            seconds = min(HOST_SECONDS_MAX, timeout_seconds / len(self._hosts))
        seconds = min(seconds, self._seconds_max)
        reasons: list[str] = []
        is_silent = False
        for host in tuple(self._hosts):
            try:
                connection = await self._connect(host, seconds, **options)
            except (asyncpg.ClientConfigurationError, ValueError) as error:
                raise UnsafeDatabase(MALFORMED) from error
            except _CONNECTION_ERRORS as error:
                reason = self._reason(error, seconds)
                reasons.append(f"{host.name}:{host.port}: {reason}" if host.name else reason)
                self._note(host, reason, skipped=isinstance(error, asyncpg.TargetServerAttributeNotMatched))
                is_silent = is_silent or _is_silence(error)
                failure = error
            else:
                self._prefer(host)
                return connection
        raise (Unanswered if is_silent else Unavailable)(
            f"PostgreSQL cannot be reached: {'; '.join(reasons)}"
        ) from failure

    async def _connect(
        self, host: Host, seconds: float, *, server_settings: dict[str, str], **options: Any
    ) -> asyncpg.Connection:
        """Connect to a host, without the settings of the session if it refuses them."""
        if self.refuse_settings:
            server_settings = {"application_name": server_settings["application_name"]}
        try:
            return await asyncpg.connect(
                host.url,
                timeout=seconds,
                target_session_attrs=self._attributes,
                server_settings=server_settings,
                **options,
            )
        except asyncpg.ProtocolViolationError as error:
            if self.refuse_settings or _REFUSES_SETTINGS not in str(error):
                raise
            self.refuse_settings = True
            return await self._connect(host, seconds, server_settings=server_settings, **options)

    def _reason(self, error: Exception, seconds: float) -> str:
        if isinstance(error, TimeoutError):
            return f"no answer within {seconds:g} s"
        if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
            return f"it does not match target_session_attrs{f'={self._attributes}' if self._attributes else ''}"
        return str(error) or type(error).__name__

    def _note(self, host: Host, reason: str, *, skipped: bool) -> None:
        """Log why one of several hosts failed or was skipped: once, until it answers or the reason changes."""
        if host.name and self._failed.get(host) != reason:
            self._failed[host] = reason
            facts = {"host": host.name, "port": host.port, "reason": reason}
            if skipped:
                log.info("database_host_skipped", **facts)
            else:
                log.warning("database_host_failed", **facts)

    def _prefer(self, host: Host) -> None:
        self._failed.pop(host, None)
        if self._hosts[0] is not host:
            self._hosts.sort(key=lambda other: other is not host)


def _is_silence(error: Exception) -> bool:
    return isinstance(error, TimeoutError) or (isinstance(error, OSError) and error.errno in _UNREACHABLE)


def hosts_of(url: str) -> Iterator[Host]:
    """Yield the hosts of a URL in order. A URL of one host stays unchanged."""
    parts = urllib.parse.urlsplit(url)
    query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
    credentials, at, netloc = parts.netloc.rpartition("@")
    names, ports = (netloc or query.get("host", "")).split(","), query.get("port", "").split(",")
    if len(names) == 1:
        yield Host(url)
        return
    for number, name in enumerate(names):
        own = dict(query)
        if len(ports) == len(names):
            own["port"] = ports[number]
        if not netloc:
            own["host"] = name
        where = f"{credentials}{at}{name if netloc else ''}{parts.path}"
        own_name, own_port = _named(name) if netloc else (name, "")
        port = own.get("port") or own_port or PORT
        yield Host(f"{parts.scheme}://{where}?{urllib.parse.urlencode(own)}", own_name, port)


def _without_timeout(url: str) -> tuple[str, float]:
    """Return the URL without `connect_timeout`, and that. Raises `UnsafeDatabase` for what has no effect here."""
    parts = urllib.parse.urlsplit(url)
    query = urllib.parse.parse_qsl(parts.query, keep_blank_values=True)
    refused = [name for name, _ in query if name in _REFUSED]
    if refused:
        raise UnsafeDatabase(
            f"The database URL has {', '.join(refused)}, which Paydesk does not support. Remove it: each round trip"
            " already ends after database_timeout_seconds. To keep idle connections open, set tcp_keepalives_idle in"
            " the server's configuration."
        )
    texts = [value for name, value in query if name == "connect_timeout"]
    if not texts:
        return url, math.inf
    if not all(text.isascii() and text.isdigit() for text in texts):
        raise UnsafeDatabase(_TIMEOUT_MALFORMED)
    others = [(name, value) for name, value in query if name != "connect_timeout"]
    return parts._replace(query=urllib.parse.urlencode(others)).geturl(), int(texts[-1][:9]) or math.inf


def _named(name: str) -> tuple[str, str]:
    """Return host and port of `host`, `host:port` or `[address]:port`."""
    host, colon, port = name.rpartition(":")
    return (host, port) if colon and not port.endswith("]") else (name, "")


def _session_attributes(url: str) -> str:
    """Return `target_session_attrs` of the URL or the environment; `any` becomes `primary`, which accepts writes."""
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)
    attributes = query.get("target_session_attrs", [os.environ.get("PGTARGETSESSIONATTRS", "any")])[0]
    return "primary" if attributes == "any" else attributes
