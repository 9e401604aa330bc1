"""Passwords: hashed with Argon2id in threads, with a bounded queue, and no password matches an unknown account."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest
from argon2 import PasswordHasher

from paydesk.core.errors import Refusal
from paydesk.engine.sellers import passwords
from paydesk.engine.sellers.passwords import (
    QUEUE_MAX,
    UNKNOWN_ORIGIN_QUEUE_MAX,
    hash_password,
    needs_rehash,
    verify_password,
)
from waiting import timer

QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash("correct horse")
"""A hash of other parameters than today's, made in no time."""


async def test_a_password_is_verified_against_its_hash() -> None:
    """Only the right password matches; a malformed hash never does."""
    stored = await hash_password("correct horse")
    assert stored.startswith("$argon2id$")
    assert await verify_password(stored, "correct horse")
    assert not await verify_password(stored, "battery staple")
    assert not await verify_password("no hash", "correct horse")


@pytest.mark.usefixtures("production_hash")
async def test_the_parameters_are_those_of_rfc_9106() -> None:
    """Production hashes with 64 MiB, 3 passes and 4 threads: the second choice of RFC 9106 §4. Tests hash cheaper."""
    stored = await hash_password("correct horse")
    assert stored.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert not needs_rehash(stored)
    assert needs_rehash(QUICK)


SLOW_IMPORT = f"""
import asyncio, sys, time
from importlib.machinery import PathFinder
from paydesk.engine.sellers import passwords

class Slow(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "argon2":
            return None
        spec = PathFinder.find_spec(name, path, target)
        # While it waits here, the package is locked, but not yet among the modules.
        spec.loader.create_module = lambda _: time.sleep(0.3)
        return spec

async def sign_in():
    first, second = passwords.hash_password("correct horse"), passwords.verify_password({QUICK!r}, "correct horse")
    assert (await asyncio.gather(first, second))[1]

assert "argon2" not in sys.modules
sys.meta_path.insert(0, Slow)
asyncio.run(sign_in())
"""


def test_the_first_two_passwords_at_the_same_time() -> None:
    """Both threads then import the library, and neither import waits for the other for ever."""
    finished = subprocess.run([sys.executable, "-I", "-c", SLOW_IMPORT], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr


async def test_without_a_hash_no_password_matches() -> None:
    """Not even the password of the dummy hash."""
    for stored in (None, "", "!"):
        assert not await verify_password(stored, "password of no account"), stored
        assert not await verify_password(stored, ""), stored


async def test_a_hash_with_other_parameters_matches_and_needs_a_rehash() -> None:
    """A hash with the current parameters does not."""
    assert await verify_password(QUICK, "correct horse")
    assert needs_rehash(QUICK)
    assert needs_rehash("no hash")
    stored = await hash_password("correct horse")
    assert not needs_rehash(stored)
    assert await verify_password(stored, "correct horse")


@pytest.mark.parametrize("stored", [QUICK, "no hash", None], ids=["other parameters", "malformed", "unknown account"])
async def test_a_wrong_password_is_refused_on_the_half_second(stored: str | None) -> None:
    """However fast the hash was compared."""
    early = timer(passwords.REFUSED_EVERY_SECONDS * 0.98)
    assert not await verify_password(stored, "battery staple")
    assert early.is_set()


async def test_every_comparison_costs_one_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong password, an unknown account and a malformed hash: one Argon2 hash each, outside the loop's thread.

    All with the parameters of a new hash.
    """
    stored = await hash_password("correct horse")
    current = stored[: stored.index("p=")]
    costs: list[int] = []
    for known in (stored, None, "no hash"):
        verify, count = PasswordHasher.verify, 0

        def counted(self: PasswordHasher, hashed: str, password: str, verify: object = verify) -> bool:
            nonlocal count
            assert threading.current_thread() is not threading.main_thread()
            count += hashed.startswith(current)
            return verify(self, hashed, password)  # type: ignore[operator, no-any-return]

        monkeypatch.setattr(PasswordHasher, "verify", counted)
        await verify_password(known, "battery staple")
        monkeypatch.undo()
        costs.append(count)
    assert costs == [1, 1, 1]


@pytest.mark.usefixtures("production_hash")
async def test_hashing_does_not_block_the_event_loop() -> None:
    """The loop runs while passwords are hashed."""
    hashing = asyncio.create_task(hash_password("correct horse"))
    turns = 0
    while not hashing.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 100


async def test_part_of_the_queue_is_reserved_for_known_origins() -> None:
    """Beyond the limit sign-ins of unknown origin get 503; known origins and operators are served."""
    unknown = [verify_password(QUICK, "correct horse") for _ in range(UNKNOWN_ORIGIN_QUEUE_MAX + 5)]
    seller = verify_password(QUICK, "correct horse", known_origin=True)
    results = await asyncio.gather(*unknown, seller, hash_password("new"), return_exceptions=True)
    assert results[:UNKNOWN_ORIGIN_QUEUE_MAX] == [True] * UNKNOWN_ORIGIN_QUEUE_MAX
    for refused in results[UNKNOWN_ORIGIN_QUEUE_MAX:-2]:
        assert isinstance(refused, Refusal)
        assert (refused.kind.status, refused.reason) == (503, "too many passwords queued")
    assert results[-2] is True
    assert isinstance(results[-1], str)


async def test_the_queue_is_bounded_for_known_origins_and_empties() -> None:
    """Beyond the limit known origins get 503 too; later there is room again."""
    every = [verify_password(QUICK, "correct horse", known_origin=True) for _ in range(QUEUE_MAX + 1)]
    results = await asyncio.gather(*every, return_exceptions=True)
    assert results[:-1] == [True] * QUEUE_MAX
    assert isinstance(results[-1], Refusal)
    assert await verify_password(QUICK, "correct horse")
