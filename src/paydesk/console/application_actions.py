"""What an operator does about applications: add, change, suspend, resume and delete one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from paydesk.console import application_secrets
from paydesk.console.actions import ActionForm, Done, Field, act, differing
from paydesk.console.api import ApiRefused, Document
from paydesk.console.application_paths import HERE, SECTION, form_about
from paydesk.console.application_secrets import SECRET_NOTE
from paydesk.console.request import ConsoleRequest
from paydesk.console.screen import form, screen
from paydesk.core.ids import NUMBER_PATTERN
from paydesk.oauth import scopes
from paydesk.operation import Answer

SCOPES: Mapping[str, str] = {
    scopes.READ: "see orders, payments and terminals",
    scopes.WRITE: "create, cancel and refund orders, and set up terminals",
    scopes.OFFLINE_ACCESS: "get refresh tokens, and so act while the seller is away",
}
"""What each scope permits."""
ON_REPLAY: Mapping[str, str] = {
    "revoke": "revoke all tokens of its family",
    "refuse": "refuse only that request",
}
"""What happens when a used refresh token is presented again, later than a retry."""

_SCOPE = "scope_"
"""Before the name of a scope: the checkbox that permits it."""
_URIS_MAX, _URI_CHARACTERS_MAX = 20, 2000
_LINE = re.compile(r"'\$\.redirect_uris\[([0-9]+)\]' - (.+)", re.DOTALL)
_DEFAULTS: Document = {
    "name": "",
    "redirect_uris": [],
    "scopes": " ".join(SCOPES),
    "pkce_required": False,
    "test_tokens": False,
    "on_replay": "revoke",
}
"""Of a new application, as of the command line."""


@screen
async def add(request: ConsoleRequest) -> Answer:
    """Add an application, and show its secret once."""
    action = ActionForm(
        "Add an application",
        (
            "It gets a client ID and a secret, which the next page shows. Sellers can authorize it from then on; until"
            " one does, it can do nothing.",
        ),
        HERE,
        SECTION,
        "Add the application",
        _fields(request, _DEFAULTS),
    )

    async def work(sent: Mapping[str, str]) -> Done:
        _check_scopes(request, sent)
        try:
            made = await request.api.post("applications", body=_wanted(sent))
        except ApiRefused as refused:
            raise _by_line(refused, sent["redirect_uris"]) from None
        return Done(
            f"{made['name']} is added. Give its developers both values.",
            f"{HERE}/{made['client_id']}",
            made["client_secret"],
            "Client secret",
            SECRET_NOTE,
            beside=(("Client ID", made["client_id"]),),
        )

    return await act(request, action, work)


@screen
async def change(request: ConsoleRequest) -> Answer:
    """Change an application: only what the operator changed is sent."""
    application = await request.api.get("applications/{}", request.path)
    action = form_about(
        application,
        f"Change {application['name']}",
        "Existing tokens lose a scope that you remove, and get it back if you add it again. Codes that were sent to a"
        " redirect URI that you remove become invalid. All nodes apply changes within 5 s.",
        submit="Save",
        repeatable=True,
        is_change=True,
        fields=_fields(request, application),
    )

    async def work(sent: Mapping[str, str]) -> Done:
        _check_scopes(request, sent)
        wanted = differing(action, sent, _wanted)
        if not wanted:
            return Done("Nothing has changed.")
        try:
            changed = await request.api.patch("applications/{}", application["client_id"], body=wanted)
        except ApiRefused as refused:
            raise _by_line(refused, sent["redirect_uris"]) from None
        return Done(f"{changed['name']} is changed.")

    return await act(request, action, work)


@screen
async def suspend(request: ConsoleRequest) -> Answer:
    """Suspend an application."""
    application = await request.api.get("applications/{}", request.path)
    name = application["name"]
    action = form_about(
        application,
        f"Suspend {name}",
        "It gets no tokens, and the tokens that it has are refused: it cannot read, create, cancel or refund orders."
        " Sellers cannot authorize it. All nodes apply this within 5 s.",
        "Open orders continue: the result of a payment on a terminal is recorded, and notifications are sent.",
        "Its tokens are kept, and are accepted again when you resume it.",
        submit="Suspend",
        danger=True,
        repeatable=True,
        impossible=f"{name} is suspended already." if "suspended_date" in application else "",
    )

    async def work(_: Mapping[str, str]) -> Done:
        await request.api.post("applications/{}/suspend", application["client_id"])
        return Done(f"{name} is suspended. It gets no tokens, and its tokens are refused.")

    return await act(request, action, work)


@screen
async def resume(request: ConsoleRequest) -> Answer:
    """Resume a suspended application."""
    application = await request.api.get("applications/{}", request.path)
    name = application["name"]
    action = form_about(
        application,
        f"Resume {name}",
        "It gets tokens again, and those that it had are accepted again unless they have expired. Sellers can"
        " authorize it.",
        submit="Resume",
        repeatable=True,
        impossible="" if "suspended_date" in application else f"{name} is not suspended.",
    )

    async def work(_: Mapping[str, str]) -> Done:
        await request.api.post("applications/{}/resume", application["client_id"])
        return Done(f"{name} is active again.")

    return await act(request, action, work)


@screen
async def delete(request: ConsoleRequest) -> Answer:
    """Delete an application that nothing uses."""
    application = await request.api.get("applications/{}", request.path)
    name = application["name"]
    action = form_about(
        application,
        f"Delete {name}",
        f"{name} and its secrets are deleted, and sellers can no longer authorize it. This cannot be undone.",
        "It is refused while the application has orders, subscriptions, or authorizations that are not withdrawn. One"
        " with orders can be suspended.",
        submit="Delete",
        danger=True,
        repeatable=True,
    )

    async def work(_: Mapping[str, str]) -> Done:
        await request.api.delete("applications/{}", application["client_id"])
        return Done(f"{name} is deleted.", HERE)

    return await act(request, action, work)


def _fields(request: ConsoleRequest, application: Document) -> Sequence[Field]:
    """Return the fields of an application, filled in with its values."""
    local = " In development also http to this machine." if request.development else ""
    permitted = application["scopes"].split()
    first, *others = (
        Field(
            f"{_SCOPE}{name}",
            f"{name}: {meaning}",
            "checkbox",
            "yes" if name in permitted else "",
            required=False,
            group="Scopes that it may request",
        )
        for name, meaning in SCOPES.items()
    )
    return (
        Field("name", "Name", value=application["name"], maxlength=100, hint="Sellers see it when they authorize it."),
        Field(
            "redirect_uris",
            "Redirect URIs",
            "textarea",
            "\n".join(application["redirect_uris"]),
            hint=f"Where codes are sent. One per line, https, compared character for character.{local}",
            maxlength=_URIS_MAX * (_URI_CHARACTERS_MAX + 2),
            noun="list of redirect URIs",
            rows=3,
        ),
        replace(first, noun="list of scopes", sets=("scopes",)),
        *others,
        Field(
            "pkce_required",
            "PKCE is required",
            "checkbox",
            "yes" if application["pkce_required"] else "",
            hint="Without it, only a challenge that is sent is verified.",
            required=False,
            group="Codes and tokens",
        ),
        Field(
            "test_tokens",
            "Test tokens unless it asks for live ones",
            "checkbox",
            "yes" if application["test_tokens"] else "",
            hint="For an application that cannot send test_token. Not for one with live sellers.",
            required=False,
            group="Codes and tokens",
        ),
        Field(
            "on_replay",
            "When a used refresh token is presented again",
            "select",
            application["on_replay"],
            tuple((choice, meaning[:1].upper() + meaning[1:]) for choice, meaning in ON_REPLAY.items()),
            hint="Revoking also stops an attacker who has a token; the seller must authorize the application again. A"
            " retry within the grace period gets the same tokens as before.",
            noun="choice",
        ),
    )


def _check_scopes(request: ConsoleRequest, sent: Mapping[str, str]) -> None:
    """Raise `ApiRefused` if no scope is chosen."""
    if not any(sent[f"{_SCOPE}{name}"] for name in SCOPES):
        detail = f"'{_SCOPE}{scopes.READ}' - must have at least one scope"
        raise ApiRefused(400, "property_value", "Choose a scope.", (detail,), request.call.request_id)


def _wanted(sent: Mapping[str, str]) -> dict[str, Any]:
    """Return the properties that the form sets."""
    return {
        "name": sent["name"],
        "redirect_uris": [uri for _, uri in _lines(sent["redirect_uris"])],
        "scopes": " ".join(name for name in sorted(SCOPES) if sent[f"{_SCOPE}{name}"]),
        "pkce_required": bool(sent["pkce_required"]),
        "test_tokens": bool(sent["test_tokens"]),
        "on_replay": sent["on_replay"],
    }


def _lines(text: str) -> list[tuple[int, str]]:
    """Return the lines that are not blank, each with its number."""
    return [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def _by_line(refused: ApiRefused, text: str) -> ApiRefused:
    """Return the refusal with the lines of redirect URIs in place of their positions in the request."""
    numbers = [number for number, _ in _lines(text)]

    def by_line(detail: str) -> str:
        found = _LINE.fullmatch(detail)
        if found is None or int(found[1]) >= len(numbers):
            return detail
        return f"'redirect_uris' - has a fault in line {numbers[int(found[1])]}: the address {found[2]}"

    details = [by_line(detail) for detail in refused.details]
    return ApiRefused(refused.status, refused.code, refused.message, details, refused.request_id)


_form_of_one = partial(form, path_pattern=NUMBER_PATTERN)
_ONE = "/applications/{client_id}"
OF_ALL = form("/applications/add", "application_add", "Add an application", add)
OF_ONE = (
    *_form_of_one(f"{_ONE}/change", "application_change", "Change an application", change),
    *_form_of_one(f"{_ONE}/suspend", "application_suspend", "Suspend an application", suspend),
    *_form_of_one(f"{_ONE}/resume", "application_resume", "Resume a suspended application", resume),
    *_form_of_one(f"{_ONE}/delete", "application_delete", "Delete an application", delete),
    *application_secrets.OPERATIONS,
)
