"""The demo operator of `paydesk dev`: a token for programs, and a password for the console."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paydesk.console.sessions import OPERATORS
from paydesk.core.errors import Refusal
from paydesk.engine.sellers import passwords
from paydesk.operators.accounts import store as operators
from paydesk.operators.accounts.credentials import OperatorBearers, add_operator, new_password, new_token
from paydesk.platform.storage.database import Database, Transaction
from paydesk_dev.dev.demo import OPERATOR_EMAIL

# The earlier demo operator, if its token was lost with the credentials file, no longer signs in with this address.
FREE_EMAIL = "UPDATE operators SET email = NULL, password = NULL WHERE email = $1"


async def find_or_create(
    database: Database, previous: Mapping[str, Any], now_ms: int, *, with_password: bool = True
) -> tuple[str, dict[str, str]]:
    """Return the operator's id and its credentials: those in `previous` that are valid, and new ones.

    Without a password it has a token alone: hashing takes long.
    """
    token = str(previous.get("token", ""))
    try:
        caller = await OperatorBearers(database).caller(token, now_ms)
        operator_id = caller.operator_id
    except Refusal:
        new = new_token()
        operator_id = await database.write(lambda tx: add_operator(tx, new, "paydesk dev", "owner", now_ms))
        token = new.reveal()
    if not with_password:
        return operator_id, {"token": token}
    person = await database.read(lambda tx: operators.person(tx, operator_id))
    assert person is not None, "the token's operator exists"
    password = previous.get("password")
    if not (
        person.email == OPERATOR_EMAIL
        and isinstance(password, str)
        and await passwords.verify_password(person.password_hash, password)
    ):
        password = new_password()
        password_hash = await passwords.hash_password(password)

        async def work(tx: Transaction) -> None:
            await tx.run(FREE_EMAIL, OPERATOR_EMAIL)
            await operators.change(tx, operator_id, person.name, person.role, OPERATOR_EMAIL)
            await OPERATORS.set_password(tx, operator_id, password_hash, now_ms)

        await database.write(work)
    return operator_id, {"token": token, "email": OPERATOR_EMAIL, "password": password}
