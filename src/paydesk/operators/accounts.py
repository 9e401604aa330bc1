"""The rows of whom a service deals with: applications, sellers, and the operators themselves."""

from __future__ import annotations

from paydesk.core.ids import ULID_PATTERN
from paydesk.operators import application_secrets, applications, operator_accounts, response_schemas, sellers
from paydesk.operators.errors import (
    APPLICATION_NOT_FOUND,
    EMAIL_TAKEN,
    OPERATOR_NOT_FOUND,
    SECRET_NOT_FOUND,
    SELLER_NOT_FOUND,
    TOO_MANY_SECRETS,
)
from paydesk.operators.rows import One, creating, listing
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

_APPLICATION = One(
    "applications/{client_id}", "application", _NUMBER, response_schemas.APPLICATION_WITH_SECRETS, APPLICATION_NOT_FOUND
)
_SECRET = One(
    "applications/{client_id}/secrets/{secret_id}",
    "secret",
    _ULID,
    response_schemas.APPLICATION_WITH_SECRETS,
    APPLICATION_NOT_FOUND,
)
_SELLER = One("sellers/{user_id}", "seller", _NUMBER, response_schemas.SELLER, SELLER_NOT_FOUND)
_OPERATOR = One("operators/{operator_id}", "operator", _ULID, response_schemas.OPERATOR, OPERATOR_NOT_FOUND)

APPLICATIONS = (
    listing("applications", applications.find_all, response_schemas.APPLICATION, key=(0,)),
    creating(
        "applications",
        applications.create,
        ApplicationRequest,
        response_schemas.NEW_APPLICATION,
        summary="Register an application",
        description="The secret is in this answer and nowhere else.",
    ),
    _APPLICATION.reading(applications.get, "An application, with what is known of its secrets"),
    _APPLICATION.changing(applications.change, ApplicationChange, "Change an application"),
    _APPLICATION.acting(
        "suspend",
        applications.suspend,
        "Suspend an application",
        description="It gets no tokens, and those that it has stop working. Suspending twice is as good as once.",
    ),
    _APPLICATION.acting(
        "resume", applications.resume, "Let a suspended application go on", description="With the tokens that it had."
    ),
    creating(
        "applications/{client_id}/secrets",
        application_secrets.add,
        SecretRequest,
        response_schemas.NEW_SECRET,
        name="operator_create_secret",
        summary="Give an application another secret",
        description=(
            "The secret is in this answer and nowhere else. The others stay good for as long as `others_expire_in`"
            " says; an application has at most five at once."
        ),
        path_pattern=_NUMBER,
        errors=(APPLICATION_NOT_FOUND, TOO_MANY_SECRETS),
    ),
    _SECRET.deleting(
        application_secrets.remove,
        "End a secret at once",
        errors=(SECRET_NOT_FOUND,),
        description="Also the last one; the application gets no tokens then until it has another.",
    ),
)

SELLERS = (
    listing("sellers", sellers.find_all, response_schemas.SELLER, key=(0,)),
    creating(
        "sellers",
        sellers.create,
        SellerRequest,
        response_schemas.NEW_SELLER,
        summary="Register a seller",
        description="Without a password one is made, which is in this answer and nowhere else.",
        transaction="none",
        errors=(EMAIL_TAKEN,),
    ),
    _SELLER.reading(sellers.get, "A seller"),
    _SELLER.changing(sellers.change, SellerChange, "Change a seller", (EMAIL_TAKEN,)),
    _SELLER.acting(
        "password",
        sellers.set_password,
        "Give a seller another password",
        answer=response_schemas.NEW_PASSWORD,
        body=PasswordRequest,
        transaction="none",
        description=(
            "Without a password one is made, which is in this answer and nowhere else. Every session of the seller"
            " ends. Applications keep their tokens, unless `withdraw_all` withdraws every authorization of the seller:"
            " each application then gets `application.deauthorized`."
        ),
    ),
    _SELLER.acting(
        "suspend",
        sellers.suspend,
        "Suspend a seller",
        description=(
            "Nobody gets tokens to act for the seller, those that there are stop working, and whoever is signed in as"
            " the seller is signed out. Suspending twice is as good as once."
        ),
    ),
    _SELLER.acting(
        "resume", sellers.resume, "Let a suspended seller go on", description="Applications have the tokens they had."
    ),
)

OPERATORS = (
    listing("operators", operator_accounts.find_all, response_schemas.OPERATOR, key=("",)),
    creating(
        "operators",
        operator_accounts.create,
        OperatorRequest,
        response_schemas.NEW_OPERATOR,
        summary="Let somebody else operate the service",
        description="For owners alone. The token is in this answer and nowhere else.",
    ),
    _OPERATOR.acting(
        "revoke",
        operator_accounts.revoke,
        "End an operator's token",
        description="For owners alone; it ends at once. Revoking twice is as good as once.",
    ),
)

ROWS = (*APPLICATIONS, *SELLERS, *OPERATORS)
