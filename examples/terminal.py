"""A reference client of Paydesk's terminal protocol, with Python's standard library alone.

Run `python3 examples/terminal.py http://127.0.0.1:8377 --serial 4711`. To build your own, copy it and replace
`hardware.py`. Numbers in parentheses are the sections of docs/build-a-terminal.md.
"""

import argparse
import json
import os
import time
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from hardware import Json, charge, encrypt, finish_card, read_card, send

AUTHORIZE_PAUSES = (1, 2, 4, 8, 16)
NOTHING_CHARGED = {"outcome": "declined", "status_detail": "processing_error"}


class Terminal:
    """One start of the terminal. Its journal has the device token and an entry for each lease (5)."""

    def __init__(self, base_url: str, journal: Path, serial: str = "4711") -> None:
        self.base_url, self.journal, self.serial, self.boot_id = base_url, journal, serial, str(uuid4())
        self.has_acquirer = False  # as far as is known: one of kind `terminal` learns it at its first payment (10)
        content: Json = json.loads(journal.read_text()) if journal.exists() else {}
        self.token, self.entries = content.get("token", ""), content.get("entries", {})
        self.lease_id, self.until = "", ""  # the payment in progress, and its permit
        self.card: Json | None = None  # in memory alone
        self.clock_offset, self.failures, self.send_again_at = 0.0, 0, 0.0  # the latter two: of results

    def save(self, **fields: Any) -> None:
        """Change the entry in progress. The file is on the disk when this returns; an error ends the program."""
        if fields:
            self.entries.setdefault(self.lease_id, {"lease_id": self.lease_id}).update(fields)
        new = self.journal.with_suffix(".new")
        with new.open("w") as file:
            json.dump({"token": self.token, "entries": self.entries}, file)
            file.flush()
            os.fsync(file.fileno())
        folder = os.open(new.replace(self.journal).parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def drop(self, lease_id: str) -> None:
        """Delete the entry."""
        if self.entries.pop(lease_id, None):
            self.save()

    def pair(self) -> None:
        """Print a code until an operator has approved it, then store the device token (1)."""
        url = f"{self.base_url}/device/v1/pairings"
        started = send("POST", url, {"model": "EXAMPLE", "serial": self.serial})[1]
        print("pairing code", started["user_code"], flush=True)
        interval, answer = started["interval"], {"error": "authorization_pending"}
        while answer.get("error") in ("authorization_pending", "slow_down"):
            interval += 5 if answer["error"] == "slow_down" else 0
            time.sleep(interval)
            answer = send("POST", f"{url}/token", {"device_code": started["device_code"]})[1]
        self.token = answer.get("device_token", "")  # none if the code expired or was denied
        self.save()

    def run(self) -> None:
        """Take orders until the session has ended and every result is recorded."""
        failures, has_session = 0, False
        while True:
            try:
                while not self.token:
                    self.pair()
                has_session = has_session or self.hello()
                self.poll()
                self.pay()
                self.send_results()
                failures = 0
            except ConnectionError as error:
                print(error, flush=True)
                time.sleep(min(2**failures, 60))
                failures += 1
            except SystemExit:
                while self.results():
                    self.send_results()
                    time.sleep(1)
                raise

    def call(self, method: str, path: str, body: Json | None = None, seconds: float = 10) -> tuple[int, Json]:
        """Call the service in this session. Raises `SystemExit` when the session has ended."""
        sent_at, body = time.monotonic(), None if body is None else {"boot_id": self.boot_id, **body}
        status, answer = send(method, f"{self.base_url}/device/v1{path}", body, self.token, seconds)
        if "time" in answer:  # Permits end by the service's clock.
            self.clock_offset = datetime.fromisoformat(answer["time"]).timestamp() - sent_at
        if method != "PUT" and (status == 401 or answer.get("error") == "stale_session"):
            raise SystemExit(answer["message"])
        return status, answer

    def hello(self) -> bool:
        """Begin a session with the journal, and follow the verdicts (2)."""
        names = ("lease_id", "last_step", "sent", "result")
        journal = [{name: entry[name] for name in names if name in entry} for entry in self.entries.values()]
        for lease in self.call("POST", "/hello", {"app_version": "example", "journal": journal})[1]["leases"]:
            if lease["verdict"] == "resume":
                self.lease_id = lease["lease_id"]
            elif lease["verdict"] in ("forget", "abort"):  # report: sent anyway. hold: the service asks the acquirer.
                self.drop(lease["lease_id"])
        return True

    def poll(self) -> None:
        """Wait for a message and follow it (3)."""
        wait, started = 1 if self.lease_id or self.results() else 25, time.monotonic()
        message = self.call("GET", f"/next?boot_id={self.boot_id}&wait={wait}", seconds=wait + 10)[1]
        entry = self.entries.get(lease_id := message.get("lease_id", ""), {})
        may_be_charged = entry.get("sent") or "result" in entry
        match message.get("type"):
            case "order":  # Every other order has ended.
                self.entries = {key: old for key, old in self.entries.items() if key == lease_id or "result" in old}
                self.lease_id, self.card, self.until = lease_id, None, ""
                if not entry:
                    self.save(order=message["order"], last_step="offered", sent=False, seq=0)
            case "cancel" | "expired" as kind:
                done = {"done": not may_be_charged}
                is_over = kind == "expired" or self.call("POST", f"/leases/{lease_id}/cancel-result", done)[0] == 200
                if is_over and not may_be_charged:
                    self.drop(lease_id)
            case "print":
                print(message["content"], flush=True)  # Its printer is the console.
                self.call("POST", f"/actions/{message['action_id']}/result", {"outcome": "printed"})
            case None:  # No message. A service that stops answers at once.
                time.sleep(max(0, started + 1 - time.monotonic()))

    def pay(self) -> None:
        """Continue the payment until it has a result, or until a card must be presented (4)."""
        entry = self.entries.get(self.lease_id)
        if entry is None or entry["sent"] or "result" in entry:
            self.lease_id = ""
            return
        if entry["last_step"] == "offered":
            if not self.ask("ack", {}):
                return
            self.save(last_step="acknowledged")
        if entry["last_step"] == "acknowledged" and not self.progress("card_requested"):
            return
        if entry["last_step"] != "authorizing":
            self.card = read_card(entry["order"])
            if self.card is None or not self.progress("card_presented"):
                return
        self.until = self.until or self.progress("authorizing").get("until", "")
        if not self.until:
            return
        self.card = self.card or read_card(entry["order"])  # presented again after a restart
        if self.has_passed(self.until):
            self.save(result=NOTHING_CHARGED, result_id=str(uuid4()))
        elif self.card:
            self.save(sent=True)
            asked = self.charge if self.has_acquirer else self.authorize
            self.save(result=asked(entry["order"], self.card), result_id=str(uuid4()))
            self.send_again_at = 0

    def charge(self, order: Json, presented: Json) -> Json:
        """Ask the terminal's own acquirer, and return the result to report (4)."""
        return charge(order, presented, self.base_url, self.token)

    def authorize(self, order: Json, presented: Json) -> Json:
        """Have the service ask the acquirer, and let the card end the payment. Return the result to report (10)."""
        card = dict(presented["card"])
        body = {"entry_mode": card.pop("entry_mode"), "card": card, "payment_method": presented["payment_method"]}
        body["encrypted_data"] = encrypt(order)
        answer: Json = {}
        for pause in AUTHORIZE_PAUSES:  # Until the outcome is known: repeated, the same request charges nothing twice.
            try:
                status, answer = self.call("POST", f"/leases/{self.lease_id}/authorize", body, seconds=30)
            except ConnectionError as error:
                print(error, flush=True)
                status, answer = 503, {}
            if status not in (200, 503) or answer.get("outcome", "unknown") != "unknown":
                break
            time.sleep(pause)
        if answer.get("error") == "not_a_service_terminal":  # An operator has paired it as one of kind `terminal`.
            self.has_acquirer = True
            return self.charge(order, presented)
        outcome, is_provisional = answer.get("outcome", "unknown"), answer.get("result_required", False)
        accepted, end = finish_card(answer["issuer_data"]) if "issuer_data" in answer else (True, {})
        if outcome == "unknown":  # It ends a provisional approval too.
            return {"outcome": "unknown"}
        if outcome == "declined":
            return {"outcome": "declined", "status_detail": answer["status_detail"], **presented}
        if is_provisional and (not accepted or self.has_passed(answer["until"])):
            return {"outcome": "declined", "status_detail": "rejected_other_reason", **presented, **end}
        self.save(result_required=is_provisional)
        codes = {name: answer[name] for name in ("authorization_code", "reference_id") if name in answer}
        approved = {"outcome": "approved", "status_detail": "accredited", "paid_amount": order["amount"]}
        return approved | presented | codes | (end if is_provisional else {})

    def has_passed(self, until: str) -> bool:
        """Return whether that time is over by the service's clock."""
        return datetime.fromisoformat(until).timestamp() <= time.monotonic() + self.clock_offset

    def progress(self, step: str) -> Json:
        """Store the step, then report it. Return the answer, empty if the order has ended."""
        self.save(last_step=step, seq=self.entries[self.lease_id]["seq"] + 1)
        return self.ask("progress", {"seq": self.entries[self.lease_id]["seq"], "step": step})

    def ask(self, path: str, body: Json) -> Json:
        """Call the service about the order. Return the answer, empty if the order has ended: then it is forgotten."""
        status, answer = self.call("POST", f"/leases/{self.lease_id}/{path}", body)
        if status == 200:
            return answer
        self.drop(self.lease_id)
        return {}

    def results(self) -> list[Json]:
        """Return the entries whose result the service has not recorded."""
        return [entry for entry in self.entries.values() if "result" in entry]

    def send_results(self) -> None:
        """Send the results until the service has recorded them, with pauses of 1, 2, 4 … 60 s (4)."""
        for entry in self.results() if time.monotonic() >= self.send_again_at else ():
            path = f"/leases/{entry['lease_id']}/results/{entry['result_id']}"
            try:
                status, answer = self.call("PUT", path, entry["result"])
            except ConnectionError as error:
                print(error, flush=True)
                status, answer = 503, {}
            if status == 200 or (status == 409 and answer.get("recorded")):
                if entry.get("result_required"):  # Only now is the approval shown.
                    print("approved: print, release the goods" if status == 200 else "the sale was undone", flush=True)
                self.drop(entry["lease_id"])
                self.failures = 0
            else:
                self.send_again_at, self.failures = time.monotonic() + min(2**self.failures, 60), self.failures + 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("base_url", nargs="?", default=os.environ.get("PAYDESK_BASE_URL", "http://127.0.0.1:8377"))
    journal = Path(".paydesk/examples/terminal.json")
    parser.add_argument("--journal", type=Path, default=journal, help="a file a terminal; default %(default)s")
    parser.add_argument("--serial", default="4711", help="default %(default)s")
    parser.add_argument("--pair", action="store_true", help="pair again, for a new device token")
    options = parser.parse_args()
    os.umask(0o077)  # The journal has the device token.
    options.journal.parent.mkdir(parents=True, exist_ok=True)
    terminal = Terminal(options.base_url, options.journal, options.serial)
    terminal.token = "" if options.pair else os.environ.get("PAYDESK_DEVICE_TOKEN", terminal.token)
    terminal.run()
