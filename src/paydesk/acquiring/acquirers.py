"""Which acquirer an order has: the simulated one for test orders, always; for live ones what is configured."""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.acquiring import rules
from paydesk.acquiring.acquirer import Acquirer
from paydesk.acquiring.simulator import Simulator
from paydesk.clock import Clock
from paydesk.storage.database import Database


@dataclass(frozen=True, slots=True)
class Acquirers:
    """The acquirer of test orders and the one of live ones; None: there is none."""

    test: Acquirer | None = None
    live: Acquirer | None = None

    def of(self, live: bool) -> Acquirer | None:  # noqa: FBT001  # an order's or a token's own word
        """The acquirer of live orders or of test orders."""
        return self.live if live else self.test


NO_ACQUIRERS = Acquirers()


def configured(database: Database, clock: Clock, *, acquirer: str, script: str = "", seed: int = 0) -> Acquirers:
    """The acquirers by the settings. Raises `ValueError` for a script that is none."""
    parsed = rules.parse(script)
    test = Simulator(database, clock, script=parsed, seed=seed)
    live = Simulator(database, clock, live=True, script=parsed, seed=seed) if acquirer == "simulator" else None
    return Acquirers(test, live)
