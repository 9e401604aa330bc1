"""The address of a virtual terminal's page. Its key is derived under the server key: it survives a restart."""

from __future__ import annotations

import hmac

from paydesk.core.keys import Keys

PATH = "/virtual/"
_HEX_DIGITS = 32


def page_url(base_url: str, keys: Keys, terminal_id: str) -> str:
    """Return the address of the terminal's page. Its key lets its holder use the terminal."""
    return f"{base_url}{PATH}{terminal_id}?key={_key(keys, keys.active, terminal_id)}"


def is_valid(keys: Keys, terminal_id: str, key: str) -> bool:
    """Return whether it is the key of the terminal's page, under any of the server keys."""
    version, _, _ = key.partition("-")
    if version not in map(str, keys.versions) or not key.isascii():
        return False
    return hmac.compare_digest(key.encode(), _key(keys, int(version), terminal_id).encode())


def _key(keys: Keys, version: int, terminal_id: str) -> str:
    return f"{version}-{keys.derive(version, 'virtual-page', terminal_id).hex()[:_HEX_DIGITS]}"
