"""`make run ARGS="--acquirer http"`: live money by HTTP, with the example switch as the acquirer and its own ledger.

It starts `examples/switch/`, whose approvals wait for the terminal's result, and lets `paydesk dev` send live orders
there. Then the reference terminal of `examples/` is paired and paid at, the order is refunded, and both ledgers are
printed.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from paydesk.engine.payments.acquirer import HasLedger, LedgerEntry
from paydesk.engine.payments.adapters.context import AdapterContext
from paydesk.engine.payments.http.options import create

ROOT = Path(__file__).parents[1]
NAME, KEY_ID = "switch", "shop-1"
READY = "switch ready "
FILE = """\
# Written by `make run ARGS="--acquirer http"`: live orders go to the example switch.
[acquirers.{name}]
adapter = "http"
url = "{url}"
key_id = "{key_id}"
secret = "file:{secret}"
capabilities = {{ needs_confirmation = true }}
"""
SECONDS_MAX, POLL_SECONDS = 60, 0.2
SIGNS = {"payment": 1, "refund": -1, "reversal": -1, "confirmation": 0}


class LiveFailed(Exception):
    """The live payment did not go through; the message says where it stopped."""


@dataclass(frozen=True, slots=True)
class Switch:
    """The example switch that runs: its address, and the service's settings for it."""

    url: str
    secret: Path
    settings: dict[str, str]

    async def entries(self, payment_id: str) -> list[LedgerEntry]:
        """Return the entries of a payment in its ledger, the oldest first."""
        acquirer = create(NAME, {"url": self.url, "key_id": KEY_ID, "secret": f"file:{self.secret}"}, AdapterContext())
        assert isinstance(acquirer, HasLedger), "the adapter reads the ledger"
        try:
            since = datetime.now(UTC) - timedelta(hours=1)
            return [entry async for entry in acquirer.ledger(since) if entry.payment_id == payment_id]
        finally:
            await acquirer.close()


