"""`python -m bench.refusals`: test whether response times reveal which clients and sellers exist.

Attempts for unknown accounts and with wrong secrets go to a node on each database, in random order, and are
timed by a client in another process. The table has the medians and the AUC: how often one kind of attempt took longer
than the other, 0.5 if they cannot be distinguished. Rate limits are off, because throttled attempts are faster.
"""

from __future__ import annotations

import argparse
import asyncio
import bisect
import http.client
import json
import random
import re
import secrets
import statistics
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench import seed
from bench.postgres import Postgres
from bench.rows import DATABASES
from bench.running import free_port, started
from paydesk.core.clock import SystemClock
from paydesk.engine.oauth.clients import applications
from paydesk.engine.sellers import store as sellers
from paydesk.engine.sellers.passwords import hash_password
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Transaction
from paydesk.platform.storage.migrate import migrate

TRIES = 2_000
LANES = 2
"""Concurrent sign-ins: as many as are hashed at once, so that none waits."""
WARM_UP_TRIES = 20
PROVEN_AGAIN = 50
AUC_DISTANCE_MAX, MEDIANS_APART_MAX = 0.05, 0.05
ANSWER_SECONDS_MAX = 30.0


@dataclass(frozen=True)
class Parties:
    """The existing client and seller."""

    client_id: str
    client_secret: str
    email: str


@dataclass(frozen=True)
class Compared:
    """The durations in seconds of both kinds of attempts."""

    what: str
    unknown: list[float]
    wrong: list[float]

    @property
    def auc(self) -> float:
        """Return how often an attempt for an unknown account took longer than one with a wrong secret."""
        return auc(self.unknown, self.wrong)

    @property
    def apart(self) -> float:
        """Return the difference of the medians relative to the shorter one."""
        medians = statistics.median(self.unknown), statistics.median(self.wrong)
        return max(medians) / min(medians) - 1

    @property
    def tells_nothing(self) -> bool:
        """Return whether the two kinds cannot be distinguished."""
        return abs(self.auc - 0.5) <= AUC_DISTANCE_MAX and self.apart <= MEDIANS_APART_MAX


