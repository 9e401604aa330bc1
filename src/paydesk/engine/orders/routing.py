"""The acquirer that takes a new live order: the first rule that matches the order names it."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

import msgspec


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The orders that an acquirer takes: every condition that is given holds. `terminal` is a pattern: `MODEL__*`."""

    acquirer: str
    seller: int | None = None
    currency: str | None = None
    terminal: str | None = None

    def matches(self, seller_id: int, currency: str, terminal_id: str) -> bool:
        """Return True if the acquirer takes orders of this seller, in this currency, at this terminal."""
        return (
            self.seller in (None, seller_id)
            and self.currency in (None, currency)
            and (self.terminal is None or fnmatchcase(terminal_id, self.terminal))
        )


@dataclass(frozen=True, slots=True)
class Routing:
    """The rules in their order, and the acquirer of orders that none of them matches; None: no acquirer."""

    default: str | None = None
    rules: tuple[Rule, ...] = ()

    def acquirer_for(self, seller_id: int, currency: str, terminal_id: str) -> str | None:
        """Return the name of the acquirer of a live order."""
        for rule in self.rules:
            if rule.matches(seller_id, currency, terminal_id):
                return rule.acquirer
        return self.default


NO_ROUTING = Routing()