@contextmanager
def run_switch(data: Path) -> Iterator[Switch]:
    """Run the example switch with its ledger in the data folder."""
    secret, file = data / "switch.key", data / "acquirers.toml"
    if not secret.exists():
        _write_private(secret, secrets.token_hex(32) + "\n")
    program = ROOT / "examples" / "switch" / "switch.py"
    files = ["--database", str(data / "switch.db"), "--secret-file", str(secret)]
    options = ["--listen", "127.0.0.1:0", "--key-id", KEY_ID, *files, "--needs-confirmation"]
    log = data / "switch.log"
    with (
        os.fdopen(_open_private(log, os.O_APPEND), "a") as errors,
        subprocess.Popen(
            [sys.executable, str(program), *options],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None, "stdout is a pipe"
            line = process.stdout.readline()
            if not line.startswith(READY):
                raise LiveFailed(f"The example switch does not start; see {log}.")
            url = line.removeprefix(READY).strip()
            _write_private(file, FILE.format(name=NAME, url=url, key_id=KEY_ID, secret=secret.resolve()))
            print(line, end="", flush=True)
            yield Switch(url, secret, {"PAYDESK_ACQUIRER": NAME, "PAYDESK_ACQUIRERS_FILE": str(file)})
        finally:
            process.terminate()


@dataclass(frozen=True, slots=True)
class Client:
    """A client of the service, with its bearer token."""

    base_url: str
    token: str

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer. Raises `LiveFailed` for an error."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        if method == "POST":
            headers["X-Idempotency-Key"] = str(uuid.uuid4())
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base_url + path, data, headers, method=method)  # noqa: S310 - our own URL
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - the same
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise LiveFailed(f"{method} {path}: {error.code} {error.read().decode(errors='replace')[:300]}") from None

    def order(self, order_id: str, *statuses: str) -> dict[str, Any]:
        """Return the order once it has one of these statuses."""
        end = time.monotonic() + SECONDS_MAX
        while True:
            order: dict[str, Any] = self.call("GET", f"/v1/orders/{order_id}")
            if order["status"] in statuses:
                return order
            if time.monotonic() > end:
                raise LiveFailed(f"{order_id} is {order['status']} after {SECONDS_MAX} s.")
            time.sleep(POLL_SECONDS)


def pay(base_url: str, credentials: Path, switch: Switch) -> None:
    """Pay a live order at the reference terminal, refund it, and print both ledgers. Raises `LiveFailed`."""
    document = json.loads(credentials.read_text())
    seller = Client(base_url, document["live"]["access_token"])
    operator = Client(base_url, document["operator"]["token"])
    with _terminal(base_url, credentials.parent, operator, document["seller"]["user_id"]) as terminal_id:
        seller.call("PATCH", "/terminals/v1/setup", {"terminals": [{"id": terminal_id, "operating_mode": "PDV"}]})
        order = seller.call("POST", "/v1/orders", _order(terminal_id))
        amount = f"{order['total_amount']} {order['currency']}"
        print(f"\nA live order: {order['id']}, {amount}, at {terminal_id}", flush=True)
        paid = seller.order(order["id"], "processed", "failed", "canceled")
        (payment,) = paid["transactions"]["payments"]
        if paid["status"] != "processed":
            raise LiveFailed(f"{paid['id']} is {paid['status']}: {payment['status_detail']}.")
        print(f"  processed, reference {payment['reference_id']}", flush=True)
        seller.call("POST", f"/v1/orders/{order['id']}/refund")
        seller.order(order["id"], "refunded")
        print("  refunded", flush=True)
    _compare(operator, switch, order["id"])


def _order(terminal_id: str) -> dict[str, Any]:
    return {
        "type": "point",
        "external_reference": "live-1",
        "transactions": {"payments": [{"amount": "24.90"}]},
        "config": {"point": {"terminal_id": terminal_id}},
    }


@contextmanager
def _terminal(base_url: str, data: Path, operator: Client, seller_id: str) -> Iterator[str]:
    """Run the reference terminal, paired as a live one of kind `service`; yield its id."""
    program, journal = ROOT / "examples" / "terminal.py", data / "live-terminal.json"
    options = ["--serial", "LIVE-1", "--journal", str(journal), "--pair"]
    with subprocess.Popen(
        [sys.executable, str(program), base_url, *options],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        try:
            assert process.stdout is not None, "stdout is a pipe"
            code = process.stdout.readline().removeprefix("pairing code ").strip()
            approval = {"seller_id": int(seller_id), "kind": "service", "replace": True}
            paired = operator.call("POST", f"/operator/v1/pairings/{code}", approval)
            yield str(paired["id"])
        finally:
            process.terminate()


def _compare(operator: Client, switch: Switch, order_id: str) -> None:
    """Print the movements of the payment in both ledgers, and whether they are equal."""
    order = operator.call("GET", f"/operator/v1/orders/{order_id}")
    payment = order["transactions"]["payments"][0]
    refunds = order["transactions"].get("refunds", [])
    ours = [("payment", payment["paid_amount"]), *(("refund", f"-{refund['amount']}") for refund in refunds)]
    entries = asyncio.run(switch.entries(payment["id"]))
    theirs = [(entry.kind, f"{SIGNS[entry.kind] * entry.amount_minor / 100:.2f}") for entry in entries]
    print("\n  Paydesk's ledger            the switch's ledger")
    for left, right in _side_by_side(ours, theirs):
        print(f"  {left:<26}  {right}")
    moved = [row for row in theirs if row[0] != "confirmation"]
    if Counter(ours) != Counter(moved):
        raise LiveFailed("The ledgers differ.")
    print(
        "  The ledgers are equal. A confirmation moves no money, so it has no amount and no counterpart.\n", flush=True
    )


def _side_by_side(ours: Sequence[tuple[str, str]], theirs: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the lines of both ledgers; a confirmation, which moves no money, has no counterpart."""
    rest = iter(ours)
    for kind, amount in theirs:
        left = "" if kind == "confirmation" else "{:<14}{:>9}".format(*next(rest, ("", "")))
        yield left, f"{kind:<14}{amount if kind != 'confirmation' else '':>9}"
    for kind, amount in rest:
        yield f"{kind:<14}{amount:>9}", ""


def _write_private(file: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    with os.fdopen(_open_private(file, os.O_TRUNC), "w") as written:
        written.write(text)


def _open_private(file: Path, flag: int) -> int:
    """Open a file that only its owner can read, also if it exists with another mode."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | flag, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor
