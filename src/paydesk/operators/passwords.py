"""Passwords that are made for sellers."""

from __future__ import annotations

import secrets

LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"


def new_password() -> str:
    """Twenty characters that can be read out and typed in, about 99 random bits."""
    return "-".join("".join(secrets.choice(LETTERS) for _ in range(4)) for _ in range(5))
