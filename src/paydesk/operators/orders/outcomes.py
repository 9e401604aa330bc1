"""Work at the acquirer as operators see it: inquiries, reversals, refunds and confirmations, with their lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Annotated, Any, Literal

from msgspec import Meta

from paydesk.core.lifecycle import State
from paydesk.core.money import CURRENCIES, decimal_string
from paydesk.core.response import Time, named, one_of
from paydesk.engine.payments import lifecycles
from paydesk.engine.payments.jobs import NEVER_MS
from paydesk.engine.payments.lifecycles import CONFIRMATIONS, CONFIRMING, INQUIRIES, REFUNDS, REVERSALS, InquiryOutcome
from paydesk.operators.deliveries.retried import TIMES, Retried
from paydesk.operators.lists import Pages, of_status
from paydesk.operators.newest import BY_ID, Newest, newest, pages
from paydesk.operators.words import Shown
from paydesk.platform.operation import Query
from paydesk.platform.storage.database import Row, Transaction

_CURRENCY = "(SELECT o.currency FROM orders o WHERE o.seller_id = {0}.seller_id AND o.order_id = {0}.order_id)"
ORDER_STATUS = _CURRENCY.replace("currency", "status")
_IS_UNCONFIRMED = f"""EXISTS (SELECT 1 FROM confirmations c
         WHERE c.seller_id = {{0}}.seller_id AND c.order_id = {{0}}.order_id AND c.{CONFIRMING})"""


@dataclass(frozen=True, slots=True)
class Work:
    """A kind of work that is attempted at the acquirer until it ends: its table, and what operators see of a row."""

    table: str
    names: str
    """The columns, separated by spaces. They begin with the key of its list, the id and the seller."""
    open: State | str
    """The condition of rows that have not ended."""
    derive: Callable[[SimpleNamespace], Mapping[str, Any]]
    """Returns what documents have besides the columns."""
    computed: Mapping[str, str] = field(default_factory=dict)
    """The expressions of columns of other tables, formatted with the name of its own."""

    @property
    def columns(self) -> str:
        """The columns in SQL, with the attempts and their times."""
        computed = {name: sql.format(self.table) for name, sql in self.computed.items()}
        own = ", ".join(computed.get(name, name) for name in self.names.split())
        return f"{own}, {TIMES.format(self.open)}"

    def select(self, condition: str) -> str:
        """Return the statement of the rows with this condition."""
        return f"SELECT {self.columns} FROM {self.table} WHERE {condition}"

    @property
    def key(self) -> str:
        """The column of its id."""
        return self.names.partition(" ")[0]

    def read(self, row: Row) -> SimpleNamespace:
        """Return the source of the documents about a row. `next_ms` is None if no further attempt is made."""
        one = named(f"{self.names} attempts next_ms created_ms ended_ms", row)
        one.id, one.live_mode, one.is_given_up = row[0], bool(one.live), one.next_ms == NEVER_MS
        if one.is_given_up or one.ended_ms is not None:
            one.next_ms = None
        vars(one).update(self.derive(one))
        return one


def _waits(one: SimpleNamespace, usually: str) -> Mapping[str, str | None]:
    """Return what work waits for: nothing after its end, a person if no further attempt is made."""
    return {"waits_for": None if one.ended_ms is not None else "person" if one.is_given_up else usually}


def _amount(one: SimpleNamespace) -> Mapping[str, Any]:
    """Return a confirmation's amount, and its next attempt: the reversal of an undone approval is a job of its own."""
    is_open = one.status in (lifecycles.PROVISIONAL.name, CONFIRMING.name)
    amount = decimal_string(one.amount_minor, CURRENCIES[one.currency].decimals)
    payment_id = f"PAY{one.order_id[3:]}"
    return {"amount": amount, "payment_id": payment_id, "next_ms": one.next_ms if is_open else None}


INQUIRY = Work(
    "inquiries",
    "order_id seller_id live reason reversing_ms outcome order_status",
    INQUIRIES.open,
    lambda one: dict.fromkeys(("status", "waits_for"), lifecycles.inquiry_status(one.reversing_ms, one.outcome)),
    {"order_status": ORDER_STATUS},
)
REVERSAL = Work(
    "reversals",
    "reversal_id seller_id order_id live currency amount_minor reference_id confirmed status refunding_ms",
    lifecycles.PENDING,
    lambda one: _waits(one, "reversal" if one.refunding_ms is None else "refund"),
    {"currency": _CURRENCY},
)
REFUND = Work(
    "refunds",
    "refund_id seller_id order_id live currency amount status reference_id is_unconfirmed",
    lifecycles.PROCESSING,
    lambda one: _waits(one, "confirmation" if one.is_unconfirmed else "refund"),
    {"currency": _CURRENCY, "is_unconfirmed": _IS_UNCONFIRMED},
)
# Neither the issuer's data nor the chip's.
CONFIRMATION = Work(
    "confirmations",
    "order_id seller_id live status amount_minor currency reference_id authorization_code approved_ms decide_by_ms"
    " deadline_ms resolution alerted_ms",
    CONFIRMING,
    _amount,
)

