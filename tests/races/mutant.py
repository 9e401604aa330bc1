"""What a deliberate defect is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """A defect: what it breaks, what is wrong, the text it replaces in a file of `src`, and who notices."""

    promise: str
    defect: str
    file: str
    before: str
    after: str
    test: str
    which: str = ""
