"""`paydesk serve` of two versions, the kept one and this checkout's, and the requests that both must answer."""

from __future__ import annotations

import itertools
import subprocess
import threading
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest

from forks import Fork, Forks
from paydesk import __version__
from paydesk_process import environment, request
from serve_process import ServeProcess
from service import approved, order_body
from upgrade import copied, kept, planted
from upgrade.kept import Facts
from waiting import HANGS_SECONDS, wait_until

LISTS = (
    *("applications", "sellers", "operators", "sessions?operator=all", "requests", "grants", "stores", "pos"),
    *("terminals", "subscriptions", "orders", "deliveries", "reversals", "refunds", "events", "audit"),
)
"""Lists of operators; each has rows in what is kept."""
SAME_LISTS = ("applications", "sellers", "operators", "grants", "stores", "pos")
"""Those whose rows no request of the load changes."""
CHANGING = frozenset({"created", "at_terminal", "processed"})
"""Statuses of kept orders that may be others after a while, or after a test's requests."""
PAUSE_SECONDS = 0.02
"""Between the orders of a client."""
SLOW = "database: unreachable"
"""What a version reports whose database has not answered within 0.7 s: a busy machine is no fault of a migration.

Requests that fail for the same reason are.
"""
READY_PAUSE_SECONDS = 0.3
"""Between questions for the readiness of a version, which looks at its database once a second."""


ADDITIVE = """
ALTER TABLE orders ADD COLUMN till text;
CREATE INDEX orders_by_till ON orders (seller_id, till);
CREATE TABLE tills (seller_id bigint NOT NULL, till text NOT NULL, PRIMARY KEY (seller_id, till))"""
"""A migration as it may be."""
FOLLOWING = f"{int(__version__.partition('.')[0]) + 1}.0.0"
"""The version that has one more migration, on which this one may run."""