ONE = {one.table: one.select(f"seller_id = $1 AND {one.key} = $2") for one in (INQUIRY, REVERSAL, REFUND, CONFIRMATION)}
"""The statement of the row of an id, by its table."""


async def find(tx: Transaction, work: Work, seller_id: int, sought: str) -> SimpleNamespace | None:
    """Return the source of the documents about the row of an id, or None."""
    row = await tx.one(ONE[work.table], seller_id, sought)
    return None if row is None else work.read(row)


_NO_ATTEMPT = "No further attempt is made if it waits for a person."
OfReversal = Annotated[Literal["reversal", "refund", "person"], Meta(description=f"While it is pending. {_NO_ATTEMPT}")]
OfRefund = Annotated[
    Literal["refund", "confirmation", "person"], Meta(description=f"While it is processing. {_NO_ATTEMPT}")
]
Confirmed = Annotated[Literal["approved", "not_found"], Meta(description="The acquirer's inquiry result.")]


class ReversalDocument(Retried, frozen=True):
    """The reversal of a late approval."""

    id: str
    seller_id: int
    order_id: str
    live_mode: bool
    amount_minor: int
    reference_id: str
    status: Annotated[str, one_of(REVERSALS.names)]
    confirmed: Confirmed | None = None
    currency: str | None = None
    waits_for: OfReversal | None = None


class InquiryDocument(Retried, frozen=True):
    """An inquiry about an order whose outcome is or was unknown."""

    seller_id: int
    order_id: str
    live_mode: bool
    reason: str
    status: Annotated[str, one_of(INQUIRIES.names)]
    outcome: InquiryOutcome | None = None
    order_status: Annotated[str, Meta(description="An inquiry may go on after its order has ended.")] | None = None


class ListedRefund(Retried, frozen=True):
    """A refund at the acquirer."""

    id: str
    seller_id: int
    order_id: str
    live_mode: bool
    amount: str
    status: Annotated[str, one_of(REFUNDS.names)]
    currency: str | None = None
    reference_id: str | None = None
    waits_for: OfRefund | None = None


class ConfirmationDocument(Retried, frozen=True):
    """A provisional approval of the acquirer, which is confirmed or undone."""

    order_id: str
    payment_id: str
    seller_id: int
    live_mode: bool
    status: Annotated[str, one_of(CONFIRMATIONS.names)]
    amount: str
    currency: str
    reference_id: str
    approved_date: Time
    decide_by_date: Annotated[Time, Meta(description="Without the terminal's result by then, it is undone.")]
    authorization_code: str | None = None
    deadline_date: Annotated[Time, Meta(description="The acquirer's, for the confirmation.")] | None = None
    alerted_date: Annotated[Time, Meta(description="When operators were alerted.")] | None = None
    resolution: Annotated[str, Meta(description="What an operator says of a refused one.")] | None = None


def _newest(work: Work, filters: str = "$5 = '' OR status = $5") -> Newest:
    return newest(work.table, work.columns, BY_ID, filters)


def _pages(work: Work, document: type[Retried], statements: Newest, chosen: Query) -> Pages:
    return pages(document, statements, lambda row: document.of(work.read(row)), BY_ID, chosen)


LIST_INQUIRIES = _newest(INQUIRY, f"$5 <> '1' OR {INQUIRY.open}")
LIST_REVERSALS, LIST_REFUNDS, LIST_CONFIRMATIONS = map(_newest, (REVERSAL, REFUND, CONFIRMATION))
_OPEN = Query(
    "open",
    {"type": "boolean"},
    "Only inquiries that have not ended.",
    shown=Shown("Open", option="--all", default="true", help="Include inquiries that have ended."),
)
INQUIRY_PAGES = _pages(INQUIRY, InquiryDocument, LIST_INQUIRIES, _OPEN)
REVERSAL_PAGES = _pages(REVERSAL, ReversalDocument, LIST_REVERSALS, of_status(REVERSALS))
REFUND_PAGES = _pages(REFUND, ListedRefund, LIST_REFUNDS, of_status(REFUNDS))
CONFIRMATION_PAGES = _pages(CONFIRMATION, ConfirmationDocument, LIST_CONFIRMATIONS, of_status(CONFIRMATIONS))
