"""Orders as `GET /operator/v1/orders/{order_id}` has them, one of each kind that a timeline must show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from paydesk.core.clock import rfc3339
from paydesk.engine.orders import status
from paydesk.engine.orders.order import OrderRefund
from paydesk.engine.orders.presentation import EXAMPLE_ORDER, example, order_document
from paydesk.engine.orders.status import Move, State
from paydesk.engine.orders.status_labels import PLAIN

START_MS = EXAMPLE_ORDER.created_ms
Document = dict[str, Any]
CARD = {"first_digits": "423564", "last_digits": "6351", "entry_mode": "chip"}
HOUR, DAY = 3_600_000, 86_400_000


def at(after_ms: int) -> str:
    """Return a time after the start."""
    return rfc3339(START_MS + after_ms)


class Story:
    """Builds the document of an order, one fact after the other."""

    def __init__(self) -> None:
        self.state, self.columns = status.CREATED, dict[str, Any]()
        self.times: Document = {"created_date": at(0)}
        self.more: Document = {
            "steps": [], "results": [], "order_refunds": [], "reversals": [], "changes": [], "deliveries": [],
        }  # fmt: skip
        self.events: list[Document] = []
        self.requests: list[Document] = []
        self.move(status.CREATE, status.CREATED, 0)

    def move(self, move: Move, state: State, after_ms: int) -> Story:
        """Make a move."""
        self.state = state
        names = {"status": state.status, "status_detail": state.detail, "payment_status_detail": state.payment_detail}
        number = len(self.events) + 1
        event = {"id": f"e{number}", "version": number, "move": move.name, "action": move.action}
        self.events.append({**event, **names, "created_date": at(after_ms)})
        if state.status not in status.LIVE:
            self.times.setdefault("ended_date", at(after_ms))
        return self

    def taken(self, offered_ms: int = 18, after_ms: int = 52) -> Story:
        """Have the terminal take it."""
        self.times |= {"offered_date": at(offered_ms), "acknowledged_date": at(after_ms)}
        return self.move(status.ACKNOWLEDGE, status.AT_TERMINAL, after_ms)

    def steps(self, **steps: int) -> Story:
        """Report steps of the terminal."""
        self.more["steps"] += [{"step": name, "date": at(after_ms)} for name, after_ms in steps.items()]
        return self

    def permitted(self, after_ms: int) -> Story:
        """Permit the authorization."""
        self.times["permitted_date"] = at(after_ms)
        return self.steps(authorizing=after_ms)

    def result(self, outcome: str, after_ms: int, verdict: str = "taken", **more: Any) -> Story:
        """Report a result."""
        self.more["results"].append({"date": at(after_ms), "outcome": outcome, "verdict": verdict, **more})
        return self

    def delivery(self, action: str, *tries: tuple[int, int, int | str], **more: Any) -> Story:
        """Deliver a notification: each try with its start, its duration, and the answer."""
        history = []
        for number, (after_ms, duration_ms, answer) in enumerate(tries, 1):
            outcome = {"status": answer} if isinstance(answer, int) else {"error": answer}
            history.append({"number": number, "date": at(after_ms), "duration_ms": duration_ms, **outcome})
        delivered = bool(history) and history[-1].get("status") == 200
        self.more["deliveries"].append(
            {
                "id": f"d{len(self.more['deliveries'])}.s1", "action": action, "url": "https://till.example/hook",
                "status": "delivered" if delivered else "pending", "history": history, "attempts": len(history),
                "version": len(self.events), "subscription_id": "s1", "created_date": at(0), **more,
            }
        )  # fmt: skip
        return self

    def request(self, method: str, path: str, after_ms: int, duration_ms: int, code: int = 201, **more: Any) -> Story:
        """Record a request of a client."""
        entry = f"R{len(self.requests)}"
        self.requests.append(
            {"entry_id": entry, "method": method, "path": path, "status": code, "created_date": at(after_ms),
             "duration_ms": duration_ms, "replayed": False, **more}
        )  # fmt: skip
        return self

    @property
    def order(self) -> Document:
        """The document."""
        names = {
            "status": self.state.status,
            "status_detail": self.state.detail,
            "payment_status_detail": self.state.payment_detail,
        }
        order = msgspec.structs.replace(EXAMPLE_ORDER, **names, **self.columns)
        document: Document = example(order_document(order, PLAIN))
        return {**document, "times": self.times, "events": self.events, **self.more}


def declined() -> Story:
    """Return one with a chip card and a PIN, declined; the second try delivers the notification."""
    story = Story().request("POST", "/v1/orders", -1, 31).taken()
    story.steps(card_requested=104, card_presented=6310, pin_requested=6402, pin_entered=11290).permitted(11334)
    story.result("declined", 12811, status_detail="insufficient_amount", card=CARD)
    story.move(status.DECLINE, status.FAILED["insufficient_amount"], 12812)
    return story.delivery("order.failed", (12859, 134, 500), (32993, 54, 200))


def processed() -> Story:
    """Return a paid one, with every notification delivered at once."""
    story = Story().request("POST", "/v1/orders", 0, 29).taken()
    story.delivery("order.created", (35, 40, 200)).delivery("order.at_terminal", (90, 44, 200))
    story.steps(card_requested=99, card_presented=4200).permitted(4230)
    story.result("approved", 5100, card={**CARD, "entry_mode": "contactless"})
    story.move(status.APPROVE, status.PROCESSED, 5101).delivery("order.processed", (5150, 60, 200))
    story.columns |= {"paid_minor": 2490, "authorization_code": "831000", "card": msgspec.json.encode(CARD).decode()}
    return story.steps(printing=5200)


def waiting_for_card() -> Story:
    """Return one whose terminal waits for a card."""
    return Story().taken().steps(card_requested=100)


def never_taken() -> Story:
    """Return one that waits for a terminal that is offline."""
    story = Story()
    story.more["waiting"] = {"waits_for": "acknowledgement", "message": f"at {at(960_000)} it expires."}
    return story


def expired_untaken() -> Story:
    """Return one that no terminal took."""
    return Story().move(status.EXPIRE, status.EXPIRED, 960_000)


def canceled_at_once() -> Story:
    """Return one that its application canceled in the same millisecond."""
    return Story().move(status.CANCEL, status.CANCELED_BY_API, 0)


def expired_at_card() -> Story:
    """Return one that expired while the terminal waited for a card."""
    return Story().taken().steps(card_requested=100).move(status.EXPIRE, status.EXPIRED, 960_000)


def released() -> Story:
    """Return one whose terminal an operator released."""
    story = Story().taken().steps(card_requested=100).move(status.RELEASE, status.CANCELED_BY_API, 60_000)
    change = {"id": "a1", "date": at(60_000), "action": "terminals.release", "operator_id": "o1", "operator": "Ana"}
    story.more["changes"].append({**change, "subject": "t1", "reason": "The terminal is broken."})
    return story


def canceled_on_terminal() -> Story:
    """Return one that the buyer canceled."""
    story = Story().taken().steps(card_requested=100).result("canceled", 8000)
    return story.move(status.CANCEL_ON_TERMINAL, status.CANCELED_ON_TERMINAL, 8000)


def unknown(*, ended: bool = True) -> Story:
    """Return one whose outcome was unknown until the inquiry."""
    story = Story().request("POST", "/v1/orders", 0, 29).taken().steps(card_requested=99, card_presented=4200)
    story.permitted(4230).move(status.CHECK, status.CHECK_ON_TERMINAL, 44_250)
    inquiry = {"reason": "the terminal reported no result", "created_date": at(44_250)}
    if not ended:
        story.more["inquiry"] = {**inquiry, "status": "asking", "attempts": 3, "next_date": at(300_000)}
        return story
    story.more["inquiry"] = {
        **inquiry, "status": "ended", "attempts": 2, "ended_date": at(55_100), "outcome": "approved",
    }  # fmt: skip
    story.move(status.APPROVE, status.PROCESSED, 55_100)
    story.columns |= {"paid_minor": 2490, "authorization_code": "831000"}
    tries = [(55_150 + number * HOUR // 3, 50, "connection refused") for number in range(9)]
    return story.delivery("order.processed", *tries, (55_150 + 3 * HOUR, 60, 200))


def late_approval() -> Story:
    """Return one that was approved after it expired, and reversed."""
    story = expired_at_card().result("approved", 965_000, "late_approval", card=CARD)
    reversal = {"id": "v1", "amount": "24.90", "status": "reversed", "attempts": 1, "created_date": at(965_000)}
    story.more["reversals"].append({**reversal, "ended_date": at(965_900)})
    return story


def refunded_later() -> Story:
    """Return one with a refund after five hours by an operator, and one after three days that has not ended."""
    story = processed()
    story.request("POST", f"/v1/orders/{EXAMPLE_ORDER.order_id}/refund", 3 * DAY, 40)
    story.more["changes"].append(
        {"id": "a1", "date": at(5 * HOUR), "action": "orders.refund", "operator": "Ana", "reason": "Returned.",
         "refund_id": "REF1", "operator_id": "o1", "subject": EXAMPLE_ORDER.order_id}
    )  # fmt: skip
    story.more["order_refunds"] += [
        {"id": "REF1", "amount": "10.00", "status": "processed", "attempts": 1, "created_date": at(5 * HOUR),
         "ended_date": at(5 * HOUR + 700)},
        {"id": "REF2", "amount": "5.00", "status": "processing", "attempts": 4, "created_date": at(3 * DAY),
         "next_date": at(3 * DAY + 90_000)},
    ]  # fmt: skip
    story.move(status.REFUND_PART, status.PARTIALLY_REFUNDED, 5 * HOUR + 700)
    refunds = [OrderRefund("REF1", "10.00", "processed", 1, "1"), OrderRefund("REF2", "5.00", "processing", 1, None)]
    story.columns |= {"refunded_minor": 1000, "refunds": msgspec.json.encode(refunds).decode()}
    return story.delivery("order.refunded", (5 * HOUR + 800, 50, 200))


def by_the_service() -> Story:
    """Return one that the service authorized for its terminal."""
    story = Story().taken().steps(card_requested=100, card_presented=2000)
    story.times["permitted_date"] = at(2100)
    story.more["authorization"] = {"date": at(2100), "payment_method": {}, "card": CARD}
    story.columns |= {"paid_minor": 2490, "authorization_code": "831000"}
    return story.move(status.APPROVE, status.PROCESSED, 3000).result("approved", 3050, "finished")


def provisional(kind: str = "provisional") -> Story:
    """Return one whose acquirer's approval, of 3.1 s, waits for the terminal's result."""
    story = Story().taken().steps(card_requested=100, card_presented=2000)
    story.times["permitted_date"] = at(2100)
    story.more["authorization"] = {"date": at(2100), "payment_method": {}, "card": CARD}
    story.more["acquirer"] = {"name": "main", "is_configured": True, "accepts_currency": True, "partial_refunds": True}
    story.more["confirmation"] = {
        "status": kind, "amount": "24.90", "reference_id": "1", "approved_date": at(3100), "attempts": 0,
        "decide_by_date": at(42_100), "deadline_date": at(603_100), "created_date": at(3100),
    }  # fmt: skip
    return story


def confirmed(ended: str = "confirmed") -> Story:
    """Return one that the terminal approves at 5 s, and the acquirer confirms at the second attempt, 10 s later."""
    story = provisional(ended).result("approved", 5000)
    story.columns |= {"paid_minor": 2490, "authorization_code": "831000"}
    story.more["confirmation"] |= {"attempts": 2, "ended_date": at(15_100)}
    return story.move(status.APPROVE, status.PROCESSED, 5001)


def refused() -> Story:
    """Return one that the acquirer refuses to confirm."""
    return confirmed("refused")


def undone() -> Story:
    """Return one whose terminal does not report in time, so that the payment is reversed."""
    story = provisional("undone").move(status.CHECK, status.CHECK_ON_TERMINAL, 42_110)
    story.more["confirmation"]["ended_date"] = at(42_900)
    story.more["inquiry"] = {
        "reason": "the terminal did not report on the approval in time", "created_date": at(42_110), "status": "ended",
        "attempts": 1, "reversing_date": at(42_200), "ended_date": at(42_900), "outcome": "not_found",
    }  # fmt: skip
    return story.move(status.DECLINE, status.FAILED["processing_error"], 42_900)


def undone_by_terminal() -> Story:
    """Return one that the terminal cancels after the acquirer's approval, which is refunded: it came too late."""
    story = provisional("undone").result("canceled", 5000)
    reversal = {"id": "v1", "amount": "24.90", "status": "pending", "attempts": 2, "created_date": at(5000)}
    story.more["reversals"].append(
        {**reversal, "waits_for": "refund", "refunding_date": at(6000), "next_date": at(16_000)}
    )
    return story.move(status.DECLINE, status.FAILED["processing_error"], 5001)


