"""The operations and words of applications and their secrets."""

from __future__ import annotations

from paydesk.core.errors import IN_USE
from paydesk.core.ids import NUMBER_PATTERN, ULID_PATTERN
from paydesk.core.text.sentences import First, When
from paydesk.operators import errors
from paydesk.operators.applications import fields, handlers
from paydesk.operators.documents import Document
from paydesk.operators.noun import Noun
from paydesk.operators.words import Column, Once, Words

_EXAMPLE = "3676047501096810"
_PAGE = "/applications/{client_id}"
APPLICATION = Noun(
    "applications/{client_id}",
    "application",
    NUMBER_PATTERN,
    handlers.ApplicationWithSecrets,
    errors.APPLICATION_NOT_FOUND,
    group="apps",
    example=_EXAMPLE,
    argument={"client_id": "The application, see `paydesk apps list`."},
    generic={"name": "the application"},
)
_SECRET = Noun(
    "applications/{client_id}/secrets/{secret_id}",
    "secret",
    f"^{ULID_PATTERN}$",
    handlers.ApplicationWithSecrets,
    errors.APPLICATION_NOT_FOUND,
    title="application",
    page=_PAGE,
    pages=_PAGE,
    forms=f"{_PAGE}/secrets/{{secret_id}}",
    read="applications/{client_id}",
)
_ONCE = Once(
    "client_secret",
    "Client secret",
    "The secret is shown once. If it is lost, add another one, and remove this one.",
    {"Client ID": "answer.client_id"},
)


def _validity(names: Document) -> Document:
    """Return which secrets of an application are valid now, and what that means for one of them."""
    valid = [one["id"] for one in names["secrets"] if one.get("expires_date", "9") > names["now"]]
    secret_id = names.get("secret_id", "")
    return {
        "has_valid": bool(valid),
        "short_id": f"{secret_id[:6]}…{secret_id[-4:]}",
        "is_listed": secret_id in (one["id"] for one in names["secrets"]),
        "is_valid": secret_id in valid,
        "is_last": valid == [secret_id],
    }


