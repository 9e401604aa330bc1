"""Sellers' passwords: Argon2id, slow on purpose and so in threads of its own, two at a time, in no transaction.

Few may wait for the threads; whoever comes beyond that is refused at once, so that a flood of sign-ins is no queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from paydesk.core.errors import SERVICE_UNAVAILABLE

if TYPE_CHECKING:
    from argon2 import PasswordHasher

T = TypeVar("T")

THREADS = 2
STRANGERS_MAX, EVERYBODY_MAX = 16, 32
"""So many hashes may be under way or wait: strangers leave room for the seller who is known, and for operators."""

REFUSED_EVERY_SECONDS = 0.5
"""A wrong password is told on the half seconds of its try alone: what took how long within them does not show."""


class _Hashing:
    """The threads, and how many are at them or wait for them."""

    under_way = 0

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="argon2")

    async def run(self, under_way_max: int, function: Callable[..., T], *arguments: object) -> T:
        """The function's result, by one of the threads. Raises `service_unavailable` where too many are before it."""
        if self.under_way >= under_way_max:
            raise SERVICE_UNAVAILABLE.with_reason(
                "too many passwords wait", message="Too many are signing in at this moment; try again in a few seconds."
            )
        self.under_way += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)
        finally:
            self.under_way -= 1
            # What nobody's password is compared with is there soon, and who came first has not waited for it.
            self._threads.submit(_dummy_hash)


async def hash_password(password: str) -> str:
    """The Argon2id hash that is kept of a password. Raises `service_unavailable` where too many wait."""
    return await _hashing().run(EVERYBODY_MAX, _hash, password)


async def verify_password(stored: str | None, password: str, *, known: bool = False) -> bool:
    """Whether `password` is the one of the `stored` hash; None (nobody of that name) takes just as long.

    So does a hash with other parameters than today's. `known`: it is the seller's own browser or address that tries,
    which finds room where strangers don't. Raises `service_unavailable` where too many wait.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    is_right = await _hashing().run(EVERYBODY_MAX if known else STRANGERS_MAX, _verify, stored, password)
    if not is_right:
        await asyncio.sleep(REFUSED_EVERY_SECONDS - (loop.time() - began) % REFUSED_EVERY_SECONDS)
    return is_right


def needs_rehash(stored: str) -> bool:
    """Whether the hash was made with other parameters than today's: whoever has just shown the password replaces it."""
    from argon2.exceptions import InvalidHashError

    try:
        return _hasher().check_needs_rehash(stored)
    except InvalidHashError:
        return True


@cache
def _hashing() -> _Hashing:
    return _Hashing()


@cache
def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher

    return PasswordHasher()


def _hash(password: str) -> str:
    return _hasher().hash(password)


def _verify(stored: str | None, password: str) -> bool:
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        return _hasher().verify(stored or _dummy_hash(), password) and stored is not None
    except VerificationError:
        return False
    except InvalidHashError:
        # What is no hash must cost what one costs.
        return _verify(None, password)


@cache
def _dummy_hash() -> str:
    return _hash("nobody's password")
