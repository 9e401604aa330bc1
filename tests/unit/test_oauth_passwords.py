"""Passwords: hashed with Argon2id beside the event loop, few at a time, and nobody's password is never right."""

from __future__ import annotations

import asyncio
import threading

import pytest
from argon2 import PasswordHasher

from paydesk.core.errors import Refusal
from paydesk.oauth.consent import passwords
from paydesk.oauth.consent.passwords import EVERYBODY_MAX, STRANGERS_MAX, hash_password, needs_rehash, verify_password

QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash("correct horse")
"""A hash of other parameters than today's, made in no time."""


async def test_a_password_is_verified_against_its_hash() -> None:
    """The right one is right, every other is wrong, a broken hash included."""
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


async def test_nobody_signs_in() -> None:
    """Where there is no such seller no password is right, not even the stand-in's."""
    assert not await verify_password(None, "nobody's password")
    assert not await verify_password(None, "")


async def test_a_hash_of_other_parameters_is_good_and_is_to_be_replaced() -> None:
    """Today's is kept; one with other parameters still opens, and so does it once it is replaced."""
    assert await verify_password(QUICK, "correct horse")
    assert needs_rehash(QUICK)
    assert needs_rehash("no hash")
    stored = await hash_password("correct horse")
    assert not needs_rehash(stored)
    assert await verify_password(stored, "correct horse")


@pytest.mark.parametrize("stored", [QUICK, "no hash", None], ids=["a quick one", "none of ours", "nobody"])
async def test_a_wrong_password_is_not_told_sooner(stored: str | None) -> None:
    """However quickly the hash was compared, the answer comes on the half second."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert not await verify_password(stored, "battery staple")
    assert loop.time() - began > passwords.REFUSED_EVERY_SECONDS * 0.98


@pytest.mark.usefixtures("production_hash")
async def test_every_comparison_costs_one_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong password, nobody's and one beside a broken hash: one of Argon2 each, never in the loop's thread."""
    stored = await hash_password("correct horse")
    costs: list[int] = []
    for known in (stored, None, "no hash"):
        verify, count = PasswordHasher.verify, 0

        def counted(self: PasswordHasher, hashed: str, password: str, verify: object = verify) -> bool:
            nonlocal count
            assert threading.current_thread() is not threading.main_thread()
            count += hashed.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
            return verify(self, hashed, password)  # type: ignore[operator, no-any-return]

        monkeypatch.setattr(PasswordHasher, "verify", counted)
        await verify_password(known, "battery staple")
        monkeypatch.undo()
        costs.append(count)
    assert costs == [1, 1, 1]


@pytest.mark.usefixtures("production_hash")
async def test_the_loop_goes_on_meanwhile() -> None:
    """While passwords are hashed the event loop turns."""
    hashing = asyncio.gather(*(hash_password("correct horse") for _ in range(2)))
    turns = 0
    while not hashing.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 100


async def test_few_wait_and_the_known_find_room() -> None:
    """Of a flood of strangers a few are compared, the others refused at once; who is known, and an operator, is not."""
    strangers = [verify_password(QUICK, "correct horse") for _ in range(STRANGERS_MAX + 5)]
    seller = verify_password(QUICK, "correct horse", known=True)
    results = await asyncio.gather(*strangers, seller, hash_password("new"), return_exceptions=True)
    assert results[:STRANGERS_MAX] == [True] * STRANGERS_MAX
    for refused in results[STRANGERS_MAX:-2]:
        assert isinstance(refused, Refusal)
        assert (refused.kind.status, refused.reason) == (503, "too many passwords wait")
    assert results[-2] is True
    assert isinstance(results[-1], str)


async def test_the_queue_has_an_end_for_everybody_and_empties() -> None:
    """Those who are known don't wait without end either; once the flood is over there is room again."""
    every = [verify_password(QUICK, "correct horse", known=True) for _ in range(EVERYBODY_MAX + 1)]
    results = await asyncio.gather(*every, return_exceptions=True)
    assert results[:-1] == [True] * EVERYBODY_MAX
    assert isinstance(results[-1], Refusal)
    assert await verify_password(QUICK, "correct horse")
