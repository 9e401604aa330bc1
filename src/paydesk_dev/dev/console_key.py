"""The key in the link with which `paydesk dev` opens the console: random, valid while the process runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from paydesk.core.secrets import new_hex, same

PATH = "/console/enter"
PARAMETER = "key"


@dataclass(frozen=True, slots=True)
class ConsoleKey:
    """A key that signs in as one operator."""

    operator_id: str
    value: str = field(default_factory=lambda: new_hex(160), repr=False)

    def is_valid(self, text: str) -> bool:
        """Return whether the text is the key."""
        return same(text, self.value)

    def url(self, base_url: str) -> str:
        """Return the address that leads to the console."""
        return f"{base_url}{PATH}?{PARAMETER}={self.value}"
