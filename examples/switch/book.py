"""The host that the example switch plays: payments and a ledger in SQLite. Replace it by calls to your acquirer's host.

Each operation is one transaction together with the answer that is stored for its key: a kill at any moment leaves both
or neither. README.md says how to keep that promise with a host elsewhere.
"""

import argparse
import base64
import hashlib
import json
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]

PENDING_MINOR, LATER, NEVER, ANOTHER_CARD = 9_990_020, "later", "never", "another_card"
DECLINES: dict[int, tuple[str, str | None, str | None]] = {
    9_990_001: ("05", "rejected_by_issuer", ANOTHER_CARD),
    9_990_002: ("51", "insufficient_amount", ANOTHER_CARD),
    9_990_003: ("14", "bad_filled_card_data", ANOTHER_CARD),
    9_990_004: ("01", "required_call_for_authorize", LATER),
    9_990_005: ("62", "card_disabled", NEVER),
    9_990_006: ("59", "high_risk", NEVER),
    9_990_007: ("75", "max_attempts_exceeded", ANOTHER_CARD),
    9_990_008: ("61", "amount_limit_exceeded", ANOTHER_CARD),
    9_990_009: ("58", "invalid_installments", None),
    9_990_010: ("96", "processing_error", LATER),
    9_990_011: ("91", None, None),
}
"""Amounts of tests, in minor units: the host's code, the payment's `status_detail`, the buyer's next step. Where the
detail is missing the table in the adapter's configuration has one for the code."""

SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE IF NOT EXISTS payments (
    payment_id TEXT PRIMARY KEY, amount_minor INTEGER NOT NULL, currency TEXT NOT NULL, reference_id TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('provisional', 'approved', 'declined', 'reversed', 'blocked')),
    is_overdue INTEGER NOT NULL DEFAULT 0, time_ms INTEGER NOT NULL, answer TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS undecided ON payments (time_ms) WHERE status = 'provisional';
CREATE TABLE IF NOT EXISTS answers (
    operation TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL, answer TEXT NOT NULL, time_ms INTEGER NOT NULL,
    PRIMARY KEY (operation, key));
