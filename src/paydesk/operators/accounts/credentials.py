"""Operators' bearer tokens (`PDO-<40 hex>`, stored as a digest) and the passwords that operators set for sellers."""

from __future__ import annotations

import asyncio
import re
import secrets
from functools import partial

from paydesk.console import sessions
from paydesk.core import ids
from paydesk.core.errors import PROPERTY_VALUE, UNAUTHORIZED, Refusal
from paydesk.core.secrets import Secret, digest, new_hex
from paydesk.core.text.characters import canonical_email
from paydesk.engine.sellers.common_passwords import LETTERS_MIN, has_few_letters, is_common
from paydesk.operators.accounts import store
from paydesk.operators.errors import EMAIL_TAKEN
from paydesk.operators.schemas import ROLES
from paydesk.platform.operation import Caller
from paydesk.platform.storage.database import Database, Transaction

TOKEN_PATTERN = re.compile(r"PDO-[0-9a-f]{40}", re.ASCII)
ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
PART_MIN = 4
"""Shorter names and local parts of e-mail addresses occur in many words: in a password they are refused as words."""


def new_token() -> Secret:
    """Return a new operator token of 160 random bits."""
    return Secret(f"PDO-{new_hex(160)}")


async def add_operator(
    tx: Transaction, token: Secret | None, name: str, role: str, now_ms: int, *, email: str | None = None
) -> str:
    """Store a new operator with the digest of the token, and return the operator's id.

    Raises `EMAIL_TAKEN` if another operator has the e-mail address.
    """
    assert role in ROLES, f"unknown role {role}"
    operator_id, key = ids.ulid(now_ms), None if token is None else digest(token.reveal())
    address = None if email is None else canonical_email(email)
    if not await store.add(tx, operator_id, name, role, email=address, digest=key, now_ms=now_ms):
        raise email_taken()
    return operator_id


def email_taken() -> Refusal:
    """Return the refusal of an e-mail address that another operator has."""
    return EMAIL_TAKEN.with_reason("e-mail address is taken", "'$.email' - must not be another operator's")


class OperatorBearers:
    """Authenticates operators. Tokens are not cached: a revoked one is refused at once on every node."""

    def __init__(self, database: Database, session_idle_ms: int = 30 * 60_000) -> None:
        self._database, self._session_idle_ms = database, session_idle_ms

    async def caller(self, token: str | None, now_ms: int) -> Caller:
        """Return the operator of the token. Raises `UNAUTHORIZED`."""
        if not token:
            raise UNAUTHORIZED.with_reason("no token", message="authorization value not present")
        if sessions.TOKEN_PATTERN.fullmatch(token):
            # Pages record the use of a session.
            idle_ms = self._session_idle_ms
            session = await sessions.OPERATORS.opened(self._database, token, now_ms, idle_ms=idle_ms, is_use=False)
            if session is None:
                raise UNAUTHORIZED.with_reason("session unknown or ended")
            return Caller(
                seller_id=0, operator_id=session.operator_id, role=session.role, session_id=session.session_id
            )
        if not TOKEN_PATTERN.fullmatch(token):
            raise UNAUTHORIZED.with_reason("not an operator's token")
        operator = await self._database.read(partial(store.by_digest, digest=digest(token)))
        if operator is None:
            raise UNAUTHORIZED.with_reason("operator's token unknown")
        operator_id, role, revoked_ms = operator
        if revoked_ms is not None:
            revoked = UNAUTHORIZED.with_reason("operator's token revoked")
            revoked.facts = {"operator_id": operator_id}
            raise revoked
        return Caller(seller_id=0, operator_id=operator_id, role=role)


def new_password() -> str:
    """Return a random password of twenty unambiguous characters in groups of four, about 99 random bits."""
    return "-".join("".join(secrets.choice(ALPHABET) for _ in range(4)) for _ in range(5))


GENERATED = ", or omit it to have one generated"
"""The end of the advice about a password that is generated if it is not sent."""


async def refuse_common_password(password: str, *, or_else: str = GENERATED) -> None:
    """Refuse a password on the list of common ones. Raises `PROPERTY_VALUE`; `or_else` ends the advice."""
    if not await asyncio.to_thread(is_common, password):
        return
    rule = "must not be a common word or name, also not with digits or symbols around it or repeated"
    if has_few_letters(password):
        rule = f"must contain at least {LETTERS_MIN} letters besides digits and symbols"
    raise PROPERTY_VALUE.with_reason(
        "common password",
        f"'$.password' - {rule}; use several unrelated words{or_else}",
    )


def refuse_own_words(password: str, email: str, name: str = "", *, or_else: str = GENERATED) -> None:
    """Refuse a password that contains the account's e-mail address, its local part, or its name, also without spaces.

    Raises `PROPERTY_VALUE`; `or_else` ends the advice.
    """
    if email and email.casefold() in password.casefold():
        what = "the e-mail address"
    elif _contains(password, email.rpartition("@")[0]):
        what = "the part of the e-mail address before the @"
    elif _contains(password, name) or _contains("".join(password.split()), "".join(name.split())):
        what = "your name"
    else:
        return
    detail = f"'$.password' - must not contain {what}; use other words{or_else}"
    raise PROPERTY_VALUE.with_reason("password contains a part of the account", detail)


def _contains(password: str, own: str) -> bool:
    """Return whether a password contains this text of the account, a short one as a word of its own."""
    own, within = own.strip().casefold(), password.casefold()
    if len(own) >= PART_MIN:
        return own in within
    return bool(own) and re.search(rf"(?<![^\W\d_]){re.escape(own)}(?![^\W\d_])", within) is not None
