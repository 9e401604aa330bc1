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
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import urlencode

from till_client import Client, Document, Unauthorized, Unknown, rows

OPEN, PAID, UNPAID, REFUNDED, PERSON = "open", "paid", "unpaid", "refunded", "person"
ENDS = {"processed": PAID, "failed": UNPAID, "canceled": UNPAID, "expired": UNPAID, "refunded": REFUNDED}
CODES = {PAID: 0, REFUNDED: 0, UNPAID: 1, PERSON: 3, OPEN: 4}
POLL_SECONDS, POLL_SECONDS_MAX = 0.5, 5.0
NEW_SECONDS = 60  # until then 404 does not say that there is no such order
CREATE_SECONDS, UNHEARD_SECONDS = 120, 300  # creates nothing later; what is not found by then never was
SIGNED_SECONDS_MAX = 300
SALES = """
CREATE TABLE IF NOT EXISTS sales (reference TEXT PRIMARY KEY, amount TEXT, key TEXT, begun REAL, terminal_id TEXT,
    order_id TEXT, status TEXT DEFAULT 'open', paid TEXT, refunded TEXT, why TEXT DEFAULT '',
    is_canceled INTEGER DEFAULT 0, watched INTEGER DEFAULT 1)"""
REFUNDS = """
CREATE TABLE IF NOT EXISTS refunds (key TEXT PRIMARY KEY, reference TEXT, amount TEXT, id TEXT,
    status TEXT DEFAULT 'open', why TEXT DEFAULT '', is_shown INTEGER DEFAULT 0)"""
NEW_SALE = """
INSERT INTO sales (reference, amount, key, begun, terminal_id) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
   SET amount = excluded.amount, key = excluded.key, begun = excluded.begun, terminal_id = excluded.terminal_id,
       order_id = NULL, status = 'open', is_canceled = 0, watched = 1 WHERE status = 'unpaid'"""


class NeedsPerson(Exception):
    """A person has to look; the till does nothing more about the sale."""


