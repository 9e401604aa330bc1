"""Accounts that sign in with an e-mail address and a password, one implementation for sellers and operators.

Every sign-in begins a new session, a row found by the digest of its token, and ends the browser's previous one. An
unknown account costs the same statements and the same hash as a wrong password, and is refused at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from paydesk.core.errors import Refusal
from paydesk.core.secrets import Secret, digest
from paydesk.core.text.characters import canonical_email
from paydesk.engine.sellers.errors import SIGN_IN_FAILED, SIGN_IN_THROTTLED
from paydesk.engine.sellers.passwords import hash_password, needs_rehash, verify_password
from paydesk.engine.sellers.throttle import SignInThrottles
from paydesk.platform.operation import Call
from paydesk.platform.operator_events import OperatorEvent
from paydesk.platform.storage.database import Database, Transaction

HOUR_MS = 3_600_000
USE_EVERY_MS = 60_000
"""The last use of a session is written at most once in this time."""

Id = TypeVar("Id", bound=int | str)
S = TypeVar("S")


class Account(NamedTuple, Generic[Id]):
    """An account as a sign-in reads it. `barred_ms`: since when it is suspended or revoked, or None."""

    account_id: Id
    password_hash: str | None
    barred_ms: int | None


@dataclass(kw_only=True)
class Accounts(Generic[Id, S]):
    """The accounts of a table with their sessions in browsers. The noun is in the names of both tables and the id."""

    noun: str
    barred: str
    """The column that is set as long as an account is suspended or revoked."""
    session: Callable[..., S]
    columns: str
    """The columns of a session `s` and its account `a` that make a `session`."""
    found_by: tuple[str, ...]
    """The columns that find a session."""
    key_of: Callable[[str], tuple[Any, ...]]
    """Returns their values for a token, or nothing if it is malformed."""
    new_token: Callable[[Id], str]
    unknown: str
    """The reason in the log for an account that does not exist, or can't sign in."""
    alert: Callable[[str, Id | None, bool], OperatorEvent | None]
    """Returns the event of a failed sign-in from an address, without an unknown e-mail address: it may be a password.
    The last parameter: whether the throttle has counted several since the last event."""
    admit: Callable[[Call, Id, int | None], None] | None = None
    """Called with the account after the right password, to refuse a barred one. None: that is refused as unknown."""
    expired: str = "ended_ms"
    """The column of a session that is set when it is refused as expired."""
    reserved: int = 0
    """Places in the queue of hashes for sign-ins of unknown origin, beside those that all accounts share."""
    further: tuple[str, ...] = ()
    """Further columns of a session, and what returns their values for a time, an address and a user agent."""
    details: Callable[[int, str, str], tuple[Any, ...]] = lambda *_: ()

    def __post_init__(self) -> None:
        """Write the statements."""
        table, sessions, account = f"{self.noun}s", f"{self.noun}_sessions", f"{self.noun}_id"
        self.by_email = f"SELECT {account}, password, {self.barred} FROM {table} WHERE email = $1"
        self.change_password = f"UPDATE {table} SET password = $2 WHERE {account} = $1"
        # Replaces the hash of the same password, unless another password was set since the hash was read.
        self.change_hash = f"{self.change_password} AND password = $3"
        # Locks a valid account whose password is still the verified one, until the session is committed, so that a
        # transaction that sets another password or bars the account sees the session and ends it.
        self.lock_valid = f"""
SELECT 1 FROM {table} WHERE {account} = $1 AND ($2 = '' OR password = $2) AND {self.barred} IS NULL FOR SHARE"""
        inserted = account, "digest", "created_ms", "expires_ms", *self.further
        values = ", ".join(f"${number}" for number in range(1, len(inserted) + 1))
        self.insert_session = f"INSERT INTO {sessions} ({', '.join(inserted)}) VALUES ({values})"

        def found(first: int) -> str:
            return " AND ".join(f"s.{name} = ${number}" for number, name in enumerate(self.found_by, first))

        self.valid_session = f"""
SELECT {self.columns}, COALESCE(s.used_ms, s.created_ms), s.expires_ms
  FROM {sessions} s JOIN {table} a ON a.{account} = s.{account}
 WHERE {found(1)} AND s.{self.expired} IS NULL AND s.ended_ms IS NULL AND a.{self.barred} IS NULL"""
        self.use_session = f"""
UPDATE {sessions} AS s SET used_ms = $1 WHERE COALESCE(used_ms, created_ms) <= $2 AND {found(3)}"""
        # valid -> expired: a session refused as expired stays expired, also if the clock is set back.
        self.expire_session = f"""
UPDATE {sessions} AS s SET {self.expired} = $1 WHERE {self.expired} IS NULL AND {found(2)}"""
        # valid -> ended; the first instant stays.
        self.end_session = f"""
UPDATE {sessions} AS s SET ended_ms = $1 WHERE ended_ms IS NULL AND {found(2)}"""
        # All of an account's sessions: valid -> ended.
        self.end_sessions = f"UPDATE {sessions} SET ended_ms = $2 WHERE {account} = $1 AND ended_ms IS NULL"

    # Signing in. -----------------------------------------------------------------------------------------------------

    async def sign_in(
        self, call: Call, email: str, password: str, *, previous: str, known_browser: bool = False
    ) -> Secret | Refusal:
        """Return the token of a new session if the password is right, else the refusal. Raises as `admit`.

        `previous` is the browser's token; `known_browser` is as for the throttle.
        """
        throttle, address = call.shared.objects[SignInThrottles][self.noun], call.address
        began = asyncio.get_running_loop().time()
        attempt = throttle.begin(email, address, known_browser=known_browser)
        if isinstance(attempt, int):
            return Refusal(SIGN_IN_THROTTLED, "throttled", extra={"seconds": attempt})
        with attempt:
            row = await call.database.read(partial(self.find, email=email))
            account_id, stored, barred_ms = row or (None, None, None)
            if self.admit is None and barred_ms is not None:
                stored = None
            is_right = await verify_password(
                stored, password, known_origin=attempt.is_known_origin, reserved=self.reserved, began=began
            )
        if not is_right:
            call.alert = self.alert(address, account_id, throttle.failed(attempt))
            return SIGN_IN_FAILED.with_reason("password differs" if stored is not None else self.unknown)
        assert account_id is not None, "no password is right without an account"
        assert stored is not None, "nor without a hash"
        throttle.succeeded(attempt)
        if self.admit is not None:
            self.admit(call, account_id, barred_ms)
        token = await self.open_session(call, account_id, previous=previous, password_hash=stored)
        if token is None:
            # The password or the account was changed during the verification: start over with the new row.
            return await self.sign_in(call, email, password, previous=previous, known_browser=known_browser)
        if needs_rehash(stored):
            # If the hashing queue is full, the next sign-in does it.
            with suppress(Refusal):
                new = await hash_password(password)
                await call.database.write(lambda tx: tx.run(self.change_hash, account_id, new, stored))
        return token

    async def find(self, tx: Transaction, email: str) -> Account[Id] | None:
        """Return the account with this e-mail address, barred or not, or None."""
        row = await tx.one(self.by_email, canonical_email(email))
        return Account(*row) if row else None

    async def set_password(self, tx: Transaction, account_id: Id, password_hash: str, now_ms: int) -> int:
        """Set another password and end all sessions of the account; return how many."""
        await tx.run(self.change_password, account_id, password_hash)
        return await self.end_all(tx, account_id, now_ms)

    # Sessions. -------------------------------------------------------------------------------------------------------

    async def open_session(self, call: Call, account_id: Id, *, previous: str, password_hash: str) -> Secret | None:
        """Begin a session in a transaction of its own, as `begin` does."""
        now_ms, agent = call.now_ms, call.headers.get("user-agent", "")
        details, expires_ms = self.details(now_ms, call.address, agent), now_ms + call.settings.session_hours * HOUR_MS
        begin = partial(self.begin, account_id=account_id, details=details, now_ms=now_ms, expires_ms=expires_ms)
        return await call.database.write(partial(begin, password_hash=password_hash, previous=previous))

    async def begin(
        self,
        tx: Transaction,
        account_id: Id,
        *,
        now_ms: int,
        expires_ms: int,
        password_hash: str,
        details: tuple[Any, ...] = (),
        previous: str = "",
    ) -> Secret | None:
        """Begin a session, end the session with the token `previous`, and return the new token.

        Returns None if the account was barred or got another password since `password_hash` was verified. An empty
        `password_hash` is that of a session that begins without a password.
        """
        if await tx.one(self.lock_valid, account_id, password_hash) is None:
            return None
        token = Secret(self.new_token(account_id))
        await tx.run(self.insert_session, account_id, digest(token.reveal()), now_ms, expires_ms, *details)
        await self.end(tx, previous, now_ms)
        return token

    async def current(
        self, tx: Transaction, token: str, now_ms: int, *, idle_ms: int, is_use: bool = True, locked: bool = False
    ) -> S | None:
        """Return the valid session of a token, or None if it is unknown, ended or expired.

        A session expires at its fixed time, or `idle_ms` after its last use; the first refusal as expired is recorded,
        so that it stays invalid. `is_use`: whether this is a use, which is recorded to the minute. `locked`: no other
        transaction ends the session before the commit, so that an action that it permits is committed before the
        session's end or not at all.
        """
        session, change = await self._find(tx, token, now_ms, idle_ms, is_use=is_use, locked=locked)
        if change:
            await tx.run(*change)
        return session

    async def opened(
        self, database: Database, token: str, now_ms: int, *, idle_ms: int, is_use: bool = True
    ) -> S | None:
        """Return the valid session of a token, as `current` does; use a write transaction only if a row must change."""
        session, change = await database.read(lambda tx: self._find(tx, token, now_ms, idle_ms, is_use=is_use))
        if not change:
            return session
        return await database.write(lambda tx: self.current(tx, token, now_ms, idle_ms=idle_ms, is_use=is_use))

    async def end(self, tx: Transaction, token: str, now_ms: int) -> bool:
        """End the session of this token. Return False if it is unknown or had ended."""
        key = self.key_of(token)
        return bool(key and await tx.run(self.end_session, now_ms, *key))

    async def end_all(self, tx: Transaction, account_id: Id, now_ms: int) -> int:
        """End all sessions of the account; return how many. Call it after the account was barred."""
        return await tx.run(self.end_sessions, account_id, now_ms)

    async def _find(
        self, tx: Transaction, token: str, now_ms: int, idle_ms: int, *, is_use: bool, locked: bool = False
    ) -> tuple[S | None, tuple[Any, ...]]:
        """Return the valid session, and the statement with its values that records a use or the expiry, if due."""
        key, lock = self.key_of(token), " FOR UPDATE OF s" if locked else ""
        row = await tx.one(self.valid_session + lock, *key) if key else None
        if row is None:
            return None, ()
        *columns, used_ms, expires_ms = row
        if min(expires_ms, used_ms + idle_ms) <= now_ms:
            return None, (self.expire_session, now_ms, *key)
        is_due = is_use and used_ms + USE_EVERY_MS <= now_ms
        return self.session(*columns), (self.use_session, now_ms, now_ms - USE_EVERY_MS, *key) if is_due else ()
