"""Operations of the earlier API: answered 410 with the successor's name, before anything is read.

Another method on such a path is answered 405, and other paths below the earlier ones 410 with a link to `/docs`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from paydesk.core.errors import GONE, METHOD_NOT_ALLOWED, Refusal

MIGRATION = "See docs/migrate.md, Migrate from payment intents."


@dataclass(frozen=True, slots=True)
class Retired:
    """An earlier operation and its successor, each by method and path; the method `*` is any."""

    method: str
    path: str
    name: str
    successor: str

    @property
    def message(self) -> str:
        """Return the message for the client."""
        return f"This operation is retired. Use {self.successor} instead. {MIGRATION}"


EARLIER = "/point/integration-api"
DEVICE = f"{EARLIER}/devices/{{device_id}}"
INTENTS = f"{EARLIER}/payment-intents"
PAYMENTS = "/v1/payments"
REFUNDS = f"{PAYMENTS}/{{payment_id}}/refunds"
REFUND = "POST /v1/orders/{order_id}/refund"

RETIRED = (
    Retired("GET", f"{EARLIER}/devices", "retired_list_devices", "GET /terminals/v1/list"),
    Retired("PATCH", DEVICE, "retired_setup_device", "PATCH /terminals/v1/setup"),
    Retired("POST", f"{DEVICE}/payment-intents", "retired_create_payment_intent", "POST /v1/orders"),
    Retired("GET", f"{INTENTS}/events", "retired_list_payment_intents", "GET /v1/orders"),
    Retired("GET", f"{INTENTS}/{{payment_intent_id}}", "retired_get_payment_intent", "GET /v1/orders/{order_id}"),
    Retired(
        "DELETE",
        f"{DEVICE}/payment-intents/{{payment_intent_id}}",
        "retired_cancel_payment_intent",
        "POST /v1/orders/{order_id}/cancel",
    ),
    Retired("POST", REFUNDS, "retired_refund_payment", REFUND),
    Retired("POST", PAYMENTS, "retired_create_payment", "POST /v1/orders"),
    Retired("GET", f"{PAYMENTS}/search", "retired_search_payments", "GET /v1/orders"),
    Retired("GET", f"{PAYMENTS}/{{payment_id}}", "retired_get_payment", "GET /v1/orders/{order_id}"),
    Retired("*", f"{PAYMENTS}/{{rest:path}}", "retired_payments", "GET /docs"),
    Retired("*", PAYMENTS, "retired_every_payment", "GET /docs"),
    Retired("*", f"{EARLIER}/{{rest:path}}", "retired_point_integration", "GET /docs"),
    Retired("*", EARLIER, "retired_point_integration_api", "GET /docs"),
)
PATHS = tuple(dict.fromkeys(row.path for row in RETIRED))
DESCRIBED = tuple(row for row in RETIRED if row.method != "*")
"""The rows that OpenAPI and the docs describe."""

_PARAMETER = re.compile(r"\{\w+\}")
_PATTERNS = tuple(
    (row, re.compile(f"{_PARAMETER.sub('[^/]+', row.path.replace('{rest:path}', '.*'))}$")) for row in RETIRED
)
"""Each matches what the router's does, a path with a final line break included."""


def refusal(method: str, path: str) -> Refusal:
    """Return the refusal of a request to an earlier path: 405 if the path had operations, but none of this method."""
    rows = [row for row, pattern in _PATTERNS if pattern.match(path)]
    own = [row for row in rows if row.method != "*"]
    sent = "GET" if method == "HEAD" else method
    row = next((row for row in own or rows if row.method in (sent, "*")), None)
    if row is not None:
        return GONE.with_reason(f"{row.name} is retired", message=row.message, headers=(_link(row),))
    methods, first = sorted({row.method for row in own}), own[0]
    message = (
        f"{METHOD_NOT_ALLOWED.message} The earlier API had only {' and '.join(methods)} here, which is retired. Use"
        f" {first.successor} instead. {MIGRATION}"
    )
    headers = (("allow", ", ".join(methods)), _link(first))
    return METHOD_NOT_ALLOWED.with_reason(f"no {method} operation", message=message, headers=headers)


def _link(row: Retired) -> tuple[str, str]:
    return "link", f'<{row.successor.partition(" ")[2]}>; rel="successor-version"'
