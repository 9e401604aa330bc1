"""A till for Paydesk, to copy: whatever gets lost on the way, a sale is charged once. Standard library alone."""

import base64
import hmac
import json
import os
import sqlite3
import sys
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from till_client import Client, Document, Unauthorized, Unknown, rows

OPEN, PAID, UNPAID, REFUNDED, PERSON = "open", "paid", "unpaid", "refunded", "person"
ENDS = {"processed": PAID, "failed": UNPAID, "canceled": UNPAID, "expired": UNPAID, "refunded": REFUNDED}
POLL_SECONDS, POLL_SECONDS_MAX = 0.5, 5.0
NEW_SECONDS = 60  # until then 404 does not say that there is no such order
SIGNED_SECONDS_MAX = 300
SALES = """
CREATE TABLE IF NOT EXISTS sales (reference TEXT PRIMARY KEY, amount TEXT, key TEXT, begun REAL, order_id TEXT,
    status TEXT DEFAULT 'open', paid TEXT, refunded TEXT, why TEXT DEFAULT '', is_watched INTEGER DEFAULT 1)"""
REFUNDS = """
CREATE TABLE IF NOT EXISTS refunds (key TEXT PRIMARY KEY, reference TEXT, amount TEXT, is_answered INTEGER DEFAULT 0)"""
NEW_SALE = """
INSERT INTO sales (reference, amount, key, begun) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE
   SET amount = excluded.amount, key = excluded.key, begun = excluded.begun, order_id = NULL, status = 'open',
       is_watched = 1 WHERE status = 'unpaid'"""


class NeedsPerson(Exception):
    """A person has to look; the till does nothing more about the sale."""


