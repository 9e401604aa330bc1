"""Passwords: Argon2id, in two threads of its own and outside of transactions, since a hash is slow by design.

The queue for the threads is bounded: a sign-in beyond the limit is refused at once.

Both threads may import `argon2` at the same time, at its first use. Always import the package first, never
`argon2.exceptions` alone: that locks module and package in the other order, and Python ends one import with a deadlock
error.
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
UNKNOWN_ORIGIN_QUEUE_MAX, QUEUE_MAX = 16, 32
"""Hashes in progress or queued. Sign-ins of unknown origin leave half for known accounts and for operators."""

REFUSED_EVERY_SECONDS = 0.5
"""A wrong password is refused at a multiple of this time after its start, which hides the time of each step."""


class _Hashing:
    """The threads and the number of hashes in progress or queued."""

    queued = 0

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="argon2")

    async def run(self, queued_max: int, function: Callable[..., T], *arguments: object) -> T:
        """Run the function in one of the threads. Raises `service_unavailable` if `queued_max` are queued."""
        if self.queued >= queued_max:
            raise SERVICE_UNAVAILABLE.with_reason(
                "too many passwords queued", message="Too many sign-ins at this moment. Try again in a few seconds."
            )
        self.queued += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)
        finally:
            self.queued -= 1
            if not self.queued:
                # Compute the dummy hash early, after the first callers were answered.
                self._threads.submit(_dummy_hash)


async def hash_password(password: str) -> str:
    """Return the Argon2id hash of a password. Raises `service_unavailable` if the queue is full."""
    return await _hashing().run(QUEUE_MAX, _hash, password)


async def verify_password(
    stored: str | None,
    password: str,
    *,
    known_origin: bool = False,
    reserved: int = 0,
    began: float | None = None,
) -> bool:
    """Return whether `password` matches the `stored` hash. None, for an unknown account, takes the same time.

    So does a hash with outdated parameters. `known_origin`: the attempt comes from a known browser or address of the
    account, for which part of the queue is reserved; of that part attempts of unknown origin may use `reserved` places.
    `began`: when the attempt began, by the loop's time. Raises `service_unavailable` if the queue is full.
    """
    loop = asyncio.get_running_loop()
    began = began or loop.time()
    queued_max = QUEUE_MAX if known_origin else UNKNOWN_ORIGIN_QUEUE_MAX + reserved
    is_right = await _hashing().run(queued_max, _verify, stored, password)
    if not is_right:
        await asyncio.sleep(REFUSED_EVERY_SECONDS - (loop.time() - began) % REFUSED_EVERY_SECONDS)
    return is_right


def needs_rehash(stored: str) -> bool:
    """Return whether the hash was made with outdated parameters and should be replaced at this sign-in."""
    from argon2 import exceptions

    try:
        return _hasher().check_needs_rehash(stored)
    except exceptions.InvalidHashError:
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
    from argon2 import exceptions

    try:
        return _hasher().verify(stored or _dummy_hash(), password) and bool(stored)
    except exceptions.VerificationError:
        return False
    except exceptions.InvalidHashError:
        # A malformed hash must take as long as a valid one.
        return _verify(None, password)


@cache
def _dummy_hash() -> str:
    return _hash("password of no account")
