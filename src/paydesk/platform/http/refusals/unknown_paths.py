"""The answers to requests that reach no operation: 404 with what to do instead, 405 with the methods of the path.

No answer repeats any part of the request. Nothing here runs for a request that reaches an operation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from paydesk.core.errors import METHOD_NOT_ALLOWED, NOT_FOUND, Refusal
from paydesk.platform.operation import Operation

PATH_CHARACTERS_MAX = 500
"""Longer paths are not compared with those of operations."""
DOCS = "GET /docs lists all operations."

_TERMINALS_ONLY = "This service takes payments on card terminals only and has no such operation."
_SENTENCES = (
    (
        r"/v1/orders/[^/]+/(?:process|capture|transactions(?:/[^/]+)?)",
        "An order here is processed by its terminal, and has the one payment that it was created with. Use POST"
        " /v1/orders/{order_id}/cancel or POST /v1/orders/{order_id}/refund to change it.",
    ),
    (
        r"/(?:pos|stores)(?:/.*)?|/users/[^/]+/stores(?:/.*)?",
        "Stores and points of sale are created by the operators of this service. GET /terminals/v1/list has the store"
        " and the point of sale of each terminal.",
    ),
    (
        r"/checkout/.*|/(?:v1/)?(?:customers|cards|card_tokens|payment_methods|identification_types|advanced_payments"
        r"|chargebacks|bank_accounts|account|disbursements|invoices)(?:/.*)?"
        r"|/(?:merchant_orders|preapproval|preapproval_plan|authorized_payments|instore|mpmobile|sites|users)(?:/.*)?",
        f"{_TERMINALS_ONLY} {DOCS}",
    ),
)
"""The sentence for operations that existing clients have for other kinds of orders, by pattern of the path."""
_ELSEWHERE = tuple((re.compile(pattern), sentence) for pattern, sentence in _SENTENCES)

_PARAMETER = re.compile(r"\\{\w+\\}")
_IGNORED = re.compile(r"/(?:api|v\d+(?:\.\d+)?)?(?=/)")
"""The parts of a path in which similar paths may differ: a doubled slash, and the version."""


@dataclass(frozen=True, slots=True)
class UnknownPaths:
    """The paths of a listener's operations, among which is perhaps what a client meant."""

    patterns: Sequence[tuple[re.Pattern[str], str]]
    """The pattern of the paths that are similar to an operation's, and that operation's path with its methods."""
    has_orders: bool
    """Whether this is a listener for applications."""

    @staticmethod
    def of(operations: Mapping[str, Iterable[Operation]]) -> UnknownPaths:
        """Return those of these operations, by path. `/` leads to pages; no other path is similar to it."""
        return UnknownPaths(
            [
                (
                    re.compile(_PARAMETER.sub("[^/]+", re.escape(_similar(path)))),
                    f"{_either(row.method for row in rows)} {path}",
                )
                for path, rows in operations.items()
                if path != "/"
            ],
            "/v1/orders" in operations,
        )

    def refusal(self, _method: str, path: str) -> Refusal:
        """Return the refusal of a request to an unknown path."""
        meant = None
        if len(path) <= PATH_CHARACTERS_MAX:
            similar = _similar(path)
            meant = next((described for pattern, described in self.patterns if pattern.fullmatch(similar)), None)
        if meant is None and self.has_orders:
            for pattern, sentence in _ELSEWHERE:
                if pattern.fullmatch(path):
                    return NOT_FOUND.with_reason("an operation for other kinds of orders", message=sentence)
        advice = f"Did you mean {meant}?" if meant is not None else DOCS
        return NOT_FOUND.with_reason("unknown path", message=f"{NOT_FOUND.message} {advice}")


def method_not_allowed(method: str, allowed: Iterable[str]) -> Refusal:
    """Return the refusal of a method that a path does not have."""
    message = f"{METHOD_NOT_ALLOWED.message} Use {_either(allowed)}."
    allow = ("allow", ", ".join(sorted(allowed)))
    return METHOD_NOT_ALLOWED.with_reason(f"no {method} operation", message=message, headers=(allow,))


def _similar(path: str) -> str:
    """Return what the path has in common with those that differ in slashes, case, spaces around it, and version."""
    return _IGNORED.sub("", path.strip().lower()).rstrip("/") or "/"


def _either(methods: Iterable[str]) -> str:
    """Return the methods as a sentence names them, such as `GET, PATCH or POST`."""
    *others, last = sorted(methods)
    return f"{', '.join(others)} or {last}" if others else last
