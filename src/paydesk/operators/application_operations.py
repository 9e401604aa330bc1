"""The endpoints of operators about applications and their secrets."""

from __future__ import annotations

from paydesk.core.errors import IN_USE
from paydesk.core.ids import NUMBER_PATTERN, ULID_PATTERN
from paydesk.operators import applications, errors, schemas
from paydesk.operators.noun import Noun, creating, listing

_APPLICATION = Noun(
    "applications/{client_id}",
    "application",
    NUMBER_PATTERN,
    applications.ApplicationWithSecrets,
    errors.APPLICATION_NOT_FOUND,
)
_SECRET = Noun(
    "applications/{client_id}/secrets/{secret_id}",
    "secret",
    f"^{ULID_PATTERN}$",
    applications.ApplicationWithSecrets,
    errors.APPLICATION_NOT_FOUND,
)

OPERATIONS = (
    listing("applications", applications.PAGES),
    creating(
        "applications",
        applications.create,
        schemas.ApplicationRequest,
        applications.NewApplication,
        summary="Register an application",
        description="The response contains the secret, which is not shown again.",
    ),
    _APPLICATION.reading(applications.get, summary="Get an application with the ids and dates of its secrets"),
    _APPLICATION.changing(applications.change, schemas.ApplicationChange, summary="Change an application"),
    _APPLICATION.deleting(
        applications.delete,
        summary="Delete an application that nothing uses",
        status=204,
        answer=None,
        errors=(IN_USE,),
        description=(
            "Not while it has subscriptions, grants that are not withdrawn, or orders: `details` names them. Its"
            " secrets are deleted with it. An application with orders can be suspended."
        ),
    ),
    _APPLICATION.acting(
        "suspend",
        applications.suspend,
        summary="Suspend an application",
        description="It gets no tokens, and its tokens are refused. Suspending a suspended application has no effect.",
    ),
    _APPLICATION.acting(
        "resume",
        applications.resume,
        summary="Resume a suspended application",
        description="The tokens that it had are accepted again.",
    ),
    creating(
        "applications/{client_id}/secrets",
        applications.add_secret,
        schemas.SecretRequest,
        applications.NewSecret,
        name="operator_create_secret",
        summary="Add a secret to an application",
        description=(
            "The response contains the secret, which is not shown again. The other secrets stay valid for"
            " `others_expire_in`; an application has at most five valid secrets."
        ),
        path_pattern=NUMBER_PATTERN,
        errors=(errors.APPLICATION_NOT_FOUND, errors.TOO_MANY_SECRETS),
    ),
    _SECRET.deleting(
        applications.remove_secret,
        summary="Remove a secret at once",
        answer=applications.ApplicationWithSecrets,
        errors=(errors.SECRET_NOT_FOUND,),
        description="The last one can be removed too; the application then gets no tokens until it has another.",
    ),
)
