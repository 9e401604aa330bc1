"""The passwords of operators: set with a link, or changed with the current one. Then all sessions end."""

from __future__ import annotations

from functools import partial

from paydesk.console.sessions import OPERATORS
from paydesk.core.errors import PROPERTY_VALUE, TOO_MANY_REQUESTS
from paydesk.engine.sellers.passwords import hash_password, verify_password
from paydesk.engine.sellers.throttle import SignInThrottles
from paydesk.operators import audit
from paydesk.operators.accounts import links, store
from paydesk.operators.accounts.credentials import refuse_common_password, refuse_own_words
from paydesk.operators.accounts.store import Person
from paydesk.operators.errors import CANNOT_SIGN_IN, WRONG_PASSWORD
from paydesk.operators.schemas import OwnPasswordRequest
from paydesk.platform.operation import Answer, Call
from paydesk.platform.storage.database import Transaction


async def change_own(call: Call) -> Answer:
    """Replace the caller's own password and end all sessions of the caller.

    Raises `CANNOT_SIGN_IN` without a password, `TOO_MANY_REQUESTS`, `WRONG_PASSWORD`, and `PROPERTY_VALUE` for a new
    password that is the current one, or easy to guess.
    """
    body, database, throttle = call.body, call.database, call.shared.objects[SignInThrottles][OPERATORS.noun]
    assert isinstance(body, OwnPasswordRequest)
    person = await database.read(partial(store.person, operator_id=call.caller.operator_id))
    if person is None or person.email is None or person.password_hash is None:
        raise CANNOT_SIGN_IN.with_reason("no password", "you have no password; an owner can make a link to set one")
    attempt = throttle.begin(person.email, call.address)
    if isinstance(attempt, int):
        raise TOO_MANY_REQUESTS.with_reason("throttled", headers=(("retry-after", str(attempt)),))
    with attempt:
        # The caller is authenticated, so the request may use the part of the queue that is reserved for known origins.
        is_right = await verify_password(person.password_hash, body.current_password, known_origin=True)
    if not is_right:
        raise WRONG_PASSWORD.with_reason("password differs")
    attempt.withdraw()
    if body.password == body.current_password:
        raise PROPERTY_VALUE.with_reason("the current password", "'$.password' - must not be the current password")
    password_hash = await hashed(body.password, person)

    async def work(tx: Transaction) -> bool:
        locked = await store.lock_person(tx, person.operator_id)
        if locked is None or locked.password_hash != person.password_hash:
            return False
        await _set(call, tx, person.operator_id, password_hash)
        return True

    if not await database.write(work):
        raise WRONG_PASSWORD.with_reason("the password was changed meanwhile")
    return Answer(204)


async def hashed(password: str, person: Person) -> str:
    """Return the hash of a new password. Raises `PROPERTY_VALUE` for one that is easy to guess."""
    await refuse_common_password(password, or_else="")
    refuse_own_words(password, person.email or "", person.name, or_else="")
    return await hash_password(password)


async def set_by_link(call: Call, tx: Transaction, token: str, password_hash: str) -> Person | None:
    """Use the link to set the password, and return its operator; None if the link is no longer valid."""
    person = await links.use(tx, token, call.now_ms)
    if person is not None:
        await _set(call, tx, person.operator_id, password_hash)
    return person


async def _set(call: Call, tx: Transaction, operator_id: str, password_hash: str) -> None:
    await OPERATORS.set_password(tx, operator_id, password_hash, call.now_ms)
    await links.end_all(tx, operator_id, call.now_ms)
    await audit.write(
        tx,
        operator_id=operator_id,
        action="operators.password",
        subject=operator_id,
        address=call.address,
        now_ms=call.now_ms,
    )
