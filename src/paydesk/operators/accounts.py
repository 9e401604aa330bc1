"""The endpoints for applications, sellers and operator accounts."""

from __future__ import annotations

from paydesk.core.ids import ULID_PATTERN
from paydesk.operators import applications, operator_accounts, sellers
from paydesk.operators.errors import (
    APPLICATION_NOT_FOUND,
    EMAIL_TAKEN,
    OPERATOR_NOT_FOUND,
    SECRET_NOT_FOUND,
    SELLER_NOT_FOUND,
    TOO_MANY_SECRETS,
)
from paydesk.operators.rows import Resource, creating, listing
from paydesk.operators.schemas import (
    ApplicationChange,
    ApplicationRequest,
    OperatorRequest,
    PasswordRequest,
    SecretRequest,
    SellerChange,
    SellerRequest,
)

_NUMBER = "^[0-9]{1,18}$"
_ULID = f"^{ULID_PATTERN}$"

_APPLICATION = Resource(
    "applications/{client_id}", "application", _NUMBER, applications.ApplicationWithSecrets, APPLICATION_NOT_FOUND
)
_SECRET = Resource(
    "applications/{client_id}/secrets/{secret_id}",
    "secret",
    _ULID,
    applications.ApplicationWithSecrets,
    APPLICATION_NOT_FOUND,
)
_SELLER = Resource("sellers/{user_id}", "seller", _NUMBER, sellers.SellerDocument, SELLER_NOT_FOUND)
_OPERATOR = Resource(
    "operators/{operator_id}", "operator", _ULID, operator_accounts.OperatorDocument, OPERATOR_NOT_FOUND
)

APPLICATIONS = (
    listing("applications", applications.PAGES),
    creating(
        "applications",
        applications.create,
        ApplicationRequest,
        applications.NewApplication,
        summary="Register an application",
        description="The response contains the secret, which is not shown again.",
    ),
    _APPLICATION.reading(applications.get, "Get an application with the ids and dates of its secrets"),
    _APPLICATION.changing(applications.change, ApplicationChange, "Change an application"),
    _APPLICATION.acting(
        "suspend",
        applications.suspend,
        "Suspend an application",
        description="It gets no tokens, and its tokens are refused. Suspending a suspended application has no effect.",
    ),
    _APPLICATION.acting(
        "resume",
        applications.resume,
        "Resume a suspended application",
        description="The tokens that it had are accepted again.",
    ),
    creating(
        "applications/{client_id}/secrets",
        applications.add_secret,
        SecretRequest,
        applications.NewSecret,
        name="operator_create_secret",
        summary="Add a secret to an application",
        description=(
            "The response contains the secret, which is not shown again. The other secrets stay valid for"
            " `others_expire_in`; an application has at most five valid secrets."
        ),
        path_pattern=_NUMBER,
        errors=(APPLICATION_NOT_FOUND, TOO_MANY_SECRETS),
    ),
    _SECRET.deleting(
        applications.remove_secret,
        "Remove a secret at once",
        errors=(SECRET_NOT_FOUND,),
        description="The last one can be removed too; the application then gets no tokens until it has another.",
    ),
)

SELLERS = (
    listing("sellers", sellers.PAGES),
    creating(
        "sellers",
        sellers.create,
        SellerRequest,
        sellers.NewSeller,
        summary="Register a seller",
        description="Without `password` one is generated; the response contains it, and it is not shown again.",
        transaction="none",
        errors=(EMAIL_TAKEN,),
    ),
    _SELLER.reading(sellers.get, "Get a seller"),
    _SELLER.changing(sellers.change, SellerChange, "Change a seller", EMAIL_TAKEN),
    _SELLER.acting(
        "password",
        sellers.set_password,
        "Replace a seller's password",
        answer=sellers.NewPassword,
        body=PasswordRequest,
        transaction="none",
        description=(
            "Without `password` one is generated; the response contains it, and it is not shown again. All sessions of"
            " the seller end. Applications keep their tokens, unless `withdraw_all` withdraws every authorization of"
            " the seller: each application then gets `application.deauthorized`."
        ),
    ),
    _SELLER.acting(
        "suspend",
        sellers.suspend,
        "Suspend a seller",
        description=(
            "Applications get no tokens for the seller, the tokens that they have are refused, and all sessions of the"
            " seller end. Suspending a suspended seller has no effect."
        ),
    ),
    _SELLER.acting(
        "resume",
        sellers.resume,
        "Resume a suspended seller",
        description="The tokens that applications had are accepted again.",
    ),
)

OPERATORS = (
    listing("operators", operator_accounts.PAGES),
    creating(
        "operators",
        operator_accounts.create,
        OperatorRequest,
        operator_accounts.NewOperator,
        summary="Add an operator",
        description="For owners only. The response contains the token, which is not shown again.",
    ),
    _OPERATOR.acting(
        "revoke",
        operator_accounts.revoke,
        "Revoke an operator's token",
        description="For owners only; takes effect at once. Revoking a revoked token has no effect.",
    ),
)

ROWS = (*APPLICATIONS, *SELLERS, *OPERATORS)
