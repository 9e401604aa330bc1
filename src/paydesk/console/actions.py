"""Actions of operators: a form that says what will happen, the request to `/operator/v1`, and a notice of the result.

`act` handles both requests of `screen.form`: `GET` shows the form, as a page or in the dialog of another page; `POST`
sends the request. A refusal shows the form again with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paydesk.console.api import ApiRefused
from paydesk.console.field import Field
from paydesk.console.form_faults import broken, faults_of
from paydesk.console.request import ConsoleRequest
from paydesk.console.screen import problem, render
from paydesk.core import ids
from paydesk.platform.operation import Answer
from paydesk.platform.web import html

_AMOUNT = re.compile(r"[0-9]+(?:[.,][0-9]+)?", re.ASCII)
KEY = "idempotency_key"
"""The hidden field with the idempotency key: sending a form twice has one effect."""
ORIGINAL = "was:"
"""The start of the name of a hidden field, before that of the field whose first value it has."""
ORIGINAL_CHARACTERS_MAX = 8000
"""Maximum of a value that a form carries as original: a body has room for it and the longest list of redirect URIs."""


REASON_CHARACTERS_MAX = 500
REASON = Field(
    "reason",
    "Reason",
    maxlength=REASON_CHARACTERS_MAX,
    hint=f"Kept in the audit trail with your name. At most {REASON_CHARACTERS_MAX} characters.",
)


@dataclass(frozen=True, slots=True)
class ActionForm:
    """The form of an action: the effect, and the fields."""

    title: str
    says: Sequence[str]
    """The effect of the action, in sentences."""
    back: str
    """The path of the page that the action is about."""
    section: str
    submit: str = ""
    """The words on the button: a verb, and what it is done to. By default the title."""
    fields: Sequence[Field] = ()
    danger: bool = False
    permitted: bool | None = None
    """Whether the operator may do it; None: if the operator's role may change things."""
    impossible: str = ""
    """The reason why it can no longer be done, in a sentence; the form is then that sentence alone."""
    repeatable: bool = False
    """Whether sending it twice has one effect: by its idempotency key, or because it sets a state."""
    is_change: bool = False
    """Whether it changes what its fields show. It then carries those values, so that `differing` finds what the
    operator changed, and not what another operator changed in the meantime."""

    @property
    def stored(self) -> dict[str, str]:
        """The values of the fields as they are stored now, by name; without hidden fields and passwords."""
        return {one.name: one.value.strip() for one in self.fields if one.kind not in ("hidden", "password")}


@dataclass(frozen=True, slots=True)
class Done:
    """The result of an action: `text` is shown on the next page, at `path`; empty if that page shows it anyway.

    A `secret` is shown once, on a page of its own.
    """

    text: str
    path: str = ""
    secret: str = ""
    secret_label: str = ""
    warning: str = "This is shown once. Store it now."
    beside: Sequence[tuple[str, str]] = ()
    """Labels and values that are needed with the secret. They are no secrets."""
    tone: str = "ok"
    """The colour of the text: `bad` if it was done and did not have the result that was asked for."""


Work = Callable[[Mapping[str, str]], Awaitable[Done]]
Properties = Callable[[Mapping[str, str]], Mapping[str, Any]]
"""Returns the properties of a request that the values of fields stand for."""


async def act(request: ConsoleRequest, form: ActionForm, work: Work) -> Answer:
    """Show the form, or do its work. A role that is not permitted gets 403."""
    if not (request.may_change if form.permitted is None else form.permitted):
        return forbidden(request, form.section)
    if not request.is_sent:
        return show(request, form, {KEY: ids.uuid()})
    # A form that was made by hand can lack fields.
    empty = {field.name: "" for field in form.fields}
    sent = {KEY: ids.uuid(), **empty, **_originals(form), **request.sent}
    details = broken(form.fields, sent)
    if details and not form.impossible:
        message = "A field is not filled in correctly."
        return show(request, form, sent, request.refusal(400, "required_properties", message, *details))
    try:
        done = await work(sent)
    except ApiRefused as refused:
        return show(request, form, sent, refused)
    path = done.path or form.back
    if done.secret:
        return render(request, "secret.html", section=form.section, title=form.title, done=done, back=path)
    return request.with_notice(path, done.text, done.tone) if done.text else html.redirect(path)


def forbidden(request: ConsoleRequest, section: str) -> Answer:
    """Return the page for an operator whose role may not do this."""
    message = f"Your role, {request.operator.role}, may not do this."
    return problem(request, request.refusal(403, "forbidden", message), section)


def differing(form: ActionForm, sent: Mapping[str, str], properties: Properties = dict) -> dict[str, Any]:
    """Return the properties that differ from what the form showed, and from what is stored now.

    A value without its original, as in a form that was made by hand, is compared with what is stored. By default each
    field is a property.
    """
    stored = form.stored
    now = properties(stored)
    shown = properties({name: sent.get(f"{ORIGINAL}{name}", value) for name, value in stored.items()})
    wanted = properties({name: sent[name] for name in stored})
    return {name: value for name, value in wanted.items() if value not in (shown.get(name), now.get(name))}


def _originals(form: ActionForm) -> dict[str, str]:
    """Return the hidden fields with the values that the form shows."""
    return {f"{ORIGINAL}{name}": value for name, value in form.stored.items()} if form.is_change else {}


def decimal(request: ConsoleRequest, text: str, name: str = "amount") -> str:
    """Return an amount with a decimal point, also of a text with a decimal comma. Raises `ApiRefused`."""
    if _AMOUNT.fullmatch(text) is None:
        detail = f"'{name}' - must be a number such as 24.90"
        raise request.refusal(400, "property_value", "This is not an amount.", detail)
    return text.replace(",", ".")


def show(
    request: ConsoleRequest, form: ActionForm, values: Mapping[str, str], refused: ApiRefused | None = None
) -> Answer:
    """Return the form with these values; the reason of a refusal is at the field that it is about."""
    hidden = {name: values.get(name, value) for name, value in _originals(form).items()}
    return render(
        request,
        "action.html",
        section=form.section,
        title=form.title,
        part="form",
        form=form,
        faults=faults_of(form.fields, None if form.impossible else refused),
        values=values,
        originals={name: value for name, value in hidden.items() if len(value) <= ORIGINAL_CHARACTERS_MAX},
        refused=refused,
        key=values.get(KEY) or ids.uuid(),
    )
