"""A request that is good until a way spoils it; the table of a surface: its good requests, and the ways to errors."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from every_operation import OPERATIONS
from faulty_database import FaultyDatabase
from operator_calls import Operator
from paydesk.core.errors import ErrorKind
from paydesk.platform.http.openapi.document import path_template
from paydesk.platform.http.refusals.error_responses import takes_body
from paydesk.platform.operation import Operation, Surface
from raw_http import exchange, head
from service import Device, Reply, Service

PAGES = ("page", "console")
"""The surfaces whose bodies are forms and whose errors are pages."""


@dataclass(frozen=True)
class Attempt:
    """A request for an operation, good until a way spoils it."""

    service: Service
    database: FaultyDatabase
    operation: Operation
    token: str | None = None
    body: Any = None
    query: str = ""
    paths: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    operator: Operator | None = None
    device: Device | None = None

    @property
    def path(self) -> str:
        """Where it goes."""
        return path_template(self.operation).format(**self.paths) + self.query

    async def send(
        self,
        *,
        body: Any = None,
        data: bytes | None = None,
        token: str | None = "",
        key: str | None = "",
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send it, with other parts than the good ones where they are given."""
        if data is None and takes_body(self.operation):
            data = self._encoded(self.body if body is None else body)
        return await self.service.request(
            self.operation.method,
            self.path,
            data=data,
            token=self.token if token == "" else token,
            key=key if self.operation.idempotent else None,
            headers={**self.headers, **(headers or {})},
        )

    async def send_raw(self, *fields: str, host: str = "localhost", body: bytes = b"") -> Reply:
        """Send it on a bare connection, with further header fields."""
        own = [f"{name}: {value}" for name, value in self.headers.items()]
        authorization = [f"Authorization: Bearer {self.token}"] if self.token else []
        request = head(self.operation.method, self.path, *own, *authorization, *fields, host=host)
        return await exchange(self.service, request + body)

    def at(self, **paths: str) -> Attempt:
        """The same with other parameters in its path."""
        return replace(self, paths={**self.paths, **paths})

    def _encoded(self, body: Any) -> bytes:
        is_form = self.operation.surface in PAGES
        return urllib.parse.urlencode(body).encode() if is_form else json.dumps(body).encode()


Way = Callable[[Attempt], Awaitable[Reply]]


class Ways:
    """Ways to errors: each by the error's code, or by `operation/code` where it is one operation's own."""

    def __init__(self) -> None:
        self._ways: dict[str, Way] = {}

    def way(self, *names: str) -> Callable[[Way], Way]:
        """Registers the way to an error."""

        def register(function: Way) -> Way:
            assert not self._ways.keys() & set(names), names
            self._ways.update(dict.fromkeys(names, function))
            return function

        return register

    def find(self, operation: Operation, kind: ErrorKind) -> Way | None:
        """The way to this error of this operation, or None."""
        return self._ways.get(f"{operation.name}/{kind.code}") or self._ways.get(kind.code)


Good = Callable[[Service, FaultyDatabase, Operation], Awaitable[Attempt]]


class Table(Ways):
    """A surface: its operations, their good requests, and the ways that are its own."""

    def __init__(
        self,
        surface: Surface,
        good: Good,
        *,
        also: tuple[Surface, ...] = (),
        needs_more: tuple[str, ...] = (),
        elsewhere: tuple[str, ...] = (),
    ) -> None:
        """`also`: further surfaces.

        `needs_more`: operations whose good request does not succeed yet; `elsewhere`: errors reached elsewhere.
        """
        super().__init__()
        self.name, self.good, self.needs_more, self.elsewhere = surface, good, needs_more, elsewhere
        self.operations = [operation for operation in OPERATIONS if operation.surface in (surface, *also)]
