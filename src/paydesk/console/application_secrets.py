"""The secrets of an application on the console: what is shown of each, and the forms that add and remove one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paydesk.console import view
from paydesk.console.actions import Done, Field, act
from paydesk.console.api import Document
from paydesk.console.application_paths import form_about, path_of
from paydesk.console.request import ConsoleRequest
from paydesk.console.screen import form, screen
from paydesk.core.ids import ULID_PATTERN
from paydesk.operation import Answer
from paydesk.web.statuses import Look

KEPT = "kept"
OTHERS: Mapping[str, tuple[str, str]] = {
    KEPT: ("Valid until you remove them", "The other secrets stay valid until you remove them."),
    "24h": ("Valid for 24 hours", "The other secrets stay valid for 24 hours."),
    "7d": ("Valid for 7 days", "The other secrets stay valid for 7 days."),
    "0s": ("Invalid at once: use this if one has leaked", "The other secrets are not valid any more."),
}
"""How long the other secrets stay valid: the choice in the form, and the sentence after it."""
SECRET_NOTE = "The secret is shown once. If it is lost, add another one, and remove this one."  # noqa: S105 - a sentence


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


@screen
async def add(request: ConsoleRequest) -> Answer:
    """Add a secret to an application, and show it once."""
    application = await request.api.get("applications/{}", request.path)
    name, client_id = application["name"], application["client_id"]
    has_others = any(row.is_valid for row in rows_of(request, application))
    others = Field(
        "others_expire_in",
        "The other secrets",
        "select",
        "24h",
        tuple((choice, words) for choice, (words, _) in OTHERS.items()),
        hint="One that expires earlier already is not extended. At most five are valid at a time.",
        noun="time",
    )
    action = form_about(
        application,
        f"Add a secret to {name}",
        "The new secret is shown once, on the next page. The application gets tokens with each of its valid secrets.",
        "Access tokens that were issued before stay valid, whatever you choose. To stop those, suspend the application."
        if has_others
        else "It has no valid secret now, and so gets no tokens.",
        submit="Add the secret",
        fields=(others,) if has_others else (),
    )

    async def work(sent: Mapping[str, str]) -> Done:
        choice = sent.get(others.name, KEPT)
        body = {} if choice == KEPT else {others.name: choice}
        added = await request.api.post("applications/{}/secrets", client_id, body=body)
        then = f" {OTHERS[choice][1]}" if has_others and choice in OTHERS else ""
        text = f"The secret is added. Give it to the developers of {name}.{then}"
        return Done(text, "", added["client_secret"], "Client secret", SECRET_NOTE, beside=(("Client ID", client_id),))

    return await act(request, action, work)


@screen
async def remove(request: ConsoleRequest) -> Answer:
    """Remove a secret from an application."""
    sent_id, secret_id = request.call.paths
    application = await request.api.get("applications/{}", sent_id)
    name, rows = application["name"], rows_of(request, application)
    row = next((one for one in rows if one.id == secret_id.upper()), None)
    is_last = row is not None and row.is_valid and sum(one.is_valid for one in rows) == 1
    action = form_about(
        application,
        f"Remove secret {view.short(secret_id)}",
        "It becomes invalid: requests for tokens with it are refused."
        if row is None or row.is_valid
        else "It has expired already, and is not listed any more.",
        f"It is the last valid one: {name} gets no tokens until you add another."
        if is_last
        else "Tokens that were issued stay valid. To stop those, suspend the application.",
        "This cannot be undone.",
        submit="Remove the secret",
        danger=True,
        repeatable=True,
        impossible="" if row else "The application does not have this secret any more.",
    )

    async def work(_: Mapping[str, str]) -> Done:
        await request.api.delete("applications/{}/secrets/{}", application["client_id"], secret_id)
        then = f" {name} has no valid secret left, and gets no tokens until you add one." if is_last else ""
        return Done(f"Secret {view.short(secret_id)} is removed.{then}")

    return await act(request, action, work)


_ONE = "/applications/{client_id}/secrets"
OPERATIONS = (
    *form(f"{_ONE}/add", "application_secret_add", "Add a secret to an application", add),
    *form(
        f"{_ONE}/{{client_secret_id}}/remove",
        "application_secret_remove",
        "Remove a secret of an application",
        remove,
        path_pattern=f"^{ULID_PATTERN}$",
    ),
)