CREATE TABLE IF NOT EXISTS ledger (
    entry_id INTEGER PRIMARY KEY AUTOINCREMENT, time_ms INTEGER NOT NULL, kind TEXT NOT NULL, payment_id TEXT NOT NULL,
    key TEXT NOT NULL, amount_minor INTEGER NOT NULL, currency TEXT NOT NULL, reference_id TEXT NOT NULL,
    outcome TEXT NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS at_most_once
    ON ledger (payment_id, kind, (CASE kind WHEN 'refund' THEN key ELSE '' END));
CREATE TRIGGER IF NOT EXISTS never_changed BEFORE UPDATE ON ledger BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER IF NOT EXISTS never_deleted BEFORE DELETE ON ledger BEGIN SELECT raise(ABORT, 'append-only'); END;
"""


class Refused(Exception):
    """The request is refused before it had any effect."""

    def __init__(self, status: int, code: str, message: str, **fields: str) -> None:
        super().__init__(code)
        self.status, self.body = status, {"error": code, "message": message, **fields}


class Book:
    """The payments, the ledger, and the answers by their keys."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.database = sqlite3.connect(options.database, timeout=1, isolation_level=None)
        self.database.row_factory = sqlite3.Row
        self.database.executescript(SCHEMA)

    @contextmanager
    def transaction(self) -> Iterator[int]:
        """Commit what the block does, or nothing of it. Yield the time in ms, which never goes back in the ledger."""
        with self.database:
            try:
                self.database.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                raise Refused(503, "unavailable", f"The database is not available: {error}.") from error
            last = self.row("SELECT time_ms FROM ledger ORDER BY entry_id DESC LIMIT 1")
            now_ms = max(int(now() * 1000), last["time_ms"] if last else 0)
            self.decide_overdue(now_ms)
            yield now_ms

    def perform(self, operation: str, key: str, body: Json) -> Json:
        """Return the stored answer of the key, or perform the operation and store it: effects and declines only."""
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        with self.transaction() as now_ms:
            if stored := self.row("SELECT * FROM answers WHERE operation = ? AND key = ?", operation, key):
                if stored["digest"] != digest:
                    raise Refused(409, "key_reused", "The key had another body. Use a key of its own for each request.")
                return dict(json.loads(stored["answer"]))
            answer: Json = getattr(self, operation)(key, body, now_ms)
            if answer["outcome"] in ("approved", "declined") and operation != "inquire":
                stored = {"operation": operation, "key": key, "digest": digest, "answer": json.dumps(answer)}
                self.insert("answers", time_ms=now_ms, **stored)
        is_pending = operation == "authorize" and body["amount_minor"] == PENDING_MINOR
        return {"outcome": "pending"} if is_pending else answer

    def authorize(self, key: str, body: Json, now_ms: int) -> Json:
        """Charge the payment, unless its amount is one of the declines, or a reversal has blocked it."""
        if key != body["payment_id"]:
            raise Refused(422, "key_differs", "The key of an authorization is its payment_id.")
        if self.payment(body):
            return declined("blocked", "processing_error")
        if decline := DECLINES.get(body["amount_minor"]):
            self.insert_payment(body, "declined", declined(*decline), now_ms)
            return declined(*decline)
        answer = approved(key, body, digits(14)) | {"authorization_code": digits(6), "issuer_data": issuer_data("00")}
        answer |= {name: body[name] for name in ("payment_method", "card", "installments") if body.get(name)}
        if "card" in answer and "entry_mode" in body:
            answer["card"] = {**answer["card"], "entry_mode": body["entry_mode"]}
        if self.options.needs_confirmation:
            answer["needs_confirmation"] = True
        status = "provisional" if self.options.needs_confirmation else "approved"
        self.insert_payment(body, status, answer, now_ms)
        self.append("payment", key, answer, now_ms, status)
        return answer

    def inquire(self, _key: str, body: Json, _now_ms: int) -> Json:
        """Return the outcome of the payment as it is now."""
        if self.options.cannot_inquire:
            raise Refused(403, "cannot_inquire", "Declare can_inquire = false: the host has no inquiries.")
        payment = self.payment(body)
        if payment is None or payment["status"] == "blocked":
            return not_found(payment)
        if payment["status"] == "reversed":
            return declined("reversed", "processing_error")
        answer: Json = json.loads(payment["answer"])
        if payment["status"] == "approved":
            answer.pop("needs_confirmation", None)
        return answer

    def confirm(self, key: str, body: Json, now_ms: int) -> Json:
        """Make a provisional approval final."""
        payment = self.payment(body)
        if payment is None or payment["status"] == "blocked":
            return not_found(payment)
        if payment["is_overdue"]:
            return {"outcome": "too_late"}
        if payment["status"] in ("declined", "reversed"):
            return declined(payment["status"], "processing_error")
        refuse_other_payment(payment, body)
        answer = approved(key, body, payment["reference_id"])
        if payment["status"] == "provisional":
            self.move(payment, "approved")
            self.append("confirmation", key, answer, now_ms)
        return answer

    def reverse(self, key: str, body: Json, now_ms: int) -> Json:
        """Reverse the payment completely. Approved: nothing of it remains charged, and no later request charges it."""
        payment, reference_id, until = self.payment(body), body.get("reference_id"), self.options.reverse_until
        if payment is None and self.options.reversal_blocks:
            self.insert_payment(body, "blocked", {}, now_ms)
            return approved(key, body, digits(14))
        if payment is None or (payment["reference_id"] and reference_id not in (None, "", payment["reference_id"])):
            return not_found(None)
        answer = approved(key, payment, digits(14))
        if payment["status"] in ("provisional", "approved"):
            if self.refunded_minor(body):
                return declined("refunded", "processing_error")
            if until is not None and now_ms > payment["time_ms"] + until * 1000:
                return {"outcome": "too_late"}
            self.move(payment, "reversed")
            self.append("reversal", key, answer, now_ms)
        return answer

    def refund(self, key: str, body: Json, now_ms: int) -> Json:
        """Refund a part or all, never more than was paid."""
        payment = self.payment(body)
        if payment is None or payment["status"] != "approved":
            return declined("not_paid", "processing_error")
        refuse_other_payment(payment, body)
        if body["refund_minor"] > payment["amount_minor"] - self.refunded_minor(body):
            return declined("more_than_paid", "processing_error")
        answer = approved(key, {**body, "amount_minor": body["refund_minor"]}, digits(14))
        self.append("refund", key, answer, now_ms)
        return answer

    def decide_overdue(self, now_ms: int) -> None:
        """Confirm or undo what was not confirmed in time, as the host does by itself. Those entries have no key."""
        seconds = self.options.confirms_after or self.options.undoes_after
        kind, status = ("confirmation", "approved") if self.options.confirms_after else ("reversal", "reversed")
        query = "SELECT * FROM payments WHERE status = 'provisional' AND time_ms <= ? ORDER BY time_ms"
        for payment in self.database.execute(query, (now_ms - seconds * 1000,)).fetchall() if seconds else ():
            self.move(payment, status, is_overdue=1)
            self.append(kind, "", approved("", {**payment}, payment["reference_id"]), now_ms)

    def ledger(self, since_ms: int, cursor: int, limit: int) -> Json:
        """Return the entries from a time on and after the cursor, the oldest first."""
        query = "SELECT * FROM ledger WHERE time_ms >= ? AND entry_id > ? ORDER BY entry_id LIMIT ?"
        with self.transaction() as now_ms:
            rows = self.database.execute(query, (since_ms, cursor, limit + 1)).fetchall()
        entries = [{**row, "entry_id": f"{row['entry_id']:012d}", "time": rfc3339(row["time_ms"])} for row in rows]
        for entry in entries:
            del entry["time_ms"]
        following = {"next": entries[limit - 1]["entry_id"]} if len(entries) > limit else {}
        return {"entries": entries[:limit], "complete_until": rfc3339(now_ms), **following}

    def row(self, query: str, *values: object) -> Json | None:
        """Return the first row of a query."""
        row = self.database.execute(query, values).fetchone()
        return row and {**row}

    def payment(self, body: Json) -> Json | None:
        """Return the payment that the request names."""
        return self.row("SELECT * FROM payments WHERE payment_id = ?", body["payment_id"])

    def refunded_minor(self, body: Json) -> int:
        """Return the sum of the payment's refunds."""
        query = "SELECT sum(amount_minor) AS minor FROM ledger WHERE kind = 'refund' AND payment_id = ?"
        row = self.row(query, body["payment_id"])
        return (row and row["minor"]) or 0

    def insert(self, table: str, **values: object) -> None:
        """Insert a row."""
        places = ", ".join("?" * len(values))
        self.database.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({places})", tuple(values.values()))

    def insert_payment(self, body: Json, status: str, answer: Json, now_ms: int) -> None:
        """Store the payment with its outcome."""
        fields = {name: body[name] for name in ("payment_id", "amount_minor", "currency")}
        fields |= {"reference_id": answer.get("reference_id", ""), "answer": json.dumps(answer)}
        self.insert("payments", status=status, time_ms=now_ms, **fields)

    def move(self, payment: Json, status: str, is_overdue: int = 0) -> None:
        """Change the payment's status."""
        query = "UPDATE payments SET status = ?, is_overdue = ? WHERE payment_id = ?"
        self.database.execute(query, (status, is_overdue, payment["payment_id"]))

    def append(self, kind: str, key: str, answer: Json, now_ms: int, outcome: str = "approved") -> None:
        """Add a movement that took effect to the ledger."""
        fields = {name: answer[name] for name in ("payment_id", "amount_minor", "currency", "reference_id")}
        self.insert("ledger", kind=kind, key=key, time_ms=now_ms, outcome=outcome, **fields)


def approved(key: str, payment: Json, reference_id: str) -> Json:
    """Return the answer to a request that took effect."""
    fields = {name: payment[name] for name in ("payment_id", "amount_minor", "currency")}
    return {"outcome": "approved", "key": key, **fields, "reference_id": reference_id}


def declined(code: str, detail: str | None, advice: str | None = None) -> Json:
    """Return the answer to a request that took no effect and will not."""
    data = issuer_data(code) if code.isdigit() else None
    answer = {"outcome": "declined", "code": code, "detail": detail, "advice": advice, "issuer_data": data}
    return {name: value for name, value in answer.items() if value is not None}


def not_found(payment: Json | None) -> Json:
    """Return the answer about a payment that the host does not have; final if its id is blocked."""
    return {"outcome": "not_found", "final": True} if payment else {"outcome": "not_found"}


def issuer_data(code: str) -> str:
    """Return what the issuer says to the chip: here the response code alone, tag 8A."""
    return base64.b64encode(b"\x8a\x02" + code.encode()).decode()


def refuse_other_payment(payment: Json, body: Json) -> None:
    """Raise `Refused` where the request has another amount, currency or reference than the payment."""
    fields = ("amount_minor", "currency", "reference_id")
    different = [name for name in fields if body.get(name) not in (None, "", payment[name])]
    if different:
        raise Refused(422, "other_payment", f"The payment has another {', '.join(different)}.")


def digits(count: int) -> str:
    """Return a random number."""
    return f"{secrets.randbelow(10**count):0{count}d}"


def now() -> float:
    """Return the time in seconds."""
    return time.time()


def rfc3339(time_ms: int) -> str:
    """Return the time as text."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
