"""Passwords: hashed with Argon2id, and nobody's password is never right."""

from __future__ import annotations

from paydesk.oauth.passwords import hash_password, verify_password


async def test_a_password_is_verified_against_its_hash() -> None:
    """The right one is right, every other is wrong, a broken hash included."""
    stored = await hash_password("correct horse")
    assert stored.startswith("$argon2id$")
    assert await verify_password(stored, "correct horse")
    assert not await verify_password(stored, "battery staple")
    assert not await verify_password("no hash", "correct horse")


async def test_nobody_signs_in() -> None:
    """Where there is no such seller no password is right, not even the stand-in's."""
    assert not await verify_password(None, "nobody's password")
    assert not await verify_password(None, "")
