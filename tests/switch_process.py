"""The switch of examples/switch as a process, and a client that compares each answer with its description."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema_rs

from forks import Forks
from waiting import HANGS_SECONDS, wait_until

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "switch"
DOCUMENT: dict[str, Any] = json.loads((ROOT / "docs" / "switch-openapi.json").read_text())
SECRET, OLD_SECRET = "5ecret-of-the-switch-" + "n" * 32, "5ecret-of-the-switch-" + "o" * 32
ULID = "01J67CQQH5904WDBVZEM4JM{:03}"
PAYMENT_FIELDS = {
    "seller_id": 7782587281,
    "terminal_id": "PAX_A920__1234567890",
    "currency": "BRL",
    "installments": 1,
}

KILLED_BEFORE_COMMIT, KILLED_AFTER_COMMIT = "before commit", "after commit"
"""When a switch kills itself."""


class Answer(NamedTuple):
    """An answer of the switch; its signature is that of `secret`."""

    status: int
    body: dict[str, Any]
    secret: str

    @property
    def outcome(self) -> str:
        """Return the outcome."""
        return str(self.body["outcome"])


def sign(secret: str, *lines: str, content: bytes) -> str:
    """Return the signature as docs/switch-openapi.json describes it."""
    text = "\n".join(("v1", *lines, hashlib.sha256(content).hexdigest()))
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def payment(number: int, amount_minor: Any = 2490, **fields: Any) -> dict[str, Any]:
    """Return the fields of a payment, which every request has."""
    ulid = ULID.format(number)
    ids = {"payment_id": f"PAY{ulid}", "order_id": f"ORD{ulid}"}
    return {**ids, **PAYMENT_FIELDS, "amount_minor": amount_minor, **fields}


_forks = Forks("forked_switch")


class SwitchProcess:
    """A running switch, with the requests to it."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.options, self.offset_seconds = folder, options, 0
        self.log = folder / "switch.log"
        for name, secret in (("new.key", SECRET), ("old.key", OLD_SECRET)):
            (folder / name).write_text(f"{secret}\n")
        self.move_clock(0)
        self.start()

    def start(self, killed: str = "") -> None:
        """Start the switch, with the options and the database of before."""
        options = [] if "--secret-file" in self.options else ["--secret-file", str(self.folder / "new.key")]
        options += ["--listen", "127.0.0.1:0", "--database", str(self.folder / "switch.db"), *self.options]
        self.log.touch()
        begin = self.log.stat().st_size
        arguments = [str(self.folder / "clock"), killed, *options]
        process = self.process = _forks.start(arguments, os.environ, self.log, folder=FOLDER)

        def output() -> str:
            return self.log.read_bytes()[begin:].decode()

        wait_until(lambda: output().endswith("\n") or process.poll() is not None, output)
        ready = re.match(r"switch ready http://127\.0\.0\.1:(\d+)/paydesk\n", output())
        assert ready, output()
        self.port = int(ready[1])

    def kill(self) -> None:
        """Kill the switch, if it still runs."""
        self.process.kill()
        self.process.wait(HANGS_SECONDS)

    def move_clock(self, seconds: int) -> None:
        """Move the clock of the switch and of the client."""
        self.offset_seconds += seconds
        (self.folder / "clock").write_text(str(self.offset_seconds))

    def post(self, operation: str, body: dict[str, Any], key: str = "", **changes: Any) -> Answer:
        """Send a request of Paydesk; the key is by default the operation's for this payment."""
        ulid = body["payment_id"][3:]
        keys = {"authorize": f"PAY{ulid}", "confirm": f"CNF{ulid}", "reverse": f"PAY{ulid}", "refund": f"REF{ulid}"}
        _validator("requestBody", operation).validate(body)
        return self.send("POST", f"/{operation}", json.dumps(body).encode(), key or keys.get(operation, ""), **changes)

    def send(
        self,
        method: str,
        path: str,
        content: bytes = b"",
        key: str = "",
        secret: str = SECRET,
        *,
        key_id: str = "shop-1",
        skew_seconds: int = 0,
        header: str | None = None,
    ) -> Answer:
        """Send a signed request, and verify the answer's signature. Raises `OSError` or `HTTPException` without one."""
        target, seconds = f"/paydesk{path}", str(int(time.time()) + self.offset_seconds + skew_seconds)
        signature = sign(secret, seconds, method, target, key, content=content)
        headers = {"Paydesk-Signature": f"t={seconds},k={key_id},v1={signature}" if header is None else header}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, target, content, headers | ({"Idempotency-Key": key} if key else {}))
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        assert response.headers["Content-Type"].startswith("application/json")
        verified = _verified(response.headers["Paydesk-Signature"], response.status, key, answer)
        body = json.loads(answer)
        if response.status != 404:
            _validator("responses", path[1:].partition("?")[0], response.status).validate(body)
        return Answer(response.status, body, verified)

    def ledger(self, query: str = "") -> list[dict[str, Any]]:
        """Return the entries of the ledger."""
        answer = self.send("GET", f"/ledger{query}")
        assert answer.status == 200, answer
        entries: list[dict[str, Any]] = answer.body["entries"]
        return entries

    def movements(self) -> list[str]:
        """Return the kinds of the ledger's entries, those of each payment by its number in parentheses."""
        return [f"{entry['kind']} {int(entry['payment_id'][-3:])}" for entry in self.ledger()]


def _verified(header: str, status: int, key: str, content: bytes) -> str:
    signature = re.fullmatch(r"t=(\d+),k=shop-1,v1=([0-9a-f]{64})", header)
    assert signature, header
    by_secret = {
        sign(secret, signature[1], str(status), key, content=content): secret for secret in (SECRET, OLD_SECRET)
    }
    return by_secret[signature[2]]


@cache
def _validator(part: str, operation: str, status: int = 0) -> jsonschema_rs.Validator:
    (described,) = DOCUMENT["paths"][f"/{operation}"].values()
    content = described[part]
    if part == "responses":
        content = content.get(str(status), content["default"])
        if "$ref" in content:
            content = DOCUMENT["components"]["responses"][content["$ref"].rpartition("/")[2]]
    schema = {**content["content"]["application/json"]["schema"], "components": DOCUMENT["components"]}
    return jsonschema_rs.validator_for(schema, validate_formats=True)


@contextmanager
def switch(folder: Path, *options: str) -> Iterator[SwitchProcess]:
    """Run the switch until the end of the block."""
    running = SwitchProcess(folder, *options)
    try:
        yield running
    finally:
        running.kill()
