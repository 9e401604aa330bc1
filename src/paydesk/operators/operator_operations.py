"""The endpoints of operators about operators: accounts, passwords and sessions."""

from __future__ import annotations

from dataclasses import replace

from paydesk.core.errors import FORBIDDEN, IN_USE, PROPERTY_VALUE, TOO_MANY_REQUESTS
from paydesk.core.ids import ULID_PATTERN
from paydesk.operators import errors, operator_accounts, operator_passwords, operator_schemas, session_list
from paydesk.operators.noun import Noun, creating, listing

_ULID = f"^{ULID_PATTERN}$"
_OPERATOR = Noun(
    "operators/{operator_id}", "operator", _ULID, operator_accounts.ShownOperator, errors.OPERATOR_NOT_FOUND
)
_SESSION = Noun("sessions/{session_id}", "session", _ULID, None, errors.SESSION_NOT_FOUND)
_SESSIONS = Noun("sessions", "sessions", "", None, FORBIDDEN)

OPERATIONS = (
    listing("operators", operator_accounts.PAGES),
    creating(
        "operators",
        operator_accounts.create,
        operator_schemas.OperatorRequest,
        operator_accounts.NewOperator,
        summary="Add an operator",
        role="owner",
        description=(
            "For owners only. A person has an `email`: the response contains the link with which the person sets the"
            " password for the console, once within 24 hours. A program has none: the response contains its token."
            " Neither is shown again."
        ),
        errors=(errors.EMAIL_TAKEN,),
    ),
    _OPERATOR.reading(operator_accounts.get, summary="Get an operator"),
    replace(
        _OPERATOR.changing(
            operator_accounts.change,
            operator_schemas.OperatorChange,
            summary="Change an operator",
            role="owner",
            errors=(errors.LAST_OWNER, errors.EMAIL_TAKEN),
        ),
        description=(
            "For owners only. Only the fields that are sent change. The last owner with a token or a password keeps the"
            " role."
        ),
    ),
    _OPERATOR.acting(
        "revoke",
        operator_accounts.revoke,
        summary="Revoke an operator",
        role="owner",
        errors=(errors.LAST_OWNER,),
        description=(
            "For owners only; the token, sessions and links are refused at once. Revoking a revoked operator has no"
            " effect. The last owner with a token or a password can't be revoked."
        ),
    ),
    _OPERATOR.acting(
        "password-link",
        operator_accounts.create_link,
        summary="Create a link with which an operator sets a password",
        role="owner",
        name="operator_create_password_link",
        status=201,
        answer=operator_accounts.PasswordLink,
        errors=(errors.CANNOT_SIGN_IN,),
        description=(
            "For owners only, and for operators with an `email`. The link is valid once, within 24 hours, and replaces"
            " earlier ones. The password stays valid until the link is used; then all sessions of the operator end."
        ),
    ),
    _OPERATOR.deleting(
        operator_accounts.delete,
        summary="Delete an operator without changes in the audit trail",
        role="owner",
        status=204,
        answer=None,
        errors=(errors.LAST_OWNER, IN_USE),
        description="For owners only. An operator who is an author in the audit trail cannot be deleted, only revoked.",
    ),
    creating(
        "password",
        operator_passwords.change_own,
        operator_schemas.OwnPasswordRequest,
        None,
        name="operator_change_own_password",
        summary="Change one's own password",
        description="For every role. All sessions of the operator end, also that of this request.",
        transaction="none",
        role="every",
        status=204,
        errors=(errors.CANNOT_SIGN_IN, errors.WRONG_PASSWORD, TOO_MANY_REQUESTS),
    ),
    listing("sessions", session_list.PAGES, FORBIDDEN),
    _SESSION.deleting(
        session_list.end,
        summary="End a session",
        name="operator_end_session",
        status=204,
        role="every",
        description="Every role ends its own sessions, an owner those of others too.",
        errors=(FORBIDDEN,),
    ),
    replace(
        _SESSIONS.deleting(
            session_list.end_all,
            summary="End all sessions of an operator",
            name="operator_end_sessions",
            answer=session_list.EndedSessions,
            role="every",
            query=(session_list.OF_OPERATOR,),
            description="Without `operator` those of the caller; those of others, or of all, for owners only.",
        ),
        errors=(FORBIDDEN, PROPERTY_VALUE),
        path_pattern="",
    ),
)
