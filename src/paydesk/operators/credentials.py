"""Operators' bearer tokens (`PDO-<40 hex>`, stored as a digest) and the passwords that operators set for sellers."""

from __future__ import annotations

import asyncio
import re
import secrets

from paydesk.core import ids
from paydesk.core.errors import PROPERTY_VALUE, UNAUTHORIZED
from paydesk.core.secrets import Secret, digest, new_hex
from paydesk.oauth.consent.common_passwords import LETTERS_MIN, has_few_letters, is_common
from paydesk.operation import Caller
from paydesk.operators import store
from paydesk.operators.schemas import ROLES
from paydesk.storage.database import Database, Transaction

TOKEN_PATTERN = re.compile(r"PDO-[0-9a-f]{40}", re.ASCII)
ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
LOCAL_PART_MIN = 4
"""Shorter local parts of e-mail addresses occur in too many words to be refused."""


def new_token() -> Secret:
    """Return a new operator token of 160 random bits."""
    return Secret(f"PDO-{new_hex(160)}")


async def add_operator(tx: Transaction, token: Secret, name: str, role: str, now_ms: int) -> str:
    """Store a new operator with the digest of their token and return the operator's id."""
    assert role in ROLES, f"unknown role {role}"
    operator_id = ids.ulid(now_ms)
    await store.add(tx, operator_id, name, role, digest(token.reveal()), now_ms)
    return operator_id


class OperatorBearers:
    """Authenticates operators. Tokens are not cached: a revoked one is refused at once on every node."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def caller(self, token: str | None, now_ms: int) -> Caller:  # noqa: ARG002 - same signature as the others
        """Return the operator of the token. Raises `UNAUTHORIZED`."""
        if not token:
            raise UNAUTHORIZED.with_reason("no token", message="authorization value not present")
        if not TOKEN_PATTERN.fullmatch(token):
            raise UNAUTHORIZED.with_reason("not an operator's token")
        key = digest(token)

        async def work(tx: Transaction) -> store.Operator | None:
            return await store.by_digest(tx, key)

        operator = await self._database.read(work)
        if operator is None:
            raise UNAUTHORIZED.with_reason("operator's token unknown or revoked")
        return Caller(seller_id=0, operator_id=operator.operator_id, role=operator.role)


def new_password() -> str:
    """Return a random password of twenty unambiguous characters in groups of four, about 99 random bits."""
    return "-".join("".join(secrets.choice(ALPHABET) for _ in range(4)) for _ in range(5))


async def refuse_common_password(password: str) -> None:
    """Refuse a password on the list of common ones. Raises `PROPERTY_VALUE`."""
    if not await asyncio.to_thread(is_common, password):
        return
    rule = "must not be a common word or name, also not with digits or symbols around it or repeated"
    if has_few_letters(password):
        rule = f"must contain at least {LETTERS_MIN} letters besides digits and symbols"
    raise PROPERTY_VALUE.with_reason(
        "common password",
        f"'$.password' - {rule}; use several unrelated words, or omit it to have one generated",
    )


def refuse_password_with_email(password: str, email: str) -> None:
    """Refuse a password that contains the local part of the seller's e-mail address. Raises `PROPERTY_VALUE`."""
    local_part = email.rpartition("@")[0].casefold()
    if len(local_part) >= LOCAL_PART_MIN and local_part in password.casefold():
        raise PROPERTY_VALUE.with_reason(
            "password contains the e-mail address",
            "'$.password' - must not contain the part of the seller's e-mail address before the @;"
            " use other words, or omit it to have one generated",
        )
