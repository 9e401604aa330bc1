"""The secret with which `webhooks listen` and `webhooks trigger` sign: given, or made once for the credentials file."""

from __future__ import annotations

import base64
import binascii
import fcntl
import json
import os
import secrets
from pathlib import Path
from typing import Annotated

import typer

from paydesk.commands.client.credentials import credentials_path
from paydesk.commands.client.credentials_file import exists, read_document
from paydesk.commands.client.failure import WrongUsage
from paydesk.core import atomic_file
from paydesk.core.secrets import Secret

FIELD = "listen_secret"
PREFIX = "whsec_"
KEY_BYTES = 32

SigningSecret = Annotated[
    str | None,
    typer.Option(
        "--secret",
        metavar="WHSEC",
        help="The secret to sign with. [default: one that is made once and kept in the credentials file]",
    ),
]


def signing_secret(given: str | None, credentials: Path | None) -> Secret:
    """Return the given secret, or that of the credentials file, which gets one if it has none.

    Raises `WrongUsage` if there is neither, or if the secret is invalid.
    """
    if given is not None:
        return checked(given, "The value of --secret")
    path = credentials_path(credentials)
    if not exists(path):
        raise WrongUsage(
            f"There is no secret to sign with: the credentials file {path} does not exist.",
            "Give one with --secret whsec_…, name the file with --credentials, or start `paydesk dev`.",
        )
    try:
        folder = os.open(path.parent, os.O_RDONLY)
    except OSError as error:
        raise WrongUsage(f"The credentials file {path} cannot be read: {error.strerror}.") from None
    try:
        # Two commands at once make only one secret.
        fcntl.flock(folder, fcntl.LOCK_EX)
        if FIELD in (document := read_document(path)):
            return checked(str(document[FIELD]), f"{FIELD} in {path}")
        created = PREFIX + base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()
        atomic_file.replace(
            path, f"{json.dumps({**json.loads(path.read_bytes()), FIELD: created}, indent=2)}\n".encode()
        )
        return Secret(created)
    except OSError as error:
        raise WrongUsage(f"{path} cannot be written: {error.strerror}. Give a secret with --secret whsec_…") from None
    finally:
        os.close(folder)


def checked(text: str, name: str) -> Secret:
    """Return the secret. Raises `WrongUsage` if it is not one; the message does not contain it."""
    try:
        is_valid = text.startswith(PREFIX) and base64.b64decode(text.removeprefix(PREFIX), validate=True) != b""
    except (binascii.Error, ValueError):
        is_valid = False
    if not is_valid:
        raise WrongUsage(
            f"{name} is not a webhook secret.",
            f"It must be {PREFIX} and base64, as `paydesk subscriptions create` prints it.",
        )
    return Secret(text)
