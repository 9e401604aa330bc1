"""The requests of tills and terminals as faults name and match them."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec
from starlette.routing import compile_path

from paydesk.core import ids
from paydesk.core.errors import Refusal
from paydesk.core.faults import ANY_REQUEST, VALUE_CHARACTERS_MAX, Edge, Fault, FaultRefused
from paydesk.core.text.redaction import redacted
from paydesk.engine.oauth.tokens import ACCESS_TOKEN_PATTERN
from paydesk.engine.payments.simulator import faults as acquirer
from paydesk.platform.http import body
from paydesk.platform.http.asgi import Scope
from paydesk.platform.http.request import Request
from paydesk.platform.http.surfaces import Callers
from paydesk.platform.operation import Operation, Surface
from paydesk.platform.shared import Shared
from paydesk.platform.storage.database import Locked, Unavailable
from paydesk_dev.faults import webhooks
from paydesk_dev.faults.active import ON_WIRE, RequestFacts

EDGE_OF: Mapping[Surface, Edge] = {"application": "till", "token": "till", "device": "terminal"}
_BY_ORDER = {"terminal", "reference", "application"}
"""What is looked up by the order if a fault matches it."""

OF_ORDER = "SELECT terminal_id, external_reference, application_id FROM orders WHERE seller_id = $1 AND order_id = $2"

_PARAMETER, _ACCESS_TOKEN = re.compile(r"\{[^}]*\}"), re.compile(ACCESS_TOKEN_PATTERN)


@dataclass(frozen=True, slots=True)
class Received:
    """A request that faults may meet, read as a whole."""

    operation: Operation
    parameters: Mapping[str, str]
    scope: Scope
    raw: bytes

    @property
    def edge(self) -> Edge:
        """The edge at which it arrived."""
        return EDGE_OF[self.operation.surface]

    @property
    def document(self) -> dict[str, Any]:
        """The fields of the body; none if it is not an object or a form."""
        try:
            document = msgspec.json.decode(self.raw) if self.raw else {}
        except (msgspec.DecodeError, RecursionError):
            document = dict(urllib.parse.parse_qsl(self.raw.decode("utf-8", "replace")))
        return document if isinstance(document, dict) else {}


class Requests:
    """The operations of tills and terminals, by name and by path."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._rows = [row for row in operations if row.surface in EDGE_OF and row.media_type == "application/json"]

    @cached_property
    def _patterns(self) -> list[tuple[re.Pattern[str], Operation]]:
        return [(compile_path(row.path)[0], row) for row in self._rows]

    def find(self, method: str, path: str) -> tuple[Operation, Mapping[str, str]] | None:
        """Return the operation of a request with the parameters of its path."""
        for pattern, row in self._patterns:
            if row.method == method and (match := pattern.match(path)) is not None:
                return row, match.groupdict()
        return None

    def body_bytes_max(self, operation: Operation) -> int:
        """Return the limit of an operation's body."""
        return operation.body_bytes_max or body.BODY_BYTES_MAX

    def checked(self, fault: Fault) -> Fault:
        """Return the fault with the name of its operation. Raises `FaultRefused` if nothing has this name."""
        if fault.edge == "acquirer":
            return acquirer.checked(fault)
        if fault.edge == "webhook":
            return webhooks.checked(fault)
        if fault.request == ANY_REQUEST or fault.edge not in ON_WIRE:
            return fault
        names = {row.name: row.name for row in self._rows if EDGE_OF[row.surface] == fault.edge}
        rows = [row for row in self._rows if row.name in names]
        addresses = {f"{row.method} {_PARAMETER.sub('{}', row.path)}": row.name for row in rows}
        name = names.get(fault.request) or addresses.get(_PARAMETER.sub("{}", fault.request))
        if name is None:
            raise FaultRefused("request", f"must be * or one of {', '.join(sorted(names))}, or METHOD /path/{{id}}")
        return replace(fault, request=name)


async def describe_request(
    received: Received, shared: Shared, request_id: str, wanted: AbstractSet[str]
) -> RequestFacts:
    """Return what faults may match. `wanted`: the names that some fault matches, of which a few need the database."""
    request, facts = Request(received.scope), dict[str, str]()
    document, operation = received.document, received.operation
    if received.edge == "till":
        facts |= _of_till(request, document)
    elif operation.surface == "device" and "authorization" in request.headers:
        token = request.headers["authorization"].partition(" ")[2].strip()
        with suppress(Refusal, Unavailable, Locked):  # The application refuses it.
            caller = await shared.objects[Callers].authenticate["device"](token, shared.clock.now_ms())
            facts |= {"terminal": caller.terminal_id, "seller": str(caller.seller_id)}
    facts |= _of_order(received.parameters, document)
    missing = wanted & _BY_ORDER - facts.keys()
    if missing and "order" in facts and "seller" in facts:
        seller_id, order_id = int(facts["seller"]), facts["order"]
        with suppress(Unavailable, Locked):  # The application answers that.
            row = await shared.database.read(lambda tx: tx.one(OF_ORDER, seller_id, order_id))
            of_order = zip(("terminal", "reference", "application"), row or (), strict=False)
            facts |= {name: str(value) for name, value in of_order if name in missing and value is not None}
    # A longer value matches no fault, and is not kept.
    facts = {name: value for name, value in facts.items() if len(value) <= VALUE_CHARACTERS_MAX}
    key = request.headers.get("x-idempotency-key", "")
    return RequestFacts(received.edge, (operation.name,), facts, request_id, redacted(key)[:VALUE_CHARACTERS_MAX])


def _of_till(request: Request, document: Mapping[str, Any]) -> dict[str, str]:
    """Return the application and the seller, by the token's text, and what the request names itself."""
    facts = {}
    match = _ACCESS_TOKEN.fullmatch(request.headers.get("authorization", "").partition(" ")[2].strip())
    if match is not None:
        prefix, application, *_, seller = match[0].split("-")
        facts = {"application": application, "seller": seller, "mode": "test" if prefix == "TEST" else "live"}
    grants = ("refresh_token", "code", "token")
    sellers = (ids.seller_of(str(document[name])) for name in grants if name in document)
    point = document.get("config", {})
    point = point.get("point", {}) if isinstance(point, dict) else {}
    named = {
        "application": document.get("client_id"),
        "grant": document.get("grant_type"),
        "seller": next((one for one in sellers if one is not None), None) if "seller" not in facts else None,
        "reference": document.get("external_reference") or request.query().get("external_reference"),
        "terminal": point.get("terminal_id") if isinstance(point, dict) else None,
    }
    return {**facts, **{name: str(value) for name, value in named.items() if value}}


def _of_order(parameters: Mapping[str, str], document: Mapping[str, Any]) -> dict[str, str]:
    """Return the order that the path or the body names, and the terminal in a path."""
    facts = {"terminal": parameters["terminal_id"]} if "terminal_id" in parameters else {}
    named = parameters.get("order_id") or f"ORD{parameters.get('lease_id') or str(document.get('payment_id', ''))[3:]}"
    return facts | ({"order": named.upper()} if ids.ORDER_ID.fullmatch(named.upper()) else {})
