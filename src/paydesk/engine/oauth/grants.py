"""The grant types of POST /oauth/token: exchange a code, or refresh (RFC 6749 sections 4.1.3 and 6).

A refresh issues the next generation of the family: each refresh token has exactly one successor. A used token replayed
within the grace period returns the same successor; later reuse revokes the token family.

A raised refusal changes nothing; a returned one is committed with the expiry or revocation that belongs to it.
"""

from __future__ import annotations

import base64
import hashlib

import msgspec

from paydesk.core.errors import Refusal
from paydesk.core.keys import Keys
from paydesk.core.secrets import same
from paydesk.engine.oauth import store, tokens
from paydesk.engine.oauth.clients.authentication import Application
from paydesk.engine.oauth.errors import (
    INVALID_GRANT,
    INVALID_SCOPE,
    TOKEN_FORBIDDEN,
    UNAUTHORIZED_CLIENT,
    invalid_parameter,
)
from paydesk.engine.oauth.schemas import TokenRequest
from paydesk.engine.oauth.scopes import OFFLINE_ACCESS, ScopeError, canonical, includes, shared
from paydesk.engine.oauth.store import Code, Credential, RefreshToken
from paydesk.engine.oauth.tokens import Lifetimes, Pair, TokenFamily
from paydesk.platform import operator_events
from paydesk.platform.operator_events import Kind, OperatorEvent
from paydesk.platform.storage.database import Transaction


class Redemption(msgspec.Struct):
    """The redemption of a code or refresh token by an authenticated client, in one transaction."""

    tx: Transaction
    now_ms: int
    request: TokenRequest
    application: Application
    address: str
    keys: Keys
    lifetimes: Lifetimes
    code_repeat_seconds: int
    refresh_repeat_seconds: int
    seller_id: int = 0
    """The seller of the code or token, once it is found."""
    alert: OperatorEvent | None = None
    """The recorded event of a replay that revoked a family."""

    async def exchange(self) -> Pair | Refusal:
        """Exchange the code. A refusal doesn't use up the code; reuse of an exchanged code may revoke its tokens."""
        request = self.request
        code = await store.find_code(self.tx, request.code)
        if code is None:
            raise INVALID_GRANT.with_reason("unknown code")
        self._check_client(code)
        check_authorization(code, self.application)
        if request.redirect_uri != code.redirect_uri:
            raise INVALID_GRANT.with_reason("redirect_uri differs")
        self._check_redirect_uri()
        _check_verifier(request.code_verifier, code.challenge)
        refusal = await self._refuse_used_or_expired(code)
        if refusal is not None:
            return refusal
        live = self._is_live(code)
        scope = narrow(code.scope, request.scope)
        self._check_scope(scope)
        family = TokenFamily(code.seller_id, tokens.new_family_id(), code.application_id, live, scope)
        if not await store.claim_code(self.tx, code.seller_id, request.code, family.family_id, self.now_ms):
            # A concurrent request has exchanged or expired the code: start over with the new row.
            return await self.exchange()
        return await store.begin_family(self.tx, self.keys, family, code.authorization_id, self.now_ms, self.lifetimes)

    async def refresh(self) -> Pair | Refusal:
        """Issue the successor of the token, or return the existing one. Only a refused replay or expiry is recorded."""
        request = self.request
        token = await store.find_refresh_token(self.tx, request.refresh_token)
        if token is None:
            raise INVALID_GRANT.with_reason("unknown refresh token")
        self._check_client(token)
        # A malformed request, so this precedes other checks.
        if request.wants_test is not None and request.wants_test == token.live:
            raise invalid_parameter(
                "test_token differs from the family's mode",
                "test_token",
                "must not differ from the refresh token's mode",
            )
        check_authorization(token, self.application)
        if request.redirect_uri:
            self._check_redirect_uri()
        if token.revoked_ms is not None:
            raise INVALID_GRANT.with_reason(f"refresh token revoked: {token.revoked_reason}")
        if token.used:
            return await self._retry(token)
        if token.is_expired(self.now_ms):
            return await self._refuse_expired(token)
        scope = narrow(token.scope, request.scope)
        self._check_scope(scope)
        family = token.family
        store.claim_successor(self.tx, family, token.generation)
        return store.issue(self.tx, self.keys, family, token.generation + 1, scope, self.now_ms, self.lifetimes)

    async def _retry(self, token: RefreshToken) -> Pair | Refusal:
        """Return the successor of a used token, within the grace period for retries; refuse a replay after it."""
        family = token.family
        generations = await store.find_generations(self.tx, family, token.generation + 1)
        successor, second_successor = (generations.get(token.generation + step) for step in (1, 2))
        if token.newest_generation > token.generation + 1:
            refreshed_ms = second_successor.created_ms if second_successor else 0
            if self.now_ms >= refreshed_ms + self.refresh_repeat_seconds * 1000:
                return await self._refuse_replay(token)
        assert successor is not None, "a used token has a successor"
        if narrow(token.scope, self.request.scope) != successor.scope:
            raise INVALID_SCOPE.with_reason("retried with another scope")
        self._check_scope(successor.scope)
        return tokens.derive(self.keys, family, successor)

    async def _refuse_replay(self, token: RefreshToken) -> Refusal:
        """Refuse a replay: the legitimate client can't be distinguished from an attacker (RFC 9700 section 4.14.2)."""
        if self.application.on_replay == "revoke":
            message = "A used refresh token was reused. Its token family was revoked."
            await self._revoke(token, token.family_id, "refresh token replayed", "refresh_token_replayed", message)
        return INVALID_GRANT.with_reason("refresh token replayed")

    async def _refuse_expired(self, token: RefreshToken) -> Pair | Refusal:
        """Record the expiry, so that it outlasts a clock set back; if another node has just refreshed, start over."""
        recorded = token.expired_ms is not None or await store.expire_family(
            self.tx, token.family, token.generation, self.now_ms
        )
        return INVALID_GRANT.with_reason("refresh token expired") if recorded else await self.refresh()

    async def _refuse_used_or_expired(self, code: Code) -> Refusal | None:
        """Return the refusal of an expired or exchanged code, to be committed with the expiry or revocation."""
        if code.expired_ms is not None or self.now_ms >= code.expires_ms:
            await store.expire_code(self.tx, code.seller_id, self.request.code, self.now_ms)
            return INVALID_GRANT.with_reason("code expired")
        if code.exchanged_ms is None:
            return None
        # A retry by a browser or network follows within seconds; later reuse is an attack (RFC 6749 section 4.1.2).
        if self.now_ms < code.exchanged_ms + self.code_repeat_seconds * 1000:
            return INVALID_GRANT.with_reason("code exchanged already")
        assert code.family_id is not None, "an exchanged code has a family"
        message = "An authorization code was reused. Every token issued from it was revoked."
        await self._revoke(code, code.family_id, "code presented again", "authorization_code_replayed", message)
        return INVALID_GRANT.with_reason("code presented again")

    async def _revoke(self, replayed: Credential, family_id: bytes, reason: str, kind: Kind, message: str) -> None:
        """Revoke the family of a replayed credential and alert operators, once for concurrent replays."""
        if await store.revoke_family(self.tx, replayed.seller_id, family_id, self.now_ms, reason):
            facts = {"application_id": replayed.application_id, "address": self.address}
            subject = f"{replayed.authorization_id}-{replayed.seller_id}"
            self.alert = OperatorEvent(kind, subject, message, replayed.seller_id, facts)
            await operator_events.record(self.tx, self.alert, self.now_ms)

    def _is_live(self, code: Code) -> bool:
        """Return whether the code is exchanged for live tokens; refuse the mode that the code does not allow.

        A client that cannot send `test_token` gets the mode of the code, else that of its application.
        """
        requested = self.request.wants_test
        if code.test_token is None:
            return not (self.application.test_tokens if requested is None else requested)
        if requested is not None and requested != code.test_token:
            raise INVALID_GRANT.with_reason("test_token differs from the code's mode")
        return not code.test_token

    def _check_client(self, credential: Credential) -> None:
        """Refuse a code or token that was issued to another application."""
        self.seller_id = credential.seller_id
        if credential.application_id != self.application.application_id:
            raise INVALID_GRANT.with_reason("of another client")

    def _check_redirect_uri(self) -> None:
        """Refuse a redirect URI that is not registered, or not any more."""
        if self.request.redirect_uri not in self.application.redirect_uris:
            raise INVALID_GRANT.with_reason("redirect_uri not registered")

    def _check_scope(self, scope: str) -> None:
        """Refuse tokens whose scopes have all been taken from the application."""
        if not shared(scope, self.application.scopes):
            raise INVALID_SCOPE.with_reason("the application has none of these scopes any more")


