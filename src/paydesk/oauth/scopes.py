"""Scopes: what a token is good for, written as one string of names with single spaces, in alphabetical order."""

from __future__ import annotations

from functools import lru_cache

from paydesk.oauth.errors import INVALID_SCOPE

OFFLINE_ACCESS = "offline_access"
READ = "read"
WRITE = "write"
SCOPES = (OFFLINE_ACCESS, READ, WRITE)
PATTERN = "^({0})( ({0})){{0,2}}$".format("|".join(SCOPES))
"""Of these; that each is named once a pattern doesn't say."""


class ScopeError(ValueError):
    """A scope string is malformed or names a scope that does not exist; the message says which."""


def parse(text: str) -> frozenset[str]:
    """The scopes in `text` (RFC 6749 section 3.3, of which an empty string is no instance). Raises `ScopeError`."""
    names = text.split(" ")
    if "" in names:
        raise ScopeError("scope is empty or has a space too many")
    if not set(names) <= set(SCOPES):
        raise ScopeError("scope is unknown")
    if len(set(names)) < len(names):
        raise ScopeError("scope is doubled")
    return frozenset(names)


def canonical(text: str) -> str:
    """The same scopes in alphabetical order. Raises `ScopeError`."""
    scopes = parse(text)
    return " ".join(name for name in SCOPES if name in scopes)


def narrow(granted: str, requested: str | None) -> str:
    """What is asked for out of what was granted, in alphabetical order; all of it where nothing is asked for.

    An empty `requested` asks for nothing (RFC 6749 section 3.2). Raises INVALID_SCOPE where it is malformed or wider
    than `granted`.
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
    """Return the scopes that both stored strings have, in alphabetical order; an empty string where there are none."""
    both = set(granted.split(" ")) & set(allowed.split(" "))
    return " ".join([name for name in SCOPES if name in both])


def includes(scope: str, *names: str) -> bool:
    """Whether every one of `names` is among the scopes of the stored string."""
    return set(names) <= set(scope.split(" "))
