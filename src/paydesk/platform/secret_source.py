"""Secrets that settings and adapters name by `file:PATH` or `env:NAME`; a secret itself is in no setting."""

from __future__ import annotations

import os
from pathlib import Path

from paydesk.core.secrets import Secret

CHARACTERS_MIN = 32


class SecretRefused(Exception):
    """A secret cannot be read or is too short; the message says what to change, never with the secret."""


def secret_of(reference: str, name: str = "secret") -> Secret:
    """Return the secret that `file:PATH` or `env:NAME` names; `name` is that of the option. Raises `SecretRefused`."""
    kind, _, place = reference.partition(":")
    if kind == "file" and place:
        value = private_text(Path(place)).strip()
    elif kind == "env" and place:
        value = os.environ.get(place, "").strip()
    else:
        raise SecretRefused(f'`{name}` must be "file:PATH" or "env:NAME"; a secret itself is refused')
    if not value:
        raise SecretRefused(f"the secret in {reference} is missing or empty")
    if len(value) < CHARACTERS_MIN:
        raise SecretRefused(
            f"the secret in {reference} has fewer than {CHARACTERS_MIN} characters: create one with"
            " `openssl rand -hex 32`"
        )
    return Secret(value)


def private_text(path: Path) -> str:
    """Return the text of a file that only its owner can read. Raises `SecretRefused`."""
    try:
        if path.stat().st_mode & 0o077:
            raise SecretRefused(f"other users of this machine can read {path}. Run: chmod 600 {path}")
        return path.read_text()
    except OSError as error:
        raise SecretRefused(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SecretRefused(f"{path} is not UTF-8") from None