@contextmanager
def next_version(folder: Path, migration: str) -> Iterator[Forks]:
    """Make the processes of the next version: a copy of this one, in the folder, with one more migration."""
    copy, output = folder / "copy", folder / "version.txt"
    copied.make(copy, FOLLOWING, f"-- runs with {__version__}\n{migration}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(copied.COPY, str(copy))
        forks = Forks("upgrade.copied", parent="following")
        assert forks.start(("--version",), environment(), output).wait(HANGS_SECONDS) == 0
        assert output.read_text() == f"paydesk {FOLLOWING}\n"
        yield forks


class Version(ServeProcess):
    """`paydesk serve` of one version, whose processes `forks` starts; a failure names it."""

    def __init__(self, name: str, forks: Forks, database_url: str, folder: Path, migration: str = "") -> None:
        self.name, self._forks, self._starts = name, forks, 0
        (own := folder / name).mkdir()
        kept.write_keys(own)
        super().__init__(database_url, own)
        self.variables[planted.PLANTED] = migration
        self.log.touch()

    def start(self, *options: str) -> Fork:
        """Start `paydesk serve` without waiting."""
        self.process = self._run(("serve", *options), self.log)
        return self.process

    def serves(self) -> None:
        """Start `paydesk serve`, and wait until it listens."""
        self.start()
        self._starts += 1
        self.wait_for("listening", self._starts)

    def is_ready(self) -> None:
        """Wait until both listeners report that the database is theirs: for the first time, so it is looked at now."""
        for url in (self.clients, self.operators):
            wait_until(lambda url=url: request("GET", f"{url}/readyz")[0] == 200, lambda: f"{self.name} is not ready")  # type: ignore[misc]

    def ends(self) -> None:
        """Send SIGTERM to `paydesk serve`; it has logged no error: neither a request's nor a worker's."""
        assert self.process is not None, "it was started"
        self.end(self.process)
        errors = [line for line in self.lines() if line["level"] == "error"]
        assert not errors, f"{self.name}: it logs {errors[0]}"

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run another command until it ends."""
        output = self.folder / f"{uuid.uuid4().hex}.out"
        code = self._run(arguments, output).wait(HANGS_SECONDS)
        return subprocess.CompletedProcess(arguments, code, output.read_text(), "")

    def ask(
        self,
        method: str,
        path: str,
        token: str = "",
        body: Any = None,
        *,
        expected: int = 200,
        is_operator: bool = False,
    ) -> Any:
        """Return the body of the response to a request; it has the expected status."""
        url = (self.operators if is_operator else self.clients) + path
        headers = {"X-Idempotency-Key": str(uuid.uuid4())} if path.startswith("/v1/") else {}
        status, answer = request(method, url, token, body, headers)
        assert status == expected, f"{self.name}: {method} {path} is answered with {status}: {answer}"
        return answer

    def _run(self, arguments: tuple[str, ...], output: Path) -> Fork:
        return self._forks.start(arguments, environment(**self.variables), output, folder=self.folder)


@dataclass
class Client:
    """The application, operator and terminals of the kept database, whose tokens go from version to version."""

    facts: Facts
    orders: dict[str, str] = field(default_factory=dict)
    """The status of each order that a response showed last: nothing else changes these orders."""

    def tries(self, version: Version) -> None:
        """Try one of everything at a version. Raises `AssertionError` if it does not answer as it should."""
        self._refreshes(version)
        self._reads(version)
        till, *_, last = self.facts.tills
        order_id = self.creates(version, till[0])
        self.cancels(version, order_id)
        self._pays(version, last)
        paid = self.facts.orders["processed/partially_refunded/partially_refunded"]
        part = {"transactions": [{"id": f"PAY{paid[3:]}", "amount": "0.50"}]}
        version.ask("POST", f"/v1/orders/{paid}/refund", self.facts.access_token, part, expected=201)
        self._operates(version)

    def compares(self, first: Version, second: Version) -> None:
        """Check that both versions give the same answers about what no other request changes now."""
        kept_orders = [
            order_id for state, order_id in self.facts.orders.items() if state.partition("/")[0] not in CHANGING
        ]
        canceled = [order_id for order_id, status in tuple(self.orders.items()) if status == "canceled"]
        paths = [f"/v1/orders/{order_id}" for order_id in (*kept_orders, *canceled[-20:])]
        paths.append(f"/v1/orders?terminal_id={self.facts.tills[0][0]}")
        for path in paths:
            one, other = (version.ask("GET", path, self.facts.access_token) for version in (first, second))
            assert one == other, f"{first.name} and {second.name} differ: {path}"
        for name in SAME_LISTS:
            one, other = (
                version.ask("GET", f"/operator/v1/{name}", self.facts.operator_token, is_operator=True)
                for version in (first, second)
            )
            assert one == other, f"{first.name} and {second.name} differ: {name}"

    def finds(self, version: Version) -> None:
        """Check that a version has every order as a response showed it last."""
        for order_id, status in self.orders.items():
            found = version.ask("GET", f"/v1/orders/{order_id}", self.facts.access_token)["status"]
            assert found == status, f"{version.name}: {order_id} is {found}, and a response was {status}"

    def _refreshes(self, version: Version) -> None:
        """Replace the tokens, which another version issued, by new ones."""
        client = {"client_id": self.facts.client_id, "client_secret": self.facts.client_secret}
        refresh = {"grant_type": "refresh_token", "refresh_token": self.facts.refresh_token}
        tokens = version.ask("POST", "/oauth/token", body={**client, **refresh})
        self.facts.access_token, self.facts.refresh_token = tokens["access_token"], tokens["refresh_token"]

    def _reads(self, version: Version) -> None:
        """Read every kept order."""
        for state, order_id in self.facts.orders.items():
            order = version.ask("GET", f"/v1/orders/{order_id}", self.facts.access_token)
            status, detail, payment_detail = state.split("/")
            found = order["status"], order["status_detail"], order["transactions"]["payments"][0]["status_detail"]
            assert status in CHANGING or found == (status, detail, payment_detail), f"{version.name}: {order}"

    def creates(self, version: Version, terminal_id: str) -> str:
        """Create an order, find it in the list, and return its id."""
        order = version.ask("POST", "/v1/orders", self.facts.access_token, order_body(terminal_id), expected=201)
        order_id: str = order["id"]
        self.orders[order_id] = order["status"]
        listed = version.ask("GET", f"/v1/orders?terminal_id={terminal_id}", self.facts.access_token)
        assert order_id in [one["id"] for one in listed["data"]], f"{version.name} does not list {order_id}"
        return order_id

    def cancels(self, version: Version, order_id: str) -> None:
        """Cancel an order that is open."""
        canceled = version.ask("POST", f"/v1/orders/{order_id}/cancel", self.facts.access_token)
        self.orders[order_id] = canceled["status"]

    def trades(self, till: list[str]) -> Callable[[Pick], None]:
        """Return a client that creates orders at a kept terminal, and cancels them."""
        return lambda pick: self.cancels(pick(), self.creates(pick(), till[0]))

    def _pays(self, version: Version, till: list[str]) -> None:
        """Make a payment at a kept terminal, and refund it."""
        terminal_id, token = till
        order_id, boot_id = self.creates(version, terminal_id), str(uuid.uuid4())
        lease, boot = f"/device/v1/leases/{order_id[3:]}", {"boot_id": boot_id}
        version.ask("POST", "/device/v1/hello", token, {**boot, "app_version": "1", "journal": []})
        assert version.ask("GET", f"/device/v1/next?boot_id={boot_id}&wait=1", token)["order"]["id"] == order_id
        version.ask("POST", f"{lease}/ack", token, boot)
        version.ask("POST", f"{lease}/progress", token, {**boot, "seq": 1, "step": "authorizing"})
        version.ask("PUT", f"{lease}/results/{uuid.uuid4()}", token, {**boot, **approved()})
        version.ask("POST", f"/v1/orders/{order_id}/refund", self.facts.access_token, expected=201)
        self.orders[order_id] = "refunded"

    def _operates(self, version: Version) -> None:
        """Read every list as an operator, and open the console's sign-in and first page."""
        for name in LISTS:
            rows = version.ask("GET", f"/operator/v1/{name}", self.facts.operator_token, is_operator=True)["data"]
            assert rows, f"{version.name} lists no {name}"
        port = urllib.parse.urlsplit(version.operators).port
        cookie = {"Cookie": f"paydesk_operator_{port}={self.facts.session}", "Accept": "text/html"}
        for path, headers in (("/console/sign-in", {"Accept": "text/html"}), ("/console", cookie)):
            page = urllib.request.Request(version.operators + path, headers=headers)  # noqa: S310 - our own address
            with urllib.request.urlopen(page, timeout=HANGS_SECONDS) as answer:  # noqa: S310 - the same
                assert answer.url == version.operators + path, f"{version.name}: {path} leads to {answer.url}"
                assert b"</html>" in answer.read()


Pick = Callable[[], Version]
"""Returns the version that the next request goes to."""


class Load:
    """Clients that trade until the end of the block, each request at another of the versions.

    Versions and clients may be added meanwhile, and a version removed before it ends. A response that a client does not
    expect ends its trade. Both listeners of each version are ready all the time.
    """

    def __init__(self, version: Version, *clients: Callable[[Pick], None]) -> None:
        self.versions, self._clients = [version], list(clients)
        self.requests, self._counts, self._failures = 0, list[int](), list[Exception]()
        self._readiness_checks, self._stop = 0, threading.Event()
        self._threads = [threading.Thread(target=self._watch)]

    def add(self, version: Version) -> None:
        """Send requests to this one too."""
        self.versions = [*self.versions, version]

    def remove(self, version: Version) -> None:
        """Send no more requests to this one, until those that were sent are answered."""
        self.versions = [one for one in self.versions if one is not version]
        checks = self._readiness_checks + 2
        self.goes_on(2)
        wait_until(lambda: bool(self._failures) or self._readiness_checks >= checks)

    def __enter__(self) -> Self:
        self._threads[0].start()
        for client in self._clients:
            self.joins(client)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def joins(self, client: Callable[[Pick], None]) -> None:
        """Let another client trade."""
        self._counts.append(0)
        self._threads.append(threading.Thread(target=self._loop, args=(client, len(self._counts) - 1)))
        self._threads[-1].start()

    def goes_on(self, count: int = 4) -> None:
        """Wait until each client has traded `count` times more. Raises what failed."""
        last = [one + count for one in self._counts]
        wait_until(lambda: bool(self._failures) or self._are_reached(last), lambda: self._counts)
        if self._failures:
            raise self._failures[0]

    def _are_reached(self, counts: list[int]) -> bool:
        return all(now >= count for now, count in zip(self._counts, counts, strict=True))

    def _watch(self) -> None:
        try:
            while not self._stop.wait(READY_PAUSE_SECONDS):
                for version in self.versions:
                    for url in (version.clients, version.operators):
                        status, answer = request("GET", f"{url}/readyz")
                        assert status == 200 or SLOW in str(answer), f"{version.name}: it is not ready: {answer}"
                self._readiness_checks += 1
        except (AssertionError, OSError) as error:
            self._failures.append(error)

    def _loop(self, client: Callable[[Pick], None], index: int) -> None:
        try:
            for number in itertools.takewhile(lambda _: not self._stop.wait(PAUSE_SECONDS), itertools.count()):
                picked = itertools.count(number)

                def pick(picked: Iterator[int] = picked) -> Version:
                    self.requests += 1
                    versions = self.versions
                    return versions[next(picked) % len(versions)]

                client(pick)
                self._counts[index] += 1
        except (AssertionError, OSError) as error:
            self._failures.append(error)
