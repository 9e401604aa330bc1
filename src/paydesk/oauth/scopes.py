"""Scopes: the permissions of a token, stored as one string of names with single spaces, in alphabetical order."""

from __future__ import annotations

from functools import lru_cache

from paydesk.oauth.errors import INVALID_SCOPE

OFFLINE_ACCESS = "offline_access"
READ = "read"
WRITE = "write"
SCOPES = (OFFLINE_ACCESS, READ, WRITE)
PATTERN = "^({0})( ({0})){{0,2}}$".format("|".join(SCOPES))
"""A list of these names; that each occurs once is checked by `parse`."""


class ScopeError(ValueError):
    """A scope string is malformed or names a scope that does not exist; the message says which."""


def parse(text: str) -> frozenset[str]:
    """Return the scopes in `text` (RFC 6749 section 3.3); an empty string is malformed. Raises `ScopeError`."""
    names = text.split(" ")
    if "" in names:
        raise ScopeError("scope is empty or has an extra space")
    if not set(names) <= set(SCOPES):
        raise ScopeError("scope is unknown")
    if len(set(names)) < len(names):
        raise ScopeError("a scope is repeated")
    return frozenset(names)


def canonical(text: str) -> str:
    """Return the same scopes in alphabetical order. Raises `ScopeError`."""
    scopes = parse(text)
    return " ".join(name for name in SCOPES if name in scopes)


def narrow(granted: str, requested: str | None) -> str:
    """Return the requested scopes in alphabetical order; all granted ones if `requested` is None or empty.

    Raises INVALID_SCOPE if `requested` is malformed or wider than `granted`.
    """
    if not requested:
        return granted
    try:
        scope = canonical(requested)
    except ScopeError as fault:
        raise INVALID_SCOPE.with_reason(str(fault)) from None
    if not includes(granted, *scope.split(" ")):
        raise INVALID_SCOPE.with_reason("scope is wider than granted")
    return scope


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
