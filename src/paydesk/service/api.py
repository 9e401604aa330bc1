"""The table of all operations, from which routing, authorization, OpenAPI and the docs are derived."""

from __future__ import annotations

from paydesk.engine.device.operations import OPERATIONS as DEVICE
from paydesk.engine.events.operations import OPERATIONS as EVENTS
from paydesk.engine.oauth.operations import OPERATIONS as OAUTH
from paydesk.engine.oauth.pages.operations import OPERATIONS as PAGES
from paydesk.engine.oauth.user import OPERATION as USER
from paydesk.engine.orders.openapi import WEBHOOKS
from paydesk.engine.orders.operations import OPERATIONS as ORDERS
from paydesk.engine.payments.refunds.operations import OPERATIONS as PAYMENTS
from paydesk.engine.printing.operations import OPERATIONS as PRINTING
from paydesk.engine.terminals.operations import OPERATIONS as TERMINALS
from paydesk.operators.operations import OPERATIONS as OPERATORS
from paydesk.platform.health.operations import OPERATIONS as HEALTH
from paydesk.platform.http.openapi import document as openapi
from paydesk.platform.http.openapi import reference
from paydesk.platform.http.refusals.retired import DESCRIBED
from paydesk.platform.operation import Operation
from paydesk.platform.web import assets
from paydesk.service.pages import OPERATIONS as CONSOLE
from paydesk_dev.operations import OPERATIONS as SANDBOX
from paydesk_dev.operations import SIMULATION
from paydesk_dev.virtual.operations import OPERATIONS as VIRTUAL_TERMINALS

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

DOCUMENTED: tuple[Operation, ...] = (*_ROWS, *reference.rows(_ROWS, WEBHOOKS))
"""What the OpenAPI documents and the docs describe: all but the console, which is no interface for programs."""

OPERATIONS: tuple[Operation, ...] = (*DOCUMENTED, *CONSOLE)


def openapi_json() -> str:
    """Return the OpenAPI 3.1 document of all operations and notifications."""
    return openapi.as_json(openapi.document(DOCUMENTED, DESCRIBED, WEBHOOKS), indent=1) + "\n"