LIST = APPLICATION.listing(
    handlers.PAGES,
    words=Words(
        "Applications",
        says="By client_id.",
        columns=(
            Column("name", "Name", style="what", at=2),
            Column("suspended_date", "State", "suspended", at=8),
            Column("client_id", "Client ID", style="mono nowrap", at=1),
            Column("scopes", "Scopes", "scopes", style="scopes", at=4),
            Column("redirect_uris", "Redirect URIs", "uris", style="uri", at=3),
            Column("created_date", "Added", "time", style="nowrap wide r", at=7),
            Column("pkce_required", at=5),
            Column("test_tokens", at=6),
        ),
        examples=("", "--json"),
    ),
)
ADD = APPLICATION.creating(
    handlers.create,
    fields.ApplicationRequest,
    handlers.NewApplication,
    description="The response contains the secret, which is not shown again.",
    words=Words(
        "Add an application",
        says="It gets a client ID and a secret, which is shown once. Sellers can authorize it from then on; until"
        " one does, it can do nothing.",
        done="{answer[name]} is added. Give its developers both values.",
        submit="Add the application",
        once=_ONCE,
        fields=("name", "redirect_uris", "scopes", "pkce_required", "test_tokens", "on_replay"),
        examples=(
            "--name 'Corner shop' --redirect-uri https://shop.example/callback",
            "--name Kiosk --redirect-uri http://127.0.0.1:3000/cb --pkce-required --json",
            "--name 'Shop tests' --redirect-uri https://test.shop.example/callback --test-tokens",
        ),
    ),
)
OPERATIONS = (
    LIST,
    ADD,
    APPLICATION.reading(handlers.get, words=Words("Show {name}")),
    APPLICATION.changing(
        handlers.change,
        fields.ApplicationChange,
        words=Words(
            "Change {name}",
            says="Existing tokens lose a scope that you remove, and get it back if you add it again. Codes that were"
            " sent to a redirect URI that you remove become invalid. All nodes apply changes within 5 s.",
            done="{name} is changed.",
            submit="Save",
            repeatable=True,
            fields=("name", "redirect_uris", "scopes", "pkce_required", "test_tokens", "on_replay"),
            examples=(
                f"{_EXAMPLE} --name 'Corner shop'",
                f"{_EXAMPLE} --redirect-uri https://shop.example/a --redirect-uri https://shop.example/b",
                f"{_EXAMPLE} --pkce-required --on-replay refuse",
                f"{_EXAMPLE} --test-tokens on",
            ),
        ),
    ),
    APPLICATION.deleting(
        handlers.delete,
        errors=(IN_USE,),
        description="Not while it has subscriptions, grants that are not withdrawn, or orders: `details` names them."
        " Its secrets are deleted with it. An application with orders can be suspended.",
        words=Words(
            "Delete {name}",
            says=(
                "{name} and its secrets are deleted, and sellers can no longer authorize it. This cannot be undone.",
                "It is refused while the application has orders, subscriptions, or authorizations that are not"
                " withdrawn. One with orders can be suspended.",
            ),
            done="{name} is deleted.",
            submit="Delete",
            danger=True,
            repeatable=True,
        ),
    ),
    APPLICATION.acting(
        "suspend",
        handlers.suspend,
        description="It gets no tokens, and its tokens are refused. Suspending a suspended application has no effect.",
        words=Words(
            "Suspend {name}",
            says=(
                "It gets no tokens, and the tokens that it has are refused: it cannot read, create, cancel or refund"
                " orders. Sellers cannot authorize it. All nodes apply this within 5 s.",
                "Open orders continue: the result of a payment on a terminal is recorded, and notifications are sent.",
                "Its tokens are kept, and are accepted again when you resume it.",
            ),
            done="{name} is suspended. It gets no tokens, and its tokens are refused.",
            next="Resume it with `paydesk apps resume {client_id}`.",
            submit="Suspend",
            impossible=When("suspended_date", "{name} is suspended already."),
            danger=True,
            repeatable=True,
        ),
    ),
    APPLICATION.acting(
        "resume",
        handlers.resume,
        description="The tokens that it had are accepted again.",
        words=Words(
            "Resume {name}",
            says="It gets tokens again, and those that it had are accepted again unless they have expired. Sellers can"
            " authorize it.",
            done="{name} is active again.",
            submit="Resume",
            impossible=When("suspended_date", "", otherwise="{name} is not suspended."),
            repeatable=True,
        ),
    ),
    APPLICATION.acting(
        "secrets",
        handlers.add_secret,
        name="operator_create_secret",
        status=201,
        body=fields.SecretRequest,
        answer=handlers.NewSecret,
        errors=(errors.TOO_MANY_SECRETS,),
        description="The response contains the secret, which is not shown again. The other secrets stay valid for"
        " `others_expire_in`; an application has at most five valid secrets.",
        words=Words(
            "Add a secret to {name}",
            says=(
                "The new secret is shown once. The application gets tokens with each of its valid secrets.",
                When(
                    "has_valid",
                    "Access tokens that were issued before stay valid, whatever you choose. To stop those, suspend the"
                    " application.",
                    otherwise="It has no valid secret now, and so gets no tokens.",
                ),
            ),
            done=(
                "The secret is added. Give it to the developers of {name}.",
                First(
                    When("answer.secrets.1", "", otherwise="It is the only one that is valid."),
                    When(
                        "answer.secrets.0.expires_date",
                        "The other secrets stay valid until they expire or are removed; the oldest expires on"
                        " {answer[secrets][0][expires_date]}.",
                        otherwise="The other secrets stay valid until you remove them.",
                    ),
                ),
            ),
            did="Added a secret to",
            audit="applications.secrets.add",
            submit="Add the secret",
            once=_ONCE,
            form="secrets/add",
            command="apps secrets add",
            facts=_validity,
            sends=lambda body, _: {name: value for name, value in body.items() if value != fields.KEPT},
            examples=(f"{_EXAMPLE} --others-expire-in 24h", f"{_EXAMPLE} --others-expire-in 0s --json"),
        ),
    ),
    _SECRET.deleting(
        handlers.remove_secret,
        answer=handlers.ApplicationWithSecrets,
        errors=(errors.SECRET_NOT_FOUND,),
        description="The last one can be removed too; the application then gets no tokens until it has another.",
        words=Words(
            "Remove secret {short_id}",
            says=(
                When(
                    "is_valid",
                    "It becomes invalid: requests for tokens with it are refused.",
                    otherwise="It has expired already, and is no longer listed.",
                ),
                When(
                    "is_last",
                    "It is the last valid one: {name} gets no tokens until you add another.",
                    otherwise="Tokens that were issued stay valid. To stop those, suspend the application.",
                ),
                "This cannot be undone.",
            ),
            done=(
                "Secret {short_id} is removed.",
                When(
                    "has_valid",
                    "",
                    otherwise="{name} has no valid secret left, and gets no tokens until you add one.",
                ),
            ),
            did="Removed a secret of",
            audit="applications.secrets.remove",
            submit="Remove the secret",
            impossible=When("is_listed", "", otherwise="The application no longer has this secret."),
            form="remove",
            command=None,
            danger=True,
            repeatable=True,
            facts=_validity,
        ),
    ),
)
