"""The endpoints of the operator interface."""

from __future__ import annotations

from dataclasses import replace

from paydesk.core.errors import IN_USE, SELLER_NOT_FOUND
from paydesk.core.ids import ORDER_ID_PATTERN, ULID_PATTERN
from paydesk.operators import (
    applications,
    authorizations,
    codes,
    errors,
    history,
    operator_accounts,
    order_changes,
    orders,
    outcomes,
    schemas,
    sellers,
    stores,
    terminals,
)
from paydesk.operators.delivery_operations import OPERATIONS as DELIVERIES
from paydesk.operators.rows import Resource, creating, listing
from paydesk.operators.subscription_faults import OPERATIONS as SUBSCRIPTION_FAULTS
from paydesk.operators.subscription_operations import OPERATIONS as SUBSCRIPTIONS
from paydesk.operators.terminal_operations import OPERATIONS as TERMINAL_CHANGES
from paydesk.orders.errors import CANNOT_CANCEL_ORDER, ORDER_ALREADY_CANCELED, ORDER_NOT_FOUND
from paydesk.orders.operations import ALLOW_CANCELABLE_STATUS, CANCELED_EXAMPLE
from paydesk.orders.presentation import OrderDocument
from paydesk.payments.errors import (
    CANNOT_RESOLVE_ORDER,
    CANNOT_RESOLVE_REVERSAL,
    REFUND_ERRORS,
    REVERSAL_NOT_FOUND,
)
from paydesk.payments.refund import EXAMPLE as REFUND_EXAMPLE
from paydesk.payments.refund import RefundResponse
from paydesk.sandbox.virtual.errors import TOO_MANY_TERMINALS
from paydesk.sandbox.virtual.schemas import VirtualTerminal

_NUMBER = "^[0-9]{1,18}$"
_ULID = f"^{ULID_PATTERN}$"

