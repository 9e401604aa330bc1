"""Passwords of sellers: how one is made, and which ones that are given are refused."""

from __future__ import annotations

import asyncio
import secrets

from paydesk.core.errors import PROPERTY_VALUE
from paydesk.oauth.consent.common_passwords import LETTERS_MIN, has_few_letters, is_common

LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"


def new_password() -> str:
    """Twenty characters that can be read out and typed in, about 99 random bits."""
    return "-".join("".join(secrets.choice(LETTERS) for _ in range(4)) for _ in range(5))


LOCAL_PART_MIN = 4
"""A shorter name before the @ is part of too many words."""


async def refuse_common(password: str) -> None:
    """Refuse a password that is guessed first. Raises `PROPERTY_VALUE`."""
    if not await asyncio.to_thread(is_common, password):
        return
    rule = "must not be a common word or name, also not with digits or signs around it or repeated"
    if has_few_letters(password):
        rule = f"must contain at least {LETTERS_MIN} letters beside digits and signs"
    raise PROPERTY_VALUE.with_reason(
        "common password",
        f"'$.password' - {rule}; use several words that have nothing to do with each other, or leave it out to have one"
        " made",
    )


def refuse_email(password: str, email: str) -> None:
    """Refuse a password that contains what stands before the @ of the e-mail address. Raises `PROPERTY_VALUE`."""
    local_part = email.rpartition("@")[0].casefold()
    if len(local_part) >= LOCAL_PART_MIN and local_part in password.casefold():
        raise PROPERTY_VALUE.with_reason(
            "password contains the e-mail address",
            "'$.password' - must not contain what stands before the @ of the seller's e-mail address;"
            " use other words, or leave it out to have one made",
        )
