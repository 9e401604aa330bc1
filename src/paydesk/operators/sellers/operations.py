"""The operations and words of sellers."""

from __future__ import annotations

from paydesk.core.errors import IN_USE, SELLER_NOT_FOUND
from paydesk.core.ids import NUMBER_PATTERN
from paydesk.core.text.sentences import First, When
from paydesk.operators import errors
from paydesk.operators.noun import Noun
from paydesk.operators.sellers import fields, handlers
from paydesk.operators.words import Column, Once, Words

_SELLER = Noun(
    "sellers/{user_id}",
    "seller",
    NUMBER_PATTERN,
    handlers.SellerDocument,
    SELLER_NOT_FOUND,
    example="1160535239",
    argument={"user_id": "The seller, see `paydesk sellers list`."},
    generic={"name": "the seller"},
)
_SHOWN_ONCE = "The password is shown once. If it is lost, make a new one: it replaces this one."

LIST = _SELLER.listing(
    handlers.PAGES,
    words=Words(
        "Sellers",
        says="By user_id.",
        columns=(
            Column("name", "Name", style="what", at=3),
            Column("suspended_date", "State", "suspended", at=7),
            Column("user_id", "Seller id", style="mono", at=1),
            Column("email", "E-mail address", style="email", at=2),
            Column("country", "Country", at=4),
            Column("currency", "Currency", at=5),
            Column("created_date", "Added", "time", style="nowrap", label="added", at=6),
        ),
        examples=("",),
    ),
)
ADD = _SELLER.creating(
    handlers.create,
    fields.SellerRequest,
    handlers.NewSeller,
    description="Without `password` one is generated; the response contains it, and it is not shown again.",
    transaction="none",
    errors=(errors.EMAIL_TAKEN,),
    words=Words(
        "Add a seller",
        says="The seller gets an account, with which to authorize applications. Terminals are paired with it, and"
        " take its orders.",
        done=(
            When(
                "answer.password",
                "{answer[name]} is added. Pass this password on: the seller signs in with it and {answer[email]}.",
                otherwise="{answer[name]} is added, and signs in with {answer[email]} and the password.",
            ),
        ),
        submit="Add the seller",
        once=Once("password", "Password", _SHOWN_ONCE),
        fields=("name", "email", "country", "currency", "password"),
        checks=fields.currency_of_country,
        examples=(
            "--email ana@shop.example --name 'Corner shop' --country BRA --currency BRL",
            "--email ana@shop.example --name 'Corner shop' --password-stdin < password.txt",
        ),
    ),
)
OPERATIONS = (
    LIST,
    ADD,
    _SELLER.reading(handlers.get, words=Words("Show {name}")),
    _SELLER.changing(
        handlers.change,
        fields.SellerChange,
        errors=(errors.EMAIL_TAKEN,),
        words=Words(
            "Change {name}",
            says=(
                "The seller signs in with the new e-mail address from now on, and stays signed in.",
                "Country and currency cannot change, because orders depend on them.",
            ),
            done="{name} is changed.",
            submit="Save",
            repeatable=True,
            fields=("name", "email"),
            examples=("1160535239 --email ana@shop.example --name 'Ana'",),
        ),
    ),
    _SELLER.deleting(
        handlers.delete,
        errors=(IN_USE,),
        description="Not while the seller has terminals, stores, grants that are not withdrawn, notifications that are"
        " not delivered, or orders: `details` names them. A seller with orders can be suspended.",
        words=Words(
            "Delete {name}",
            says=(
                "{name} is signed out at once, and is no longer listed. This cannot be undone.",
                "Only a seller that was added by mistake can be deleted: one without terminals, stores, orders,"
                " authorizations that are not withdrawn, and notifications that are not delivered. Suspend any other.",
            ),
            done="{name} is deleted.",
            submit="Delete the seller",
            danger=True,
            repeatable=True,
        ),
    ),
    _SELLER.acting(
        "password",
        handlers.set_password,
        answer=handlers.NewPassword,
        body=fields.PasswordRequest,
        transaction="none",
        description="Without `password` one is generated; the response contains it, and it is not shown again. All"
        " sessions of the seller end. Applications keep their tokens, unless `withdraw_all` withdraws every"
        " authorization of the seller: each application then gets `application.deauthorized`.",
        words=Words(
            "New password for {name}",
            says="The password that {name} has now is refused at once, and all sessions of the seller end.",
            done=(
                When(
                    "answer.password",
                    "Pass this password on: {name} signs in with it and {answer[email]}. All sessions have ended.",
                    otherwise="{name} has the new password, and is signed out everywhere.",
                ),
                First(
                    When("answer.withdrawn", "No authorization was withdrawn.", (0,)),
                    When("answer.withdrawn", "One authorization was withdrawn.", (1,)),
                    When("answer.withdrawn", "{answer[withdrawn]} authorizations were withdrawn."),
                    When("answer.authorizations", "No application is authorized.", (0,)),
                    When("answer.authorizations", "One authorization remains: applications keep their tokens.", (1,)),
                    "{answer[authorizations]} authorizations remain: applications keep their tokens.",
                ),
            ),
            next=When(
                "answer.authorizations",
                "List them with `paydesk grants list --seller {user_id}`; withdraw them with --withdraw-all.",
            ),
            did="Set the password of",
            submit="Set the password",
            once=Once("password", "Password", _SHOWN_ONCE),
            examples=("1160535239", "1160535239 --password-stdin < password.txt", "1160535239 --withdraw-all"),
        ),
    ),
    _SELLER.acting(
        "suspend",
        handlers.suspend,
        description="Applications get no tokens for the seller, the tokens that they have are refused, and all"
        " sessions of the seller end. Suspending a suspended seller has no effect.",
        words=Words(
            "Suspend {name}",
            says=(
                "All tokens for {name} are refused, so that applications can create no orders and read nothing. The"
                " seller is signed out, and cannot sign in. This applies at once, on other nodes within 5 s.",
                "Terminals stay connected, and open orders continue: the result of a payment is recorded.",
                "The tokens are kept. They are accepted again when the seller is resumed.",
            ),
            done="{name} is suspended. Tokens for this seller are refused.",
            next="Resume the seller with `paydesk sellers resume {user_id}`.",
            submit="Suspend the seller",
            impossible=When("suspended_date", "{name} is suspended already."),
            danger=True,
            repeatable=True,
        ),
    ),
    _SELLER.acting(
        "resume",
        handlers.resume,
        description="The tokens that applications had are accepted again.",
        words=Words(
            "Resume {name}",
            says="The tokens that applications had are accepted again, and the seller can sign in.",
            done="{name} is active again.",
            submit="Resume the seller",
            impossible=When("suspended_date", "", otherwise="{name} is not suspended."),
            repeatable=True,
        ),
    ),
)
