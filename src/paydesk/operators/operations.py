"""The endpoints of the operator interface, in the order of its documentation."""

from __future__ import annotations

from paydesk.operators.accounts.operations import OPERATIONS as OPERATORS
from paydesk.operators.acquirers.operations import OPERATIONS as ACQUIRERS
from paydesk.operators.applications.operations import OPERATIONS as APPLICATIONS
from paydesk.operators.attention.handlers import OPERATIONS as ATTENTION
from paydesk.operators.audit_trail.operations import OPERATIONS as AUDIT_TRAIL
from paydesk.operators.authorizations.operations import OPERATIONS as GRANTS
from paydesk.operators.orders.export.handlers import OPERATIONS as EXPORTS
from paydesk.operators.orders.operations import OPERATIONS as ORDERS
from paydesk.operators.overview.figures import OPERATIONS as FIGURES
from paydesk.operators.requests.operations import OPERATIONS as REQUESTS
from paydesk.operators.search.handlers import OPERATIONS as SEARCH
from paydesk.operators.sellers.operations import OPERATIONS as SELLERS
from paydesk.operators.sessions.operations import OPERATIONS as SESSIONS
from paydesk.operators.stores.operations import OPERATIONS as STORES
from paydesk.operators.subscriptions.operations import OPERATIONS as SUBSCRIPTIONS
from paydesk.operators.terminals.operations import OPERATIONS as TERMINALS

OPERATIONS = (
    *APPLICATIONS,
    *SELLERS,
    *OPERATORS,
    *SESSIONS,
    *REQUESTS,
    *GRANTS,
    *STORES,
    *TERMINALS,
    *SUBSCRIPTIONS,
    *ORDERS,
    *ACQUIRERS,
    *AUDIT_TRAIL,
    *SEARCH,
    *FIGURES,
    *ATTENTION,
    *EXPORTS,
)
