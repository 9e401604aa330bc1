"""The faults that a virtual terminal makes: those of its flaky script, and the acknowledgement that a person loses."""

from __future__ import annotations

import secrets
from collections import Counter

from paydesk.core import runtime
from paydesk.core.faults import SEED_MAX, Fault, create
from paydesk_dev.faults.active import Active, Faults
from paydesk_dev.virtual.terminal.network import DisturbedNetwork, flaky


class OwnFaults:
    """The faults of one terminal: in the service, if it runs in this process, else in the terminal's network.

    `seed` makes those of a flaky script the same in each run; `counts` has those of the network by kind.
    """

    def __init__(
        self, terminal_id: str, counts: Counter[str], service: Faults | None = None, seed: int | None = None
    ) -> None:
        self._terminal_id, self._counts, self._service = terminal_id, counts, service
        self._seed = secrets.randbelow(SEED_MAX) if seed is None else seed
        self._active = dict[str, Active]()

    def flaky(self, probability: float) -> DisturbedNetwork | None:
        """Disturb requests with this probability from now on; return the network that does it if the service cannot."""
        fault = flaky(probability, self._terminal_id, self._seed) if probability else None
        if self._service is None:
            return None if fault is None else DisturbedNetwork(fault, self._counts)
        self._set(self._service, "flaky", fault)
        return None

    def lose_acknowledgement(self) -> bool:
        """Lose the answer to the next acknowledgement; return False if the service is another process."""
        if self._service is None:
            return False
        fault = create("terminal", "device_acknowledge", "answer_lost", {"terminal": self._terminal_id})
        self._set(self._service, "acknowledgement", fault)
        return True

    def remove(self) -> None:
        """Remove them from the service."""
        for name in tuple(self._active):
            assert self._service is not None, "without a service it has none"
            self._set(self._service, name, None)

    def _set(self, service: Faults, name: str, fault: Fault | None) -> None:
        """Put the fault in the place of the last one of this name, unless that is the same and still fires."""
        active = self._active.get(name)
        if active is not None and active.fault == fault and not (active.is_spent or active.is_removed):
            return
        if active is not None:
            service.remove(self._active.pop(name))
        if fault is not None:
            self._active[name] = service.add(fault, runtime.wall_ns() // 1_000_000, of_terminal=True)
