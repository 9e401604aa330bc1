"""The clients' records of a run: every response, to be compared with the database."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Literal

Shown = tuple[str, str, str]
"""An order as an answer shows it: its status, its detail, its payment's detail."""

Ending = Literal["created", "declined", "refused", "maybe"]
"""What became of a key: an order or a refund · a refund that the acquirer declined, which is an effect too · nothing ·
refused in the end, but an earlier attempt may still be on its way."""


Operation = Literal["create", "cancel", "refund"]

LIVE = ("created", "at_terminal")


@dataclass
class OrderRecord:
    """All that clients know of one order. Times are monotonic seconds of the harness."""

    order_id: str
    terminal_id: str
    live_from: float
    live_until: float
    seen: dict[int, set[Shown]] = field(default_factory=lambda: defaultdict(set))
    highest_version: int = 0
    granted: bool = False
    canceled_answer: bool = False
    cancel_asked: bool = False
    acknowledged: bool = False


@dataclass
class KeyRecord:
    """One idempotency key: what it was for, and every answer that it was given."""

    key: str
    operation: Operation
    reference: str = ""
    order_id: str = ""
    answers: set[tuple[int, bytes]] = field(default_factory=set)
    ending: Ending = "refused"


@dataclass(frozen=True, slots=True)
class ResultRecord:
    """A result that a terminal reported, and what it was answered."""

    order_id: str
    result_id: str
    content: dict[str, Any]
    status: int
    recorded: bool
    order_status: str


@dataclass(frozen=True, slots=True)
class RefundRecord:
    """A refund as it was answered, 201."""

    order_id: str
    refund_id: str
    amount: str
    status: str


@dataclass(frozen=True, slots=True)
class ChargeRecord:
    """What the acquirer answered a terminal: approved with a reference, or declined."""

    order_id: str
    outcome: Literal["approved", "declined"]
    reference_id: str = ""


@dataclass
class FamilyRecord:
    """An application's family of tokens: for each refresh token all answers, the first token first."""

    first_refresh_token: str
    steps: list[tuple[str, set[tuple[str, str]]]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    works_at_the_end: bool | None = None

    @property
    def newest_refresh_token(self) -> str:
        """The refresh token that the application has to use next."""
        return next(iter(self.steps[-1][1]))[1] if self.steps else self.first_refresh_token


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request at a receiver of notifications."""

    subscription_id: str
    order_id: str
    version: int
    event_id: str
    request_id: str
    body: bytes
    genuine: bool
    taken: bool


@dataclass
class Records:
    """The records of a run."""

    orders: dict[str, OrderRecord] = field(default_factory=dict)
    keys: list[KeyRecord] = field(default_factory=list)
    results: list[ResultRecord] = field(default_factory=list)
    refunds: list[RefundRecord] = field(default_factory=list)
    charges: list[ChargeRecord] = field(default_factory=list)
    families: list[FamilyRecord] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)
    sellers: dict[str, int] = field(default_factory=dict)
    """Whose each terminal is."""
    live: set[str] = field(default_factory=set)
    """The terminals that are no test terminals."""
    audiences: dict[str, tuple[int, bool]] = field(default_factory=dict)
    """Of whose orders each subscription is to hear, and whether of live ones."""
    violations: list[str] = field(default_factory=list)
    """What was wrong the moment that it was answered."""

    def order(self, order_id: str, terminal_id: str) -> OrderRecord:
        """The record of an order, which is known from now on."""
        if order_id not in self.orders:
            now = time.monotonic()
            self.orders[order_id] = OrderRecord(order_id, terminal_id, now, now)
        return self.orders[order_id]

    def saw(self, document: dict[str, Any], *, asked_at: float | None = None, floor: int = 0) -> OrderRecord:
        """An answer showed the order: as it was at `asked_at` or later, and not before version `floor`.

        Without `asked_at` it is the answer to a key, which stays as it was when it was first given.
        """
        record = self.order(document["id"], document["config"]["point"]["terminal_id"])
        payment = document["transactions"]["payments"][0]
        version = document["version"]
        record.seen[version].add((document["status"], document["status_detail"], payment["status_detail"]))
        if version < floor:
            self.violations.append(f"{record.order_id} went back: version {floor} was seen, then {version}")
        record.highest_version = max(record.highest_version, version)
        if asked_at is not None and document["status"] in LIVE:
            record.live_until = max(record.live_until, asked_at)
        return record