class Till:
    """A till with one terminal. `file` keeps its sales; the environment has what Paydesk gave it, `PAYDESK_*`."""

    def __init__(self, file: str, environment: Mapping[str, str], client: Client | None = None) -> None:
        self.file, self.given, self.client = file, environment, client or Client(file, environment)
        self.locks: defaultdict[str, threading.RLock] = defaultdict(threading.RLock)
        self.hints: dict[str, threading.Event] = {}
        rows(file, SALES), rows(file, REFUNDS)

    def sale(self, reference: str, amount: str) -> str:
        """Sell, or go on with this sale, and return its status. One that is `unpaid` is tried again with a new key."""
        with self.locks[reference]:
            # The key is stored before it is sent, so that after a crash the same one is sent again.
            rows(self.file, NEW_SALE, reference, amount, str(uuid.uuid4()), time.time())
            return self.follow(reference)

    def cancel(self, reference: str) -> None:
        """Ask for the end of a sale. Whatever is answered, the order says whether it was paid before."""
        if order_id := self.find(reference)["order_id"]:
            headers = {"X_Idempotency_Key": f"{order_id}-cancel", "X_Allow_Cancelable_Status": "at_terminal"}
            self.client.call("POST", f"/v1/orders/{order_id}/cancel", **headers)
            self.hint(reference)

    def refund(self, reference: str, amount: str | None = None) -> str:
        """Refund a part or, without an amount, what is left, and return the status of the sale."""
        with self.locks[reference]:
            sale, unanswered = self.find(reference), "SELECT 1 FROM refunds WHERE reference = ? AND NOT is_answered"
            if sale["status"] != PAID:
                return str(sale["status"])
            # One without an answer is repeated before there is another one.
            if not rows(self.file, unanswered, reference):
                left = Decimal(sale["paid"]) - Decimal(sale["refunded"])
                if not 0 < Decimal(amount or left) <= left:
                    raise ValueError(f"Of {reference} {left} can be refunded.")
                row = str(uuid.uuid4()), reference, amount
                rows(self.file, "INSERT INTO refunds (key, reference, amount) VALUES (?, ?, ?)", *row)
            self.change(reference, is_watched=1)
            return self.follow(reference)

    def sweep(self) -> None:
        """Go on with all that is undecided: at each start, and every two minutes for notifications that got lost."""
        for sale in rows(self.file, "SELECT reference FROM sales WHERE is_watched"):
            self.follow(sale["reference"])

    def receive(self, headers: Mapping[str, str], body: bytes, _target: str = "") -> int:
        """Take a notification and return the status of the answer. It is a hint: the till then asks for the order."""
        sent = {name.lower(): value for name, value in headers.items()}
        given, stamp, signatures = (sent.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
        key = base64.b64decode(self.given["PAYDESK_WEBHOOK_SECRET"].removeprefix("whsec_"))
        digest = hmac.digest(key, f"{given}.{stamp}.".encode() + body, "sha256")
        expected = f"v1,{base64.b64encode(digest).decode()}".encode()
        if not any(hmac.compare_digest(expected, one.encode()) for one in signatures.split()):
            return 401
        if abs(time.time() - int(stamp)) > SIGNED_SECONDS_MAX:
            return 401
        self.hint(str(json.loads(body)["data"].get("external_reference")))
        return 204

    def hint(self, reference: str) -> None:
        """Look at a sale now, unless a person does."""
        rows(self.file, "UPDATE sales SET is_watched = 1 WHERE reference = ? AND status != 'person'", reference)
        if event := self.hints.get(reference):
            event.set()
        elif rows(self.file, "SELECT 1 FROM sales WHERE reference = ?", reference):
            threading.Thread(target=self.follow, args=(reference,), daemon=True).start()

    def follow(self, reference: str) -> str:
        """Bring a sale with its refunds to the end, and return its status: `open` if the service does not answer."""
        with self.locks[reference]:
            hint, pause = self.hints.setdefault(reference, threading.Event()), POLL_SECONDS
            try:
                while (sale := self.find(reference))["is_watched"]:
                    hint.clear()
                    if self.look(sale) and not hint.wait(pause):
                        pause = min(pause * 1.2, POLL_SECONDS_MAX)
            except Unknown as error:
                self.change(reference, why=str(error))
            except Unauthorized:
                self.change(reference, status=PERSON, why="The seller has to authorize the till again", is_watched=0)
            except NeedsPerson as error:
                self.change(reference, status=PERSON, why=str(error), is_watched=0)
            finally:
                self.hints.pop(reference)
            return str(self.find(reference)["status"])

    def look(self, sale: sqlite3.Row) -> bool:
        """Create the order or read it, send refunds, and return whether something is undecided."""
        path, reference = f"/v1/orders/{sale['order_id']}", sale["reference"]
        if not sale["order_id"]:
            order = {
                "type": "point",
                "external_reference": reference,
                "transactions": {"payments": [{"amount": sale["amount"]}]},
                "config": {"point": {"terminal_id": self.given["PAYDESK_TERMINAL_ID"]}},
            }
            status, order = self.client.call("POST", "/v1/orders", order, X_Idempotency_Key=sale["key"])
            if status != 201:
                raise NeedsPerson(f"The order is refused with {status}: {order.get('message')}")
            self.change(reference, order_id=order["id"])
            return self.book(sale, order)
        status, order = self.client.call("GET", path)
        if status == 404 and time.time() - sale["begun"] < NEW_SECONDS:
            return True
        if status != 200:
            raise NeedsPerson(f"The order cannot be read, {status}: {order.get('message')}")
        for refund in rows(self.file, "SELECT * FROM refunds WHERE reference = ? AND NOT is_answered", reference):
            part = {} if refund["amount"] is None else {"amount": refund["amount"]}
            body = {"transactions": [{"id": order["transactions"]["payments"][0]["id"], **part}]}
            self.client.call("POST", f"{path}/refund", body, X_Idempotency_Key=refund["key"])
            rows(self.file, "UPDATE refunds SET is_answered = 1 WHERE key = ?", refund["key"])
            _, order = self.client.call("GET", path)
        return self.book(sale, order)

    def book(self, sale: sqlite3.Row, order: Document) -> bool:
        """Book what was paid and refunded, and return whether something is undecided. Only `processed` is paid."""
        reference, amount = order.get("external_reference"), order.get("total_amount")
        if (reference, amount) != (sale["reference"], sale["amount"]):
            raise NeedsPerson(f"The order is for {amount} of {reference}, not for {sale['amount']}")
        payment, refunds = order["transactions"]["payments"][0], order["transactions"].get("refunds", [])
        refunded = sum((Decimal(one["amount"]) for one in refunds if one["status"] != "failed"), Decimal(0))
        status = ENDS.get(order["status"], OPEN)  # of a status that the till does not know too
        is_watched = status == OPEN or any(one["status"] == "processing" for one in refunds)
        # A tip makes `paid_amount` more than the amount.
        booked = {"paid": payment.get("paid_amount"), "refunded": str(refunded), "why": payment["status_detail"]}
        self.change(sale["reference"], status=status, is_watched=is_watched, **booked)
        return is_watched

    def warning(self) -> str:
        """Return what the cashier should know before a sale. A list that is slow or empty says nothing."""
        _, _, found = self.client.send("GET", "/terminals/v1/list", None, {}, self.client.tokens["access"])
        for one in found.get("data", {}).get("terminals", []):
            if one["id"] == self.given["PAYDESK_TERMINAL_ID"] and one.get("presence") == "offline":
                return "The terminal is offline."
        return ""

    def find(self, reference: str) -> sqlite3.Row:
        """Return the row of a sale."""
        return rows(self.file, "SELECT * FROM sales WHERE reference = ?", reference)[0]

    def change(self, reference: str, **columns: Any) -> None:
        """Change columns of a sale."""
        changes = ", ".join(f"{name} = ?" for name in columns)
        rows(self.file, f"UPDATE sales SET {changes} WHERE reference = ?", *columns.values(), reference)


def main(do: str = "", *arguments: str) -> int:
    """Do what the command line says. Exit code 0: paid or refunded, 1: not, 3: a person has to look."""
    if do not in ("sale", "cancel", "refund", "sweep"):
        print("usage: till.py sale REFERENCE AMOUNT | cancel REFERENCE | refund REFERENCE [AMOUNT] | sweep")
        return 2
    till = Till(os.environ.get("TILL_FILE", f"till-{os.environ['PAYDESK_CLIENT_ID']}.db"), os.environ)
    if do == "sale" and (warning := till.warning()):
        print(warning)
    getattr(till, do)(*arguments)
    for sale in rows(till.file, "SELECT * FROM sales WHERE reference = ?", *arguments[:1]) if arguments else ():
        print(f"{sale['reference']} is {sale['status']} ({sale['why']})")
        return {PAID: 0, REFUNDED: 0, PERSON: 3}.get(sale["status"], 1)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
