"""The refusals that only subscriptions meet."""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

SUBSCRIPTION_NOT_FOUND = ErrorKind("subscription_not_found", 404, "There is no such subscription.")