def main() -> None:
    """Measure, and print the table; exit with 1 if times reveal something."""
    arguments = _arguments()
    console, compared = Console(stderr=True), list[Compared]()
    with Progress(console=console) as progress:
        for name in arguments.databases:
            with _node(name) as (port, parties):
                one = progress.add_task(f"{name}, clients", total=arguments.tries)
                compared.append(_clients(name, port, parties, arguments.tries, lambda: progress.advance(one)))  # noqa: B023
                two = progress.add_task(f"{name}, sign-ins", total=arguments.sign_ins)
                compared.append(_sign_ins(name, port, parties, arguments.sign_ins, lambda: progress.advance(two)))  # noqa: B023
    # Output that is not a terminal has no width limit.
    (Console() if sys.stdout.isatty() else Console(width=130)).print(_table(compared))
    if not all(one.tells_nothing for one in compared):
        sys.exit(1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.refusals", description=__doc__)
    parser.add_argument("--databases", nargs="+", default=list(DATABASES), choices=DATABASES)
    parser.add_argument("--tries", type=int, default=TRIES, help="of clients, of each kind")
    parser.add_argument("--sign-ins", type=int, default=TRIES, help="of each kind; half a second each")
    return parser.parse_args()


@contextmanager
def _node(name: str) -> Iterator[tuple[int, Parties]]:
    """Run a node on a database of that kind in a separate process, and return its accounts."""
    with ExitStack() as stack:
        if name == "sqlite":
            url = f"sqlite:{stack.enter_context(tempfile.TemporaryDirectory(prefix='paydesk-bench-'))}/paydesk.db"
        else:
            postgres = Postgres(clients_max=LANES)
            stack.callback(postgres.end)
            url = postgres.create_database("refusals")
        parties, port = asyncio.run(_seeded(url)), free_port()
        stack.enter_context(started([sys.executable, "-m", "bench.node", url, str(port)], port, "/livez"))
        yield port, parties


async def _seeded(url: str) -> Parties:
    database, now_ms = await open_database(url), SystemClock().now_ms()
    email, password_hash = "owner@shop.example", await hash_password(secrets.token_hex(8))

    async def work(tx: Transaction) -> Parties:
        application, secret = await applications.create(
            tx, name="Till", redirect_uris=("https://till.example",), scopes=seed.SCOPE, now_ms=now_ms
        )
        made = await sellers.create(
            tx, email=email, name="Shop", country="BRA", currency="BRL", password_hash=password_hash, now_ms=now_ms
        )
        assert made is not None
        return Parties(str(application.application_id), secret.reveal(), email)

    try:
        await migrate(database, now_ms)
        return await database.write(work)
    finally:
        await database.close()


class Client:
    """A persistent connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS_MAX)

    def send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, float, bytes, str]:
        """Send a request; return its status, its duration in seconds, the body and the cookie."""
        began = time.perf_counter()
        self._connection.request(method, path, body, headers)
        answer = self._connection.getresponse()
        raw = answer.read()
        cookie = (answer.getheader("set-cookie") or "").partition(";")[0]
        return answer.status, time.perf_counter() - began, raw, cookie

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _clients(name: str, port: int, parties: Parties, tries: int, done: Callable[[], object]) -> Compared:
    """Try wrong secrets of an existing client and of unknown ones."""
    client = Client(port)
    compared = Compared(f"{name}: client_id unknown, secret wrong", [], [])

    def ask(client_id: str, client_secret: str, code: str) -> float:
        body = {"client_id": client_id, "client_secret": client_secret}
        body |= {"grant_type": "refresh_token", "refresh_token": f"TG-{secrets.token_hex(20)}-1160535239"}
        headers = {"content-type": "application/json"}
        status, seconds, raw, _ = client.send("POST", "/oauth/token", json.dumps(body).encode(), headers)
        assert (status, json.loads(raw)["error"]) == (400, code), raw
        return seconds

    def unknown() -> float:
        return ask(str(random.randrange(10**15, 10**16)), secrets.token_hex(32), "invalid_client")  # noqa: S311

    def wrong() -> float:
        return ask(parties.client_id, secrets.token_hex(32), "invalid_client")

    for number in range(-WARM_UP_TRIES, tries):
        if number % PROVEN_AGAIN == 0:
            ask(parties.client_id, parties.client_secret, "invalid_grant")
        _one_of_each(compared, unknown, wrong, keep=number >= 0)
        if number >= 0:
            done()
    client.close()
    return compared


def _sign_ins(name: str, port: int, parties: Parties, tries: int, done: Callable[[], object]) -> Compared:
    """Try wrong passwords of an existing seller and of unknown ones."""
    compared = Compared(f"{name}: e-mail unknown, password wrong", [], [])

    def lane(count: int) -> None:
        client = Client(port)
        _, _, page, cookie = client.send("GET", "/sign-in", b"", {})
        found = re.search(rb'name="form_token" value="([^"]+)"', page)
        assert found is not None, page
        headers = {"content-type": "application/x-www-form-urlencoded", "cookie": cookie}

        def ask(email: str) -> float:
            form = {"form_token": found[1].decode(), "return_to": "", "email": email, "password": secrets.token_hex(8)}
            body = urllib.parse.urlencode(form).encode()
            status, seconds, raw, _ = client.send("POST", "/sign-in", body, headers)
            assert status == 403, (status, raw)
            return seconds

        def unknown() -> float:
            return ask(f"{secrets.token_hex(3)[1:]}@{parties.email.partition('@')[2]}")

        def wrong() -> float:
            return ask(parties.email)

        for number in range(-1, count):
            _one_of_each(compared, unknown, wrong, keep=number >= 0)
            if number >= 0:
                done()
        client.close()

    with ThreadPoolExecutor(LANES) as pool:
        list(pool.map(lane, [tries // LANES] * LANES))
    return compared


def _one_of_each(compared: Compared, unknown: Callable[[], float], wrong: Callable[[], float], *, keep: bool) -> None:
    """Make one attempt of each kind in random order, so that other load on the machine affects both."""
    kinds = [(unknown, compared.unknown), (wrong, compared.wrong)]
    random.shuffle(kinds)
    for ask, seconds in kinds:
        took = ask()
        if keep:
            seconds.append(took)


def auc(longer: list[float], shorter: list[float]) -> float:
    """Return how often a value of the first list is above one of the second; equal ones count half."""
    ordered = sorted(shorter)
    above = sum(bisect.bisect_left(ordered, one) + bisect.bisect_right(ordered, one) for one in longer)
    return above / (2 * len(longer) * len(shorter))


def _table(compared: list[Compared]) -> Table:
    table = Table("Refused", "Tries each", "Unknown", "Wrong", "Medians apart", "AUC", "Indistinguishable")
    for one in compared:
        table.add_row(
            one.what,
            f"{len(one.unknown):,}",
            f"{statistics.median(one.unknown) * 1000:.3f} ms",
            f"{statistics.median(one.wrong) * 1000:.3f} ms",
            f"{one.apart:.1%}",
            f"{one.auc:.3f}",
            "yes" if one.tells_nothing else "NO",
        )
    return table


if __name__ == "__main__":
    main()
