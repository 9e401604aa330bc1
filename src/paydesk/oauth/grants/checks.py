"""The checks that both grants make of what is redeemed, and the answer that both give."""

from __future__ import annotations

from paydesk import operator_events
from paydesk.oauth import schemas
from paydesk.oauth.clients.application import Application
from paydesk.oauth.errors import INVALID_GRANT, INVALID_REQUEST, INVALID_SCOPE, TOKEN_FORBIDDEN, UNAUTHORIZED_CLIENT
from paydesk.oauth.schemas import TokenRequest
from paydesk.oauth.scopes import OFFLINE_ACCESS, includes, shared
from paydesk.oauth.store import Grant
from paydesk.oauth.tokens import Lifetimes, Pair
from paydesk.operation import Answer, Call
from paydesk.operator_events import Kind, OperatorEvent


def parameters_fit(request: TokenRequest, *, required: tuple[str, ...], foreign: tuple[str, ...]) -> None:
    """Refuse a request that lacks a parameter of its grant type, or has one of the other."""
    for name in required:
        if not getattr(request, name):
            raise INVALID_REQUEST.with_reason(f"{name} is missing")
    for name in foreign:
        if getattr(request, name):
            raise INVALID_REQUEST.with_reason(f"{name} is of the other flow")


def belongs_to(grant: Grant, application: Application) -> None:
    """Refuse what was given to another application."""
    if grant.application_id != application.application_id:
        raise INVALID_GRANT.with_reason("of another client")


def stands(grant: Grant, application: Application) -> None:
    """Refuse where the operator has suspended the seller, or the seller's consent does not stand any more."""
    if grant.seller_suspended_ms is not None:
        raise TOKEN_FORBIDDEN.with_reason("seller suspended")
    if grant.withdrawn_ms is not None:
        raise UNAUTHORIZED_CLIENT.with_reason("authorization withdrawn")
    if includes(grant.scope, OFFLINE_ACCESS) and not includes(application.scopes, OFFLINE_ACCESS):
        raise UNAUTHORIZED_CLIENT.with_reason("offline_access taken from the application")


def redirect_uri_registered(redirect_uri: str, application: Application) -> None:
    """Refuse an address that is not, or not any more, one of the application's."""
    if redirect_uri not in application.redirect_uris:
        raise INVALID_GRANT.with_reason("redirect_uri not registered")


def something_remains(scope: str, application: Application) -> None:
    """Refuse tokens whose scopes have all been taken from the application."""
    if not shared(scope, application.scopes):
        raise INVALID_SCOPE.with_reason("the application has none of these scopes any more")


def lifetimes(call: Call) -> Lifetimes:
    """How long the tokens live that are made now."""
    settings = call.settings
    return Lifetimes(settings.access_token_lifetime_seconds, settings.refresh_token_lifetime_seconds)


async def alert(call: Call, kind: Kind, grant: Grant, message: str) -> None:
    """Record for operators, with the revocation that this transaction commits, that a credential was replayed."""
    call.alert = OperatorEvent(
        kind,
        f"{grant.authorization_id}-{grant.seller_id}",
        message,
        grant.seller_id,
        {"application_id": grant.application_id, "address": call.address},
    )
    await operator_events.record(call.tx, call.alert, call.now_ms)


def answer(call: Call, application: Application, pair: Pair) -> Answer:
    """200 with the tokens (RFC 6749 section 5.1), which the adapter marks as not to be stored.

    Scopes that were taken from the application are left out. The tokens keep them, for when it has them again.
    """
    public_key = application.public_key(live=pair.family.live)
    scope = shared(pair.generation.scope, application.scopes)
    return Answer(200, schemas.body(pair, scope, public_key, call.now_ms))
