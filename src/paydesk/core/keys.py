"""The server keys, from which tokens and webhook secrets are derived. In a file of mode 0600, never in the database.

Each key has a version. New values are derived from the active key; older keys remain for values derived from them.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from paydesk.core import atomic_file, runtime

KEY_BYTES = 32
DISTINCT_BYTES_MIN = 17
"""Fewer than 17 of 32 random bytes are distinct once in 10^14 keys. 16 bytes repeated have at most 16."""

LOG_INTERVAL_SECONDS = 60.0
"""A missing key version is logged at most once in this time."""


class KeysError(Exception):
    """The key file is missing, readable by other users or invalid; the message says what to do."""


class KeyMissing(Exception):
    """This node lacks a key version that another node has used: answered 503, never as an invalid credential."""

    message = "This node lacks a server key; nothing was done. Other nodes may have it."

    def __init__(self, version: int, reason: str) -> None:
        super().__init__(reason)
        self.version = version


class Keys:
    """The keys of this node by version, and which of them is active."""

    def __init__(self, active: int, keys: dict[int, bytes], monotonic: Callable[[], float] = runtime.monotonic) -> None:
        assert active in keys, "the active key must exist"
        self.active, self._keys = active, keys
        self._monotonic, self._logged = monotonic, dict[int, float]()

    def __repr__(self) -> str:
        return f"Keys(active={self.active}, versions={self.versions})"

    @property
    def versions(self) -> list[int]:
        """Return the versions that this node has."""
        return sorted(self._keys)

    def derive(self, version: int, *parts: str | bytes) -> bytes:
        """Return 32 bytes: HMAC-SHA256 with the key of `version` over the length-prefixed parts.

        Raises `KeyMissing` if this node lacks that version.
        """
        key = self._keys.get(version)
        if key is None:
            raise KeyMissing(version, f"this node has no server key of version {version}; it has {self.versions}")
        message = b""
        for part in parts:
            raw = part.encode() if isinstance(part, str) else part
            message += len(raw).to_bytes(4, "big") + raw
        return hmac.digest(key, message, "sha256")

    def fingerprint(self, version: int) -> str:
        """Return a short fingerprint, by which operators compare the keys of nodes without seeing them."""
        return self.derive(version, "fingerprint")[:4].hex()

    def weakness(self) -> str | None:
        """Describe a key that is not random or two that are the same; return None if there are none."""
        same: dict[bytes, int] = {}
        for version, key in sorted(self._keys.items()):
            if _is_guessable(key):
                return f"the server key of version {version} is not random, and what is derived from it can be guessed"
            if key in same:
                return f"the server keys of versions {same[key]} and {version} are the same: the newer replaces nothing"
            same[key] = version
        return None

    def should_log_missing(self, version: int) -> bool:
        """Return whether to log that a version is missing: once per version in `LOG_INTERVAL_SECONDS`."""
        now, logged = self._monotonic(), self._logged.get(version)
        if logged is not None and now < logged + LOG_INTERVAL_SECONDS:
            return False
        self._logged[version] = now
        return True


def _is_guessable(key: bytes) -> bool:
    """Return whether the key repeats itself, counts up or down, or is text, as keys typed by hand do."""
    steps = {(after - before) % 256 for before, after in pairwise(key)}
    return len(set(key)) < DISTINCT_BYTES_MIN or len(steps) == 1 or all(0x20 <= byte < 0x7F for byte in key)


def check(path: Path, keys: Keys) -> None:
    """Raise `KeysError` if a key is not random or two are the same."""
    weakness = keys.weakness()
    if weakness:
        raise KeysError(
            f"{path}: {weakness}. Run `paydesk keys add --activate`, remove that version from the file, copy the file"
            " to every node, and recreate the webhook subscriptions whose secrets were derived from that version."
        )


def read(path: Path) -> Keys:
    """Read the key file. Raises `KeysError`."""
    try:
        if path.stat().st_mode & 0o077:
            raise KeysError(f"{path}: other users can read the server keys. Run: chmod 600 {path}")
        document = json.loads(path.read_text())
        keys = {int(version): bytes.fromhex(key) for version, key in document["keys"].items()}
        for version, key in keys.items():
            if len(key) != KEY_BYTES:
                raise KeysError(
                    f"{path}: the server key of version {version} has {len(key)} bytes instead of {KEY_BYTES}."
                    " Restore the file as `paydesk keys add` wrote it."
                )
        if min(keys) < 1:
            raise ValueError
        return Keys(document["active"], keys)
    except FileNotFoundError:
        raise KeysError(f"{path}: there are no server keys yet. Run: paydesk keys add") from None
    except OSError as error:
        raise KeysError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError):
        raise KeysError(f"{path} is not a key file that Paydesk wrote. Restore it from its backup.") from None


def add(path: Path, *, activate: bool) -> int:
    """Add a new random key to the file, creating the file if it is missing, and return the key's version.

    Raises `KeysError` if the file exists and is invalid.
    """
    document: dict[str, Any] = _document(path) if path.exists() else {"active": 0, "keys": {}}
    keys: dict[str, str] = document["keys"]
    version = max((int(known) for known in keys), default=0) + 1
    keys[str(version)] = secrets.token_hex(KEY_BYTES)
    _write(path, version if activate or not document["active"] else document["active"], keys)
    return version


def activate(path: Path, version: int) -> None:
    """Make the key of `version` the active one. Raises `KeysError` if the file lacks it."""
    document = _document(path)
    if str(version) not in document["keys"]:
        raise KeysError(f"{path} has no key of version {version}; it has {', '.join(document['keys'])}")
    _write(path, version, document["keys"])


def _document(path: Path) -> dict[str, Any]:
    read(path)
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def _write(path: Path, active: int, keys: dict[str, str]) -> None:
    """Write the file atomically and durably: values derived from a lost key cannot be derived again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_file.replace(path, json.dumps({"active": active, "keys": keys}).encode())