class NotPossible(Exception):
    """The till cannot do what it is asked for, and has done nothing."""


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
            terminal_id = self.given["PAYDESK_TERMINAL_ID"]
            rows(self.file, NEW_SALE, reference, amount, str(uuid.uuid4()), time.time(), terminal_id)
            if (stored := self.find(reference)["amount"]) != amount:
                raise NotPossible(f"{reference} is a sale of {stored}, not of {amount}.")
            # Pressed again, an order that was not answered is created with the same key, even if it is late.
            late = "UPDATE sales SET begun = ? WHERE reference = ? AND order_id IS NULL AND status = 'open'"
            rows(self.file, f"{late} AND NOT is_canceled", time.time(), reference)
            return self.follow(reference)

    def cancel(self, reference: str) -> None:
        """Ask for the end of a sale. Whatever is answered, the order says whether it was paid before."""
        # It is stored, so that an order whose create is not answered yet is canceled too.
        self.find(reference)
        rows(self.file, "UPDATE sales SET is_canceled = 1 WHERE reference = ? AND status = 'open'", reference)
        if reference not in self.hints:
            self.follow(reference, once=True)
        self.hint(reference)

    def refund(self, reference: str, amount: str | None = None) -> sqlite3.Row:
        """Refund a part or, without an amount, what is left, and return it. It is the same one until it is `shown`."""
        with self.locks[reference]:
            sale, unseen = self.find(reference), "SELECT * FROM refunds WHERE reference = ? AND NOT is_shown"
            for refund in rows(self.file, unseen, reference):
                if part(refund["amount"]) != part(amount):
                    first = refund["amount"] or "the rest"
                    raise NotPossible(f"Refund {first} of {reference} again: its end is not known.")
                key = refund["key"]
                break
            else:
                left = Decimal(sale["paid"] or 0) - Decimal(sale["refunded"] or 0)
                wanted = left if (one := part(amount)) is None else one
                if sale["status"] != PAID or not 0 < wanted <= left:
                    raise NotPossible(f"{reference} is {sale['status']}, and {left} of it can be refunded.")
                key, new = str(uuid.uuid4()), "INSERT INTO refunds (key, reference, amount) VALUES (?, ?, ?)"
                rows(self.file, new, key, reference, amount)
            self.watch(reference)
            self.follow(reference)
            return rows(self.file, "SELECT * FROM refunds WHERE key = ?", key)[0]

    def shown(self, refund: sqlite3.Row) -> None:
        """Take note that the cashier has seen the end of a refund: the same amount is another refund then."""
        if refund["status"] not in (OPEN, "processing"):
            rows(self.file, "UPDATE refunds SET is_shown = 1 WHERE key = ?", refund["key"])

    def sweep(self) -> None:
        """Look once at all that is undecided: at each start, and every two minutes for notifications that got lost."""
        for sale in rows(self.file, "SELECT reference FROM sales WHERE watched"):
            if sale["reference"] not in self.hints:
                self.follow(sale["reference"], once=True)

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
        self.watch(reference)
        if event := self.hints.get(reference):
            event.set()
        elif rows(self.file, "SELECT 1 FROM sales WHERE reference = ?", reference):
            threading.Thread(target=self.follow, args=(reference,), daemon=True).start()

    def watch(self, reference: str) -> None:
        """Have a sale looked at. The number grows, so that who is reading it now looks again."""
        rows(self.file, "UPDATE sales SET watched = watched + 1 WHERE reference = ? AND status != 'person'", reference)

    def follow(self, reference: str, *, once: bool = False) -> str:
        """Bring a sale with its refunds to the end, and return its status: `open` if the service does not answer."""
        with self.locks[reference]:
            hint, pause = self.hints.setdefault(reference, threading.Event()), POLL_SECONDS
            try:
                while (sale := self.find(reference))["watched"]:
                    hint.clear()
                    is_undecided = self.look(sale)
                    if once:
                        break
                    if is_undecided and not hint.wait(pause):
                        pause = min(pause * 1.2, POLL_SECONDS_MAX)
            except Unknown as error:
                self.change(reference, why=str(error))
            except Unauthorized:
                self.change(reference, status=PERSON, why="The seller has to authorize the till again", watched=0)
            except NeedsPerson as error:
                self.change(reference, status=PERSON, why=str(error), watched=0)
            finally:
                self.hints.pop(reference)
            return str(self.find(reference)["status"])

    def look(self, sale: sqlite3.Row) -> bool:
        """Create the order or read it, send cancel and refunds, and return whether something is undecided."""
        reference, age = sale["reference"], time.time() - sale["begun"]
        if not sale["order_id"] and not sale["is_canceled"] and age < CREATE_SECONDS:
            return self.create(sale)
        if not (order_id := sale["order_id"] or self.search(reference)):
            if age < UNHEARD_SECONDS:
                return True
            never = "UPDATE sales SET status = 'unpaid', why = 'No order was made', watched = 0"
            rows(self.file, f"{never} WHERE reference = ? AND begun = ?", reference, sale["begun"])
            return False
        path = f"/v1/orders/{order_id}"
        if sale["is_canceled"]:
            headers = {"X_Idempotency_Key": f"{order_id}-cancel", "X_Allow_Cancelable_Status": "at_terminal"}
            status, _ = self.client.call("POST", f"{path}/cancel", **headers)
            self.change(reference, is_canceled=int(status == 404))
        status, order = self.client.call("GET", path)
        if status == 404 and age < NEW_SECONDS:
            return True
        if status != 200:
            raise NeedsPerson(f"The order cannot be read, {status}: {order.get('message')}")
        for refund in rows(self.file, "SELECT * FROM refunds WHERE reference = ? AND status = 'open'", reference):
            item = {"id": order["transactions"]["payments"][0]["id"]}
            body = {"transactions": [item if refund["amount"] is None else {**item, "amount": refund["amount"]}]}
            status, answer = self.client.call("POST", f"{path}/refund", body, X_Idempotency_Key=refund["key"])
            made = answer["transactions"]["refunds"][0] if status == 201 else {"id": None, "status": "refused"}
            why = "" if status == 201 else f"with {status}: {answer.get('message')}"
            change = "UPDATE refunds SET id = ?, status = ?, why = ? WHERE key = ?"
            rows(self.file, change, made["id"], made["status"], why, refund["key"])
            _, order = self.client.call("GET", path)
        return self.book(sale, order)

    def create(self, sale: sqlite3.Row) -> bool:
        """Create the order, and return whether something is undecided."""
        order = {
            "type": "point",
            "external_reference": sale["reference"],
            "transactions": {"payments": [{"amount": sale["amount"]}]},
            "config": {"point": {"terminal_id": sale["terminal_id"]}},
        }
        status, order = self.client.call("POST", "/v1/orders", order, X_Idempotency_Key=sale["key"])
        if status != 201:
            raise NeedsPerson(f"The order is refused with {status}: {order.get('message')}")
        self.change(sale["reference"], order_id=order["id"])
        return self.book(sale, order)

    def search(self, reference: str) -> str | None:
        """Return the id of the order that has this reference, and store it. Unpaid ones are of earlier tries."""
        status, found = self.client.call("GET", f"/v1/orders?{urlencode({'external_reference': reference})}")
        if status != 200:
            raise Unknown(f"The orders cannot be read, {status}: {found.get('message')}")
        ids = [str(order["id"]) for order in found["data"] if ENDS.get(order["status"]) != UNPAID]
        if ids:
            self.change(reference, order_id=ids[0])
        return ids[0] if ids else None

    def book(self, sale: sqlite3.Row, order: Document) -> bool:
        """Book what was paid and refunded, and return whether something is undecided. Only `processed` is paid."""
        reference, amount = order.get("external_reference"), order.get("total_amount")
        if (reference, amount) != (sale["reference"], sale["amount"]):
            raise NeedsPerson(f"The order is for {amount} of {reference}, not for {sale['amount']}")
        payment, refunds = order["transactions"]["payments"][0], order["transactions"].get("refunds", [])
        refunded = sum((Decimal(one["amount"]) for one in refunds if one["status"] != "failed"), Decimal(0))
        status = ENDS.get(order["status"], OPEN)  # of a status that the till does not know too
        is_undecided = status == OPEN or any(one["status"] == "processing" for one in refunds)
        for one in refunds:
            rows(self.file, "UPDATE refunds SET status = ? WHERE id = ?", one["status"], one["id"])
        # A tip makes `paid_amount` more than the amount.
        booked = {"paid": payment.get("paid_amount"), "refunded": str(refunded), "why": payment["status_detail"]}
        self.change(sale["reference"], status=status, **booked)
        if not is_undecided:  # and no hint came while the order was read
            done = "UPDATE sales SET watched = 0 WHERE reference = ? AND watched = ?"
            rows(self.file, done, reference, sale["watched"])
        return is_undecided

    def warning(self) -> str:
        """Return what the cashier should know before a sale. A list that is slow or empty says nothing."""
        _, _, found = self.client.send("GET", "/terminals/v1/list", None, {}, self.client.tokens["access"])
        for one in found.get("data", {}).get("terminals", []):
            if one["id"] == self.given["PAYDESK_TERMINAL_ID"] and one.get("presence") == "offline":
                return "The terminal is offline."
        return ""

    def find(self, reference: str) -> sqlite3.Row:
        """Return the row of a sale."""
        for sale in rows(self.file, "SELECT * FROM sales WHERE reference = ?", reference):
            return sale
        raise NotPossible(f"There is no sale {reference}.")

    def change(self, reference: str, **columns: Any) -> None:
        """Change columns of a sale."""
        changes = ", ".join(f"{name} = ?" for name in columns)
        rows(self.file, f"UPDATE sales SET {changes} WHERE reference = ?", *columns.values(), reference)


