"""The table of all operations, from which routing, authorization, OpenAPI and the docs are derived."""

from __future__ import annotations

from paydesk.console.operations import OPERATIONS as CONSOLE
from paydesk.device.operations import OPERATIONS as DEVICE
from paydesk.events.operations import OPERATIONS as EVENTS
from paydesk.health.operations import OPERATIONS as HEALTH
from paydesk.http import openapi, reference
from paydesk.http.openapi_webhooks import WEBHOOKS
from paydesk.http.retired import DESCRIBED
from paydesk.oauth.operations import OPERATIONS as OAUTH
from paydesk.oauth.pages.operations import OPERATIONS as PAGES
from paydesk.oauth.user import OPERATION as USER
from paydesk.operation import Operation
from paydesk.operators.operations import OPERATIONS as OPERATORS
from paydesk.orders.operations import OPERATIONS as ORDERS
from paydesk.payments.operations import OPERATIONS as PAYMENTS
from paydesk.printing.operations import OPERATIONS as PRINTING
from paydesk.sandbox.operations import OPERATIONS as SANDBOX
from paydesk.sandbox.operations import SIMULATION
from paydesk.sandbox.virtual.operations import OPERATIONS as VIRTUAL_TERMINALS
from paydesk.terminals.operations import OPERATIONS as TERMINALS
from paydesk.web import assets

_ROWS: tuple[Operation, ...] = (
    *OAUTH,
    *PAGES,
    *assets.operations(assets.SHARED),
    *ORDERS,
    *PAYMENTS,
    *SIMULATION,
    *EVENTS,
    *TERMINALS,
    *PRINTING,
    USER,
    *DEVICE,
    *OPERATORS,
    *SANDBOX,
    *VIRTUAL_TERMINALS,
    *HEALTH,
)

DOCUMENTED: tuple[Operation, ...] = (*_ROWS, *reference.rows(_ROWS))
"""What the OpenAPI documents and the docs describe: all but the console, which is no interface for programs."""

OPERATIONS: tuple[Operation, ...] = (*DOCUMENTED, *CONSOLE)


def openapi_json() -> str:
    """Return the OpenAPI 3.1 document of all operations and notifications."""
    return openapi.as_json(openapi.document(DOCUMENTED, DESCRIBED, WEBHOOKS), indent=1) + "\n"
