"""Scopes: the permissions of a token, stored as one string of names with single spaces, in alphabetical order."""

from __future__ import annotations

from functools import lru_cache

OFFLINE_ACCESS = "offline_access"
READ = "read"
WRITE = "write"
SCOPES = (OFFLINE_ACCESS, READ, WRITE)
PATTERN = "^({0})( ({0})){{0,2}}$".format("|".join(SCOPES))
"""A list of these names; that each occurs once is checked by `canonical`."""


class ScopeError(ValueError):
    """A scope string is malformed or names a scope that does not exist; the message says which."""


def canonical(text: str) -> str:
    """Return the scopes in `text` (RFC 6749 section 3.3) in alphabetical order. Raises `ScopeError`."""
    names = text.split(" ")
    if "" in names:
        raise ScopeError("scope is empty or has an extra space")
    if not set(names) <= set(SCOPES):
        raise ScopeError("scope is unknown")
    if len(set(names)) < len(names):
        raise ScopeError("a scope is repeated")
    return " ".join(sorted(names))


@lru_cache(64)
def shared(granted: str, allowed: str) -> str:
    """Return the scopes that both stored strings have, in alphabetical order; an empty string if there are none."""
    both = set(granted.split(" ")) & set(allowed.split(" "))
    return " ".join([name for name in SCOPES if name in both])


def includes(scope: str, *names: str) -> bool:
    """Return whether the stored string has all of `names`."""
    return set(names) <= set(scope.split(" "))


def for_display(scope: str) -> list[str]:
    """Return the scopes of a stored string in the order of a page: the permissions before their duration."""
    return [name for name in (READ, WRITE, OFFLINE_ACCESS) if includes(scope, name)]
