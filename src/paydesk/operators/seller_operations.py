"""The endpoints of operators about sellers."""

from __future__ import annotations

from paydesk.core.errors import IN_USE, SELLER_NOT_FOUND
from paydesk.core.ids import NUMBER_PATTERN
from paydesk.operators import errors, schemas, sellers
from paydesk.operators.rows import Resource, creating, listing

_SELLER = Resource("sellers/{user_id}", "seller", NUMBER_PATTERN, sellers.SellerDocument, SELLER_NOT_FOUND)

OPERATIONS = (
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
)