def check_authorization(credential: Credential, application: Application) -> None:
    """Refuse if the seller is suspended, the authorization was withdrawn, or `offline_access` was taken away."""
    if credential.seller_suspended_ms is not None:
        raise TOKEN_FORBIDDEN.with_reason("seller suspended")
    if credential.withdrawn_ms is not None:
        raise UNAUTHORIZED_CLIENT.with_reason("authorization withdrawn")
    if includes(credential.scope, OFFLINE_ACCESS) and not includes(application.scopes, OFFLINE_ACCESS):
        raise UNAUTHORIZED_CLIENT.with_reason("offline_access taken from the application")


def narrow(granted: str, requested: str | None) -> str:
    """Return the requested scopes in alphabetical order; all granted ones if `requested` is None or empty.

    Raises INVALID_SCOPE if `requested` is malformed or wider than `granted`.
    """
    if not requested:
        return granted
    try:
        scope = canonical(requested)
    except ScopeError as fault:
        raise INVALID_SCOPE.with_reason(str(fault)) from None
    if not includes(granted, *scope.split(" ")):
        raise INVALID_SCOPE.with_reason("scope is wider than granted")
    return scope


def _check_verifier(verifier: str, challenge: str | None) -> None:
    """Check PKCE (RFC 7636 section 4.6). A verifier without a challenge is a downgrade (RFC 9700 section 4.8.2)."""
    if challenge is None:
        if verifier:
            raise INVALID_GRANT.with_reason("code_verifier without a challenge")
    elif not verifier:
        raise INVALID_GRANT.with_reason("code_verifier is missing")
    elif not same(_challenge(verifier), challenge):
        raise INVALID_GRANT.with_reason("code_verifier differs")


def _challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
