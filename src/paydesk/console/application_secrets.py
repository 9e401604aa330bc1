"""The secrets of an application on the console: what is shown of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paydesk.console import view
from paydesk.console.api import Document
from paydesk.console.application_paths import path_of
from paydesk.console.request import ConsoleRequest
from paydesk.web.statuses import Look


@dataclass(frozen=True, slots=True)
class SecretRow:
    """One secret of an application. `remove` is the path of the form that removes it."""

    id: str
    look: Look
    is_valid: bool
    created_date: str
    expires_date: str | None
    remove: str


def rows_of(request: ConsoleRequest, application: Document) -> Sequence[SecretRow]:
    """Return the rows of the secrets of an application, the newest first."""
    return [_row_of(request, application, one) for one in reversed(application["secrets"])]


def _row_of(request: ConsoleRequest, application: Document, secret: Document) -> SecretRow:
    expires = secret.get("expires_date")
    is_valid = expires is None or view.instant_ms(expires) > request.now_ms
    look = Look("ok", "check", "Valid") if expires is None else Look("look", "clock", "Expires")
    return SecretRow(
        id=secret["id"],
        look=look if is_valid else Look("off", "dash", "Expired"),
        is_valid=is_valid,
        created_date=secret["created_date"],
        expires_date=expires,
        remove=f"{path_of(application['client_id'])}/secrets/{secret['id']}/remove",
    )