_APPLICATION = Resource(
    "applications/{client_id}",
    "application",
    _NUMBER,
    applications.ApplicationWithSecrets,
    errors.APPLICATION_NOT_FOUND,
)
_SECRET = Resource(
    "applications/{client_id}/secrets/{secret_id}",
    "secret",
    _ULID,
    applications.ApplicationWithSecrets,
    errors.APPLICATION_NOT_FOUND,
)
_SELLER = Resource("sellers/{user_id}", "seller", _NUMBER, sellers.SellerDocument, SELLER_NOT_FOUND)
_OPERATOR = Resource(
    "operators/{operator_id}", "operator", _ULID, operator_accounts.OperatorDocument, errors.OPERATOR_NOT_FOUND
)
_GRANT = Resource("grants/{grant_id}", "grant", authorizations.ID_PATTERN, None, errors.AUTHORIZATION_NOT_FOUND)
_ORDER = Resource("orders/{order_id}", "order", ORDER_ID_PATTERN, OrderDocument, ORDER_NOT_FOUND)
_REVERSAL = Resource("reversals/{reversal_id}", "reversal", _ULID, outcomes.ReversalDocument, REVERSAL_NOT_FOUND)

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
    _APPLICATION.reading(applications.get, "Get an application with the ids and dates of its secrets"),
    _APPLICATION.changing(applications.change, schemas.ApplicationChange, "Change an application"),
    _APPLICATION.deleting(
        applications.delete,
        "Delete an application that nothing uses",
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
        schemas.SecretRequest,
        applications.NewSecret,
        name="operator_create_secret",
        summary="Add a secret to an application",
        description=(
            "The response contains the secret, which is not shown again. The other secrets stay valid for"
            " `others_expire_in`; an application has at most five valid secrets."
        ),
        path_pattern=_NUMBER,
        errors=(errors.APPLICATION_NOT_FOUND, errors.TOO_MANY_SECRETS),
    ),
    _SECRET.deleting(
        applications.remove_secret,
        "Remove a secret at once",
        errors=(errors.SECRET_NOT_FOUND,),
        description="The last one can be removed too; the application then gets no tokens until it has another.",
    ),
    listing("sellers", sellers.PAGES),
    creating(
        "sellers",
        sellers.create,
        schemas.SellerRequest,
        sellers.NewSeller,
        summary="Register a seller",
        description="Without `password` one is generated; the response contains it, and it is not shown again.",
        transaction="none",
        errors=(errors.EMAIL_TAKEN,),
    ),
    _SELLER.reading(sellers.get, "Get a seller"),
    _SELLER.changing(sellers.change, schemas.SellerChange, "Change a seller", errors.EMAIL_TAKEN),
    _SELLER.deleting(
        sellers.delete,
        "Delete a seller that nothing uses",
        status=204,
        answer=None,
        errors=(IN_USE,),
        description=(
            "Not while the seller has terminals, stores, grants that are not withdrawn, notifications that are not"
            " delivered, or orders: `details` names them. A seller with orders can be suspended."
        ),
    ),
    _SELLER.acting(
        "password",
        sellers.set_password,
        "Replace a seller's password",
        answer=sellers.NewPassword,
        body=schemas.PasswordRequest,
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
    listing("operators", operator_accounts.PAGES),
    creating(
        "operators",
        operator_accounts.create,
        schemas.OperatorRequest,
        operator_accounts.NewOperator,
        summary="Add an operator",
        description="For owners only. The response contains the token, which is not shown again.",
    ),
    _OPERATOR.reading(operator_accounts.get, "Get an operator"),
    replace(
        _OPERATOR.changing(operator_accounts.change, schemas.OperatorChange, "Change an operator", errors.LAST_OWNER),
        description="For owners only. Only the fields that are sent change. The last valid owner keeps the role.",
    ),
    _OPERATOR.acting(
        "revoke",
        operator_accounts.revoke,
        "Revoke an operator's token",
        errors=(errors.LAST_OWNER,),
        description=(
            "For owners only; takes effect at once. Revoking a revoked token has no effect. The last valid owner can't"
            " be revoked."
        ),
    ),
    _OPERATOR.deleting(
        operator_accounts.delete,
        "Delete an operator without changes in the audit trail",
        status=204,
        answer=None,
        errors=(errors.LAST_OWNER, IN_USE),
        description="For owners only. An operator who is an author in the audit trail cannot be deleted, only revoked.",
    ),
    listing("grants", authorizations.PAGES),
    _GRANT.deleting(
        authorizations.withdraw,
        "Withdraw a grant",
        name="operator_withdraw_grant",
        status=204,
        description=(
            "Has the effect of a withdrawal by the seller: the grant's codes and tokens are refused, and the"
            " application gets `application.deauthorized`. Open orders continue. Withdrawing a withdrawn grant has no"
            " effect."
        ),
    ),
    listing("stores", stores.STORE_PAGES),
    creating(
        "stores",
        stores.create_store,
        schemas.StoreRequest,
        stores.StoreDocument,
        summary="Add a store",
        errors=(SELLER_NOT_FOUND,),
    ),
    listing("pos", stores.POS_PAGES),
    creating(
        "pos",
        stores.create_pos,
        schemas.PosRequest,
        stores.PosDocument,
        summary="Add a point of sale",
        errors=(errors.STORE_NOT_FOUND, errors.EXTERNAL_POS_ID_TAKEN),
    ),
    listing("terminals", terminals.PAGES),
    creating(
        "terminals",
        terminals.create,
        schemas.TerminalRequest,
        VirtualTerminal,
        summary="Add a virtual terminal",
        description="It takes test orders at once, at a new point of sale unless `pos_id` is sent.",
        transaction="none",
        development=True,
        errors=(SELLER_NOT_FOUND, errors.POS_NOT_FOUND, errors.POS_TAKEN, TOO_MANY_TERMINALS),
    ),
    *TERMINAL_CHANGES,
    *SUBSCRIPTIONS,
    *SUBSCRIPTION_FAULTS,
    creating(
        "codes",
        codes.create,
        schemas.CodeRequest,
        codes.NewCode,
        summary="Issue an authorization code",
        description="The code is the one that the seller's consent would have issued.",
        development=True,
        errors=(errors.APPLICATION_NOT_FOUND, SELLER_NOT_FOUND),
    ),
    listing("orders", orders.PAGES),
    _ORDER.reading(
        history.get_order,
        "Get an order with its history and notifications",
        name="inspect_order",
        answer=history.InspectedOrder,
    ),
    *DELIVERIES,
    _ORDER.acting(
        "cancel",
        order_changes.cancel,
        "Cancel an order as an operator",
        body=schemas.CancelOrderRequest,
        description=(
            "By the rules of applications: an order at its terminal needs the extra header, and the response is 202."
            " The audit trail records the reason."
        ),
        further_statuses=(202,),
        idempotent=True,
        on_behalf=order_changes.as_seller,
        headers=(ALLOW_CANCELABLE_STATUS,),
        example=CANCELED_EXAMPLE,
        errors=(ORDER_ALREADY_CANCELED, CANNOT_CANCEL_ORDER),
    ),
    _ORDER.acting(
        "refund",
        order_changes.REFUND,
        "Refund an order as an operator, whole or in part",
        body=schemas.RefundOrderRequest,
        description=(
            "By the rules of applications. Without `transactions`, refunds all that remains of the payment. The audit"
            " trail records the reason."
        ),
        status=201,
        idempotent=True,
        on_behalf=order_changes.as_seller,
        answer=RefundResponse,
        example=REFUND_EXAMPLE,
        errors=REFUND_ERRORS,
    ),
    _ORDER.acting(
        "resolve",
        outcomes.resolve,
        "Set the outcome of an order whose outcome is unknown",
        body=schemas.ResolveRequest,
        description=(
            "For an order at `check_on_terminal` for at least three minutes, when neither the terminal nor the acquirer"
            " reports the outcome. The audit trail records the reason. An approval that is reported after the order was"
            " declined here is a late approval and is reversed."
        ),
        errors=(CANNOT_RESOLVE_ORDER,),
    ),
    listing("inquiries", outcomes.INQUIRY_PAGES),
    listing("reversals", outcomes.REVERSAL_PAGES),
    _REVERSAL.acting(
        "resolve",
        outcomes.resolve_reversal,
        "Set the outcome of an unconfirmed reversal",
        transaction="none",
        body=schemas.ResolveReversalRequest,
        description=(
            "For a reversal that the acquirer has not confirmed within three minutes of the late approval: `reversed`"
            " if the amount was reversed by other means, `not_found` if there is no payment to reverse. It is not"
            " retried. The audit trail records the reason."
        ),
        errors=(CANNOT_RESOLVE_REVERSAL,),
    ),
    listing("refunds", outcomes.REFUND_PAGES),
    listing("events", history.EVENT_PAGES),
)
