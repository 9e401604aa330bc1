"""Sellers' passwords: Argon2id, slow on purpose and so in threads of its own, two at a time, in no transaction."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argon2 import PasswordHasher

_THREADS = ThreadPoolExecutor(max_workers=2, thread_name_prefix="argon2")


async def hash_password(password: str) -> str:
    """The Argon2id hash that is kept of a password."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, _hash, password)


async def verify_password(stored: str | None, password: str) -> bool:
    """Whether `password` is the one of the `stored` hash; None (nobody of that name) takes just as long."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, _verify, stored, password)


@cache
def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher

    return PasswordHasher()


def _hash(password: str) -> str:
    return _hasher().hash(password)


def _verify(stored: str | None, password: str) -> bool:
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        return _hasher().verify(stored or _nobodys(), password) and stored is not None
    except (VerificationError, InvalidHashError):
        return False


@cache
def _nobodys() -> str:
    return _hash("nobody's password")
