"""What an owner does about operators: add, change, make a link for a new password, revoke, delete, end sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from urllib.parse import urlsplit

from paydesk.console import session_rows
from paydesk.console.actions import ActionForm, Done, Field, act, differing
from paydesk.console.api import Document
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import form, screen
from paydesk.core.ids import ULID_PATTERN
from paydesk.operation import Answer

HERE, SECTION = f"{PATH}/operators", "operators"
LINK_LABEL, TOKEN_LABEL = "Link", "Token"
LINK_NOTE = "The link is shown once. If it is lost, make a new one: it replaces this one."
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
ONLY_ON_THIS_MACHINE = (
    "It works only on the machine of the service: for browsers elsewhere, set operator_public_url and make a new one."
)
_ROLES = (
    ("viewer", "viewer: reads"),
    ("support", "support: reads, and sends notifications again"),
    ("operator", "operator: everything but operators"),
    ("owner", "owner: everything, operators too"),
)
_DEFAULT_ROLE = "operator"


@screen
async def add_person(request: ConsoleRequest) -> Answer:
    """Add a person, and show the link to set a password once."""
    action = _form(
        request,
        "Add a person",
        "You get a link to pass on. The person opens it, chooses a password, and is signed in.",
        fields=(
            Field("name", "Name", maxlength=100),
            Field("email", "E-mail address", "email", maxlength=320, hint="To sign in with. No e-mail is sent to it."),
            _role(_DEFAULT_ROLE),
        ),
        submit="Add the person",
    )

    async def work(sent: Mapping[str, str]) -> Done:
        body = {"name": sent["name"], "email": sent["email"], "role": sent["role"]}
        made = await request.api.post("operators", body=body)
        text = f"{made['name']} is added with the role {made['role']}. Send this link to {made['name']}"
        text = f"{text}, who sets a password with it."
        url, expires = made["password_url"], made["password_expires_date"]
        return _link_done(text, url, expires, path_of(made["operator_id"]))

    return await act(request, action, work)


@screen
async def add_program(request: ConsoleRequest) -> Answer:
    """Add a program, and show its token once."""
    action = _form(
        request,
        "Add a program",
        "It gets a token for /operator/v1 and the command line. The token is shown once, on the next page.",
        fields=(Field("name", "Name", maxlength=100, hint="Such as the script or the server."), _role(_DEFAULT_ROLE)),
        submit="Add the program",
    )

    async def work(sent: Mapping[str, str]) -> Done:
        made = await request.api.post("operators", body={"name": sent["name"], "role": sent["role"]})
        text = f"{made['name']} is added with the role {made['role']}. The command line reads the token from"
        return Done(
            f"{text} PAYDESK_OPERATOR_TOKEN.",
            secret=made["token"],
            secret_label=TOKEN_LABEL,
            path=path_of(made["operator_id"]),
        )

    return await act(request, action, work)


@screen
async def change(request: ConsoleRequest) -> Answer:
    """Change the name, the role or the e-mail address of an operator."""
    operator = await request.api.get("operators/{}", request.path)
    email = operator.get("email", "")
    action = _about(
        request,
        operator,
        f"Change {operator['name']}",
        "A new role applies from the next request on. A new e-mail address ends an open link.",
        fields=(
            Field("name", "Name", value=operator["name"], maxlength=100),
            Field(
                "email",
                "E-mail address",
                "email",
                email,
                maxlength=320,
                required=bool(email),
                hint="" if email else "With one, you can make a link to set a password for the console.",
            ),
            _role(operator["role"]),
        ),
        submit="Save",
        is_change=True,
    )

    async def work(sent: Mapping[str, str]) -> Done:
        wanted = differing(action, sent)
        if not wanted:
            return Done("Nothing has changed.")
        changed = await request.api.patch("operators/{}", operator["operator_id"], body=wanted)
        return Done(f"{changed['name']} is changed.")

    return await act(request, action, work)


@screen
async def make_link(request: ConsoleRequest) -> Answer:
    """Make a link to set a password, and show it once."""
    operator = await request.api.get("operators/{}", request.path)
    name = operator["name"]
    kept = f" {name} can sign in as before until it is used; then all sessions end." if operator["has_password"] else ""
    action = _about(
        request,
        operator,
        f"New link for {name}",
        f"You get a link to pass on, with which {name} sets a password. It is valid once, for 24 h, and replaces"
        f" earlier ones.{kept}",
        submit="Make the link",
    )

    async def work(_: Mapping[str, str]) -> Done:
        made = await request.api.post("operators/{}/password-link", operator["operator_id"])
        text = f"Send this link to {name}, who sets a password with it."
        return _link_done(text, made["url"], made["expires_date"], path_of(operator["operator_id"]))

    return await act(request, action, work)


@screen
async def revoke(request: ConsoleRequest) -> Answer:
    """Revoke an operator."""
    operator = await request.api.get("operators/{}", request.path)
    name, is_own = operator["name"], operator["operator_id"] == request.operator.operator_id
    action = _about(
        request,
        operator,
        "Revoke yourself" if is_own else f"Revoke {name}",
        f"{'You are' if is_own else f'{name} is'} signed out everywhere at once, and can never sign in or send a"
        " request again. This cannot be undone.",
        "What was done stays in the audit trail.",
        submit="Revoke",
        danger=True,
    )

    async def work(_: Mapping[str, str]) -> Done:
        await request.api.post("operators/{}/revoke", operator["operator_id"])
        return Done(f"{name} is revoked.")

    return await act(request, action, work)


@screen
async def delete(request: ConsoleRequest) -> Answer:
    """Delete an operator who has changed nothing."""
    operator = await request.api.get("operators/{}", request.path)
    name = operator["name"]
    action = _about(
        request,
        operator,
        f"Delete {name}",
        f"{name} is signed out everywhere at once, and is not listed any more. This cannot be undone.",
        "Only an operator who has changed nothing can be deleted: the audit trail names its authors.",
        submit="Delete",
        danger=True,
    )

    async def work(_: Mapping[str, str]) -> Done:
        await request.api.delete("operators/{}", operator["operator_id"])
        return Done(f"{name} is deleted.", path=HERE)

    return await act(request, action, work)


@screen
async def end_sessions(request: ConsoleRequest) -> Answer:
    """End all sessions of an operator."""
    operator = await request.api.get("operators/{}", request.path)
    name = operator["name"]
    action = _about(
        request,
        operator,
        f"Sign {name} out",
        f"All sessions of {name} end. Every browser must sign in again; the password stays.",
        submit="End all sessions",
    )

    async def work(_: Mapping[str, str]) -> Done:
        count = (await request.api.delete("sessions", operator=operator["operator_id"]))["ended"]
        return Done(f"One session of {name} has ended." if count == 1 else f"{count} sessions of {name} have ended.")

    return await act(request, action, work)


@screen
async def end_session(request: ConsoleRequest) -> Answer:
    """End one session, from the list of all."""
    return await session_rows.end(request, request.path, back=HERE, section=SECTION, permitted=request.is_owner)


@screen
async def end_session_of_one(request: ConsoleRequest) -> Answer:
    """End one session, from the page of its operator."""
    operator_id, session_id = request.call.paths
    permitted = request.is_owner or operator_id.upper() == request.operator.operator_id
    return await session_rows.end(request, session_id, back=path_of(operator_id), section=SECTION, permitted=permitted)


def path_of(operator_id: str) -> str:
    """Return the path of the page of an operator."""
    return f"{HERE}/{operator_id}"


def _form(request: ConsoleRequest, title: str, *says: str, fields: Sequence[Field], submit: str) -> ActionForm:
    return ActionForm(title, says, HERE, SECTION, submit, fields, permitted=request.is_owner)


def _about(
    request: ConsoleRequest,
    operator: Document,
    title: str,
    *says: str,
    submit: str,
    fields: Sequence[Field] = (),
    danger: bool = False,
    is_change: bool = False,
) -> ActionForm:
    back, permitted = path_of(operator["operator_id"]), request.is_owner
    return ActionForm(title, says, back, SECTION, submit, fields, danger, permitted, is_change=is_change)


def _role(now: str) -> Field:
    return Field("role", "Role", "select", now, _ROLES)


def _link_done(text: str, url: str, expires: str, path: str) -> Done:
    warning = LINK_NOTE if urlsplit(url).hostname not in LOOPBACK_NAMES else f"{LINK_NOTE} {ONLY_ON_THIS_MACHINE}"
    return Done(f"{text} It is valid once, until {expires}.", path, url, LINK_LABEL, warning)


_form_of_one = partial(form, path_pattern=f"^{ULID_PATTERN}$")
_ONE = "/operators/{operator_id}"
OF_ALL = (
    *form("/operators/add-person", "operator_add_person", "Add an operator who is a person", add_person),
    *form("/operators/add-program", "operator_add_program", "Add an operator that is a program", add_program),
    *_form_of_one("/operators/sessions/{session_id}/end", "operators_end_session", "End a session", end_session),
)
OF_ONE = (
    *_form_of_one(f"{_ONE}/change", "operator_change", "Change an operator", change),
    *_form_of_one(f"{_ONE}/link", "operator_link", "Make a link to set a password", make_link),
    *_form_of_one(f"{_ONE}/revoke", "operator_revoke", "Revoke an operator", revoke),
    *_form_of_one(f"{_ONE}/delete", "operator_delete", "Delete an operator", delete),
    *_form_of_one(f"{_ONE}/sessions/end", "operator_end_sessions", "End all sessions of an operator", end_sessions),
    *_form_of_one(
        f"{_ONE}/sessions/{{session_id}}/end",
        "operator_end_session",
        "End a session of an operator",
        end_session_of_one,
    ),
)
