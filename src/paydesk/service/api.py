"""The operations of a service, from which routing, authorization, OpenAPI and the docs are derived."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from paydesk.engine.device.operations import OPERATIONS as DEVICE
from paydesk.engine.events.operations import OPERATIONS as EVENTS
from paydesk.engine.oauth.operations import OPERATIONS as OAUTH
from paydesk.engine.oauth.pages.operations import OPERATIONS as PAGES
from paydesk.engine.oauth.user import OPERATION as USER
from paydesk.engine.orders.openapi import WEBHOOKS
from paydesk.engine.orders.operations import OPERATIONS as ORDERS
from paydesk.engine.payments.refunds.operations import OPERATIONS as PAYMENTS
from paydesk.engine.payments.simulator.operations import OPERATIONS as SIMULATION
from paydesk.engine.printing.operations import OPERATIONS as PRINTING
from paydesk.engine.terminals.operations import OPERATIONS as TERMINALS
from paydesk.operators.operations import OPERATIONS as OPERATORS
from paydesk.platform.docs.operations import OPERATIONS as DOCS
from paydesk.platform.health.operations import OPERATIONS as HEALTH
from paydesk.platform.http.openapi import document as openapi
from paydesk.platform.http.openapi import documents
from paydesk.platform.metrics.operations import OPERATIONS as METRICS
from paydesk.platform.operation import Operation
from paydesk.platform.web import assets
from paydesk.service import pages

Operations = tuple[Operation, ...]

_OWN: Operations = (
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
    *HEALTH,
    *METRICS,
)


class Api:
    """The operations of Paydesk, with those that another distribution adds: `further`, and `screens` of the console.

    `extended` returns an operation whose answer has what that distribution adds to it.
    """

    def __init__(
        self,
        further: Operations = (),
        screens: Operations = (),
        extended: Callable[[Operation], Operation] = lambda row: row,
    ) -> None:
        assert not any(row.idempotent for row in further), "only the keys of Paydesk's own are pruned"
        self._own, self._screens = (*_OWN, *further), screens
        rows = tuple(map(extended, self._own))
        self.documented: Operations = (*rows, *documents.rows(rows, WEBHOOKS))
        """What the OpenAPI documents and the docs describe: all but the console, no interface for programs."""

    @cached_property
    def operations(self) -> Operations:
        """The documented operations, and those of the documentation and the console."""
        return (*self.documented, *DOCS, *pages.operations(self._own), *self._screens)

    def openapi_json(self, name: str = "applications", *, indent: int | None = 1) -> str:
        """Return the OpenAPI 3.1 document of that name."""
        return openapi.as_json(documents.described(name, self.documented, WEBHOOKS), indent=indent) + "\n"


OWN = Api()
"""The operations of `paydesk serve`."""
