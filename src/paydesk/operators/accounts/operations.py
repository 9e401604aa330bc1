"""The operations and words of operators: accounts and passwords."""

from __future__ import annotations

from urllib.parse import urlsplit

from paydesk.core.errors import IN_USE, TOO_MANY_REQUESTS
from paydesk.core.ids import ULID_PATTERN
from paydesk.core.text.sentences import When
from paydesk.operators import errors, schemas
from paydesk.operators.accounts import fields, handlers
from paydesk.operators.accounts import passwords as operator_passwords
from paydesk.operators.documents import Document
from paydesk.operators.noun import ROWS, Noun
from paydesk.operators.words import Column, Once, Words

_EXAMPLE = "01J67CQQH5904WDBVZEM4JMEP3"
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_OPERATOR = Noun(
    "operators/{operator_id}",
    "operator",
    f"^{ULID_PATTERN}$",
    handlers.ShownOperator,
    errors.OPERATOR_NOT_FOUND,
    example=_EXAMPLE,
    argument={"operator_id": "The operator, see `paydesk operators list`."},
    generic={"name": "the operator"},
    facts=lambda names: {"is_own": names.get("operator_id") == names["caller_id"]},
)
_LINK_NOTE = (
    "The link is shown once. If it is lost, make a new one: it replaces this one.",
    When(
        "is_local",
        "It works only on the machine of the service: for browsers elsewhere, set operator_public_url and make a new"
        " one.",
    ),
)


def _reach(names: Document) -> Document:
    """Return whether the link in the answer works on the machine of the service alone."""
    answer = names.get("answer", {})
    url = answer.get("url") or answer.get("password_url") or ""
    return {"is_local": urlsplit(url).hostname in _LOOPBACK_NAMES}


LIST = _OPERATOR.listing(
    handlers.PAGES,
    words=Words(
        "Operators",
        says="By id, revoked ones included.",
        columns=(
            Column("name", "Name", "own", style="what", at=2),
            Column("revoked_date", "State", "operator_state", at=8),
            Column("role", "Role", "role", at=3),
            Column("email", "E-mail address", "email", style="email", at=4),
            Column("last_used_date", "Last use", "last_use", style="nowrap", label="last use", at=5),
            Column("created_date", "Added", "time", style="nowrap wide", at=7),
            Column("operator_id", at=1),
            Column("link_expires_date", at=6),
        ),
        examples=("--json",),
    ),
)
OPERATIONS = (
    LIST,
    _OPERATOR.creating(
        handlers.create,
        fields.OperatorRequest,
        handlers.NewOperator,
        role="owner",
        description="For owners only. A person has an `email`: the response contains the link with which the person"
        " sets the password for the console, once within 24 hours. A program has none: the response contains its"
        " token. Neither is shown again.",
        errors=(errors.EMAIL_TAKEN,),
        words=Words(
            "Add a person",
            says="You get a link to pass on. The person opens it, chooses a password, and is signed in.",
            done="{answer[name]} is added with the role {answer[role]}. Send this link to {answer[name]}, who sets a"
            " password with it. It is valid once, until {answer[password_expires_date]}.",
            submit="Add the person",
            once=Once("password_url", "Link", _LINK_NOTE),
            form="add-person",
            command=None,
            asks=fields.Person,
            facts=_reach,
            forms=(
                Words(
                    "Add a program",
                    says="It gets a token for /operator/v1 and the command line. The token is shown once.",
                    done="{answer[name]} is added with the role {answer[role]}. The command line reads the token from"
                    " PAYDESK_OPERATOR_TOKEN.",
                    submit="Add the program",
                    once=Once("token", "Token"),
                    form="add-program",
                    asks=fields.Program,
                ),
            ),
        ),
    ),
    _OPERATOR.reading(handlers.get, words=Words("Show {name}")),
    _OPERATOR.changing(
        handlers.change,
        fields.OperatorChange,
        role="owner",
        errors=(errors.LAST_OWNER, errors.EMAIL_TAKEN),
        description="For owners only. Only the fields that are sent change. The last owner with a token or a password"
        " keeps the role.",
        words=Words(
            "Change {name}",
            says="A new role applies from the next request on. A new e-mail address ends an open link.",
            done="{name} is changed.",
            submit="Save",
            fields=("name", "email", "role"),
            examples=(f"{_EXAMPLE} --role support", f"{_EXAMPLE} --name 'Ana Lima' --email ana@shop.example"),
        ),
    ),
    _OPERATOR.acting(
        "revoke",
        handlers.revoke,
        role="owner",
        errors=(errors.LAST_OWNER,),
        description="For owners only; the token, sessions and links are refused at once. Revoking a revoked operator"
        " has no effect. The last owner with a token or a password can't be revoked.",
        words=Words(
            "Revoke {name}",
            says=(
                "{name} is signed out everywhere at once, and can never sign in or send a request again. This cannot be"
                " undone.",
                When("is_own", "This is your own account."),
                "What was done stays in the audit trail.",
            ),
            done="{name} is revoked.",
            submit="Revoke",
            danger=True,
        ),
    ),
    _OPERATOR.acting(
        "password-link",
        handlers.create_link,
        role="owner",
        name="operator_create_password_link",
        status=201,
        answer=handlers.PasswordLink,
        errors=(errors.CANNOT_SIGN_IN,),
        description="For owners only, and for operators with an `email`. The link is valid once, within 24 hours, and"
        " replaces earlier ones. The password stays valid until the link is used; then all sessions of the"
        " operator end.",
        words=Words(
            "New link for {name}",
            says=(
                "You get a link to pass on, with which {name} sets a password. It is valid once, for 24 h, and replaces"
                " earlier ones.",
                When("has_password", "{name} can sign in as before until it is used; then all sessions end."),
            ),
            done="Send this link to {name}, who sets a password with it. It is valid once, until"
            " {answer[expires_date]}.",
            did="Made a link for",
            submit="Make the link",
            once=Once("url", "Link", _LINK_NOTE),
            form="link",
            command=None,
            facts=_reach,
        ),
    ),
    _OPERATOR.deleting(
        handlers.delete,
        role="owner",
        errors=(errors.LAST_OWNER, IN_USE),
        description="For owners only. An operator who is an author in the audit trail cannot be deleted, only revoked.",
        words=Words(
            "Delete {name}",
            says=(
                "{name} is signed out everywhere at once, and is no longer listed. This cannot be undone.",
                "Only an operator who has changed nothing can be deleted: the audit trail names its authors.",
            ),
            done="{name} is deleted.",
            submit="Delete",
            danger=True,
        ),
    ),
    ROWS.post(
        "password",
        "operator_change_own_password",
        operator_passwords.change_own,
        body=schemas.OwnPasswordRequest,
        answer=None,
        summary="Change one's own password",
        description="For every role. All sessions of the operator end, also that of this request.",
        transaction="none",
        role="every",
        status=204,
        errors=(errors.CANNOT_SIGN_IN, errors.WRONG_PASSWORD, TOO_MANY_REQUESTS),
    ),
)