def part(amount: str | None) -> Decimal | None:
    """Return the amount of a refund as a number; None: the rest."""
    try:
        number = None if amount is None else Decimal(amount)
    except InvalidOperation:
        number = Decimal("NaN")
    if number is not None and not number.is_finite():
        raise NotPossible(f"{amount} is no amount, such as 5.00.")
    return number


def main(do: str = "", *arguments: str) -> int:
    """Do what the command line says. Exit code 0: paid or refunded, 1: not, 3: for a person, 4: not known yet."""
    if do not in ("sale", "cancel", "refund", "sweep"):
        print("usage: till.py sale REFERENCE AMOUNT | cancel REFERENCE | refund REFERENCE [AMOUNT] | sweep")
        return 2
    till = Till(os.environ.get("TILL_FILE", f"till-{os.environ['PAYDESK_CLIENT_ID']}.db"), os.environ)
    if do == "sale" and (warning := till.warning()):
        print(warning)
    try:
        done = getattr(till, do)(*arguments)
        if do == "sweep":
            return 0
        sale = till.find(arguments[0])
    except NotPossible as error:
        print(error)
        return 2
    print(f"{sale['reference']} is {sale['status']} ({sale['why']})")
    code = CODES[sale["status"]]
    if do == "refund":
        print(f"The refund of {done['amount'] or 'the rest'} is {done['status']} {done['why']}".rstrip())
        till.shown(done)
        code = code or {"processed": 0, OPEN: 4, "processing": 4}.get(done["status"], 1)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
