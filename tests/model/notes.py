"""What a run's clients were answered, written down for the checks at its end."""

from __future__ import annotations

from dataclasses import dataclass, field

from faults.records import KeyRecord, Operation, Records, RefundRecord, ResultRecord
from faults.scene import TerminalSeed
from model.figures import Figures
from model.requests import Answer, content_of, uuid_of, was_declined
from model.world import Op

OPERATIONS: dict[str, Operation] = {
    "create": "create",
    "cancel": "cancel",
    "cancel_at_terminal": "cancel",
    "refund": "refund",
    "refund_part": "refund",
}


@dataclass
class Sent:
    """A request with a key, so that it can be sent again."""

    op: Op
    record: KeyRecord
    answer: Answer


@dataclass
class Notes:
    """Every answer; `orders` are those of each terminal, the newest last, `amounts` what each costs."""

    figures: Figures
    records: Records = field(default_factory=Records)
    seeds: list[TerminalSeed] = field(default_factory=list)
    orders: list[list[str]] = field(default_factory=list)
    amounts: dict[str, int] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    results: list[Op] = field(default_factory=list)

    def keep(self, op: Op, answer: Answer, *, repeated: bool) -> None:
        """Write one down; `repeated`: an earlier attempt may still be on its way."""
        body = answer.body
        code = body.get("error", "")
        self.figures.answers[f"{op.kind} {answer.status}{code and f' {code}'}"] += 1
        if op.kind == "create" and answer.status == 201:
            self.orders[op.terminal].append(body["id"])
            self.amounts[body["id"]] = op.amount_minor
        if op.keyed:
            self._keep_key(op, answer, repeated=repeated)
        if "config" in body:
            self.figures.statuses[f"{body['status']}/{body['status_detail']}"] += 1
            self.records.saw(body)
        if op.order_id:
            self._keep_order(op, answer)

    def _keep_order(self, op: Op, answer: Answer) -> None:
        record = self.records.order(op.order_id, self.seeds[op.terminal].terminal_id)
        record.cancel_asked = record.cancel_asked or op.kind in ("cancel", "cancel_at_terminal")
        if op.kind in ("cancel", "cancel_at_terminal") and answer.status == 200:
            record.canceled_answer = True
        if op.kind == "authorizing" and answer.status == 200:
            record.granted = True
        if op.kind == "ack" and answer.status == 200:
            record.acknowledged = True
        if op.kind == "result":
            self._keep_result(op, answer)

    def _keep_key(self, op: Op, answer: Answer, *, repeated: bool) -> None:
        operation = OPERATIONS[op.kind]
        reference = f"ref-{op.number}" if op.kind == "create" else ""
        record = KeyRecord(f"key-{op.number}", operation, reference, op.order_id)
        if answer.status < 300 or was_declined(op, answer):
            record.answers.add((answer.status, answer.raw))
            record.ending = "created" if answer.status < 300 else "declined"
            record.order_id = answer.body.get("id", op.order_id)
            self.sent.append(Sent(op, record, answer))
            if operation == "refund" and answer.status < 300:
                self._keep_refund(answer)
        elif repeated:
            record.ending = "maybe"
        self.records.keys.append(record)

    def _keep_refund(self, answer: Answer) -> None:
        body = answer.body
        refund = body["transactions"]["refunds"][0]
        self.figures.answers[f"  of refunds {refund['status']}"] += 1
        self.records.refunds.append(RefundRecord(body["id"], refund["id"], refund["amount"], refund["status"]))

    def _keep_result(self, op: Op, answer: Answer) -> None:
        body = answer.body
        self.results.append(op)
        kept = ResultRecord(
            op.order_id,
            uuid_of(9, op.number),
            content_of(op),
            answer.status,
            body.get("recorded") is True,
            body.get("order", {}).get("status", ""),
        )
        is_new = not any(one.result_id == kept.result_id for one in self.records.results)
        if is_new and op.content in ("approved", "declined", "canceled"):
            self.records.results.append(kept)
