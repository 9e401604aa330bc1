"""The hook for the operations on terminals in a process that runs virtual ones, as `paydesk dev` does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VirtualTerminals:
    """Functions about the virtual terminals of this process. Each gets the id of a terminal, but `script`."""

    is_running: Callable[[str], bool]
    """Return whether this process runs the terminal."""
    page_url: Callable[[str], str]
    """Return the address of its page, with a key that lets its holder use the terminal."""
    script: Callable[[str], str]
    """Return a script as it is stored. Raises `ValueError` for an invalid one, which says what a script is."""
    set_script: Callable[[str, str], Awaitable[None]]
    """Let the terminal follow a script from the next order on."""
    remove: Callable[[str], Awaitable[None]]
    """Stop the terminal, if it runs, and forget it."""