def authorizing() -> Story:
    """Return one that is being authorized."""
    return Story().taken().steps(card_requested=100, card_presented=2000).permitted(2100)


def clock_went_back() -> Story:
    """Return one whose nodes have clocks that differ."""
    story = Story().request("POST", "/v1/orders", 40, 31).taken(-20, -50)
    story.steps(card_requested=30, card_presented=10).permitted(5).result("declined", 3)
    story.move(status.DECLINE, status.FAILED["high_risk"], 2)
    return story.delivery("order.failed", (-3, 20, 200))


STORIES: tuple[tuple[Callable[[], Story], int], ...] = (
    (declined, 120_000),
    (processed, 120_000),
    (waiting_for_card, 7_000),
    (never_taken, 400_000),
    (expired_untaken, 10**7),
    (canceled_at_once, 0),
    (expired_at_card, 10**7),
    (released, 10**7),
    (canceled_on_terminal, 10**6),
    (unknown, 10**8),
    (lambda: unknown(ended=False), 200_000),
    (late_approval, 10**7),
    (refunded_later, 3 * DAY + 6000),
    (by_the_service, 10**5),
    (authorizing, 8_000),
    (provisional, 9_000),
    (confirmed, 10**5),
    (refused, 10**5),
    (undone, 10**6),
    (undone_by_terminal, 20_000),
    (clock_went_back, 10**4),
)
"""Each kind of order, with how long after its start it is looked at."""
NAMES = [make.__name__.replace("<lambda>", "unknown_open") for make, _ in STORIES]
