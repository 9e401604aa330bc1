"""The tests of the till: every unhappy path of a sale. `pip install 'paydesk[dev]' pytest`, then `pytest`."""

import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from till_client import Client, Document, Unknown, rows

from paydesk_dev.paths.path import all_paths
from paydesk_dev.paths.play import Play
from paydesk_dev.testing.service import Service
from till import Till

PATHS = all_paths()


class KilledClient(Client):
    """A client whose process can be killed: nothing is sent after that."""

    is_killed = False

    def send(self, *request: Any) -> tuple[int, str, Document]:
        """Send a request, if the process is there."""
        if self.is_killed:
            raise Unknown
        return super().send(*request)


def end_of_threads(threads: Iterable[threading.Thread] = ()) -> None:
    """Wait for threads, and for those in which a notification or a cancel has a till follow a sale."""
    for thread in [*threads, *(one for one in threading.enumerate() if one.name.endswith("(follow)"))]:
        thread.join()


class PlayedTill:
    """The till as a path uses it: the calls that wait for a buyer run in threads."""

    def __init__(
        self, play: Play, file: Path, kind: type[Till] = Till, client: type[KilledClient] = KilledClient
    ) -> None:
        self.play, self.file, self.kind, self.client_kind = play, str(file), kind, client
        self.threads, self.cashier = list[threading.Thread](), threading.Lock()
        self.start()
        play.paydesk.webhooks.receiver(self.receive)

    def start(self) -> None:
        """Start it, as after a kill: it goes on with each sale in a thread, as a sweep does in turn."""
        self.client = self.client_kind(self.file, self.play.environment, timeout=1, pause=0.1, patience=3)
        self.till = self.kind(self.file, self.play.environment, self.client)
        for sale in rows(self.file, "SELECT reference FROM sales WHERE watched"):
            self._begin(self.till.follow, sale["reference"])

    def kill(self) -> None:
        """Kill it."""
        self.client.is_killed = True

    def close(self) -> None:
        """End it, and wait for its threads."""
        self.kill()
        while self.till.hints:
            for event in [*self.till.hints.values()]:
                event.set()
            threading.Event().wait(0.01)
        end_of_threads(self.threads)

    def receive(self, headers: Mapping[str, str], body: bytes, target: str) -> int:
        """Take a notification."""
        return self.till.receive(headers, body, target)

    def sale(self, reference: str, amount: str) -> None:
        """Warn, and sell."""
        self._begin(lambda: (self.till.warning(), self.till.sale(reference, amount)))

    def cancel(self, reference: str) -> None:
        """Cancel."""
        self._begin(self.till.cancel, reference)

    def refund(self, reference: str, amount: str | None) -> None:
        """Refund."""
        self._begin(self._refund, self.till, reference, amount)

    def status(self, reference: str) -> str:
        """Return the status of the sale."""
        found = rows(self.file, "SELECT status FROM sales WHERE reference = ?", reference)
        return found[0]["status"] if found else "open"

    def _refund(self, till: Till, reference: str, amount: str | None) -> None:
        with self.cashier:
            till.shown(till.refund(reference, amount))

    def _begin(self, work: Callable[..., object], *values: Any) -> None:
        self.threads.append(threading.Thread(target=work, args=values, daemon=True))
        self.threads[-1].start()


@pytest.mark.parametrize("path_id", PATHS)
def test_a_path_ends_as_it_has_to(
    path_id: str, paydesk_service: Service, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Whatever happens, the buyer is charged once, and the goods are handed over for a payment alone."""
    if PATHS[path_id].moves_clock:
        request.getfixturevalue("paydesk_clock")  # It refuses, or skips, the clock of a shared service.
    play = Play(PATHS[path_id], paydesk_service, quiet_seconds=1)
    till = PlayedTill(play, tmp_path / "till.db")
    assert play.run(till) == []
    till.close()
