"""Fixtures for tests of terminals: a seller with a terminal, orders on it, and the terminal's requests."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from pydantic import BaseModel

from paydesk.core import ids
from paydesk.core.clock import MovableClock
from paydesk.core.errors import Refusal
from paydesk.engine.device import leases, results, sessions
from paydesk.engine.device.gateway import Gateway
from paydesk.engine.device.operations import OPERATIONS
from paydesk.engine.device.polling import handlers as polling
from paydesk.engine.device.schemas import CancelResultRequest, HelloRequest, ProgressRequest, SessionRequest
from paydesk.engine.orders import store as orders
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.status import Move
from paydesk.engine.orders.status_labels import PLAIN
from paydesk.engine.sellers import store as sellers
from paydesk.engine.terminals import handlers, store, stores
from paydesk.engine.terminals.schemas import OperatingMode, SetupRequest
from paydesk.platform.operation import Answer, Call, Caller, Handler
from paydesk.platform.settings import Settings
from paydesk.platform.shared import Shared
from paydesk.platform.storage.database import Database, Row, Transaction
from shared_objects import make_shared

START_MS = 1_769_869_602_109
APPROVED = {
    "outcome": "approved",
    "status_detail": "accredited",
    "payment_method": {"id": "visa", "type": "credit_card", "installments": 1},
    "card": {"first_digits": "503175", "last_digits": "6351", "entry_mode": "contactless"},
    "paid_amount": "24.90",
    "authorization_code": "831000",
    "reference_id": "115019989861",
}
DECLINED = {"outcome": "declined", "status_detail": "insufficient_amount"}
CANCELED = {"outcome": "canceled", "status_detail": "canceled_on_terminal"}
UNKNOWN = {"outcome": "unknown"}
KEYS_OF = {operation.handler: operation.conflict_keys for operation in OPERATIONS if operation.conflict_keys}


def new_boot() -> str:
    """Return a boot id, as a terminal generates one at every start."""
    return str(uuid.uuid4())


@dataclass
class Desk:
    """A seller with a point of sale and a terminal in mode PDV."""

    database: Database
    seller_id: int
    pos_id: int
    store_id: int
    terminal_id: str
    clock: MovableClock = field(default_factory=lambda: MovableClock(frozen_ms=START_MS))
    settings: Settings = field(default_factory=Settings)
    gateway: Gateway = field(default_factory=Gateway)
    boot_id: str = field(default_factory=new_boot)
    _shared: Shared | None = field(default=None, init=False, repr=False)

    @property
    def shared(self) -> Shared:
        """Return the shared objects of the calls."""
        if self._shared is None:
            self._shared = make_shared(self.database)
        shared = replace(self._shared, settings=self.settings, database=self.database, clock=self.clock)
        return shared.including(self.gateway)

    async def handle(
        self,
        handler: Handler,
        body: BaseModel | bytes | None = None,
        *,
        paths: Sequence[str] = (),
        query: Mapping[str, str] | None = None,
        live: bool = False,
        terminal_id: str | None = None,
        revoked: bool = False,
        in_transaction: bool = True,
    ) -> Answer | Refusal:
        """Return the handler's answer or refusal. A raised refusal rolls its transaction back."""
        call = Call(
            shared=self.shared,
            caller=Caller(
                self.seller_id,
                live=live,
                currency="BRL",
                country="BRA",
                terminal_id=terminal_id or self.terminal_id,
                revoked_ms=self.clock.now_ms() if revoked else None,
            ),
            now_ms=self.clock.now_ms(),
            request_id="",
            body=body,
            path=paths[-1] if paths else "",
            paths=tuple(paths),
            query=query or {},
        )

        async def work(tx: Transaction) -> Answer | Refusal:
            call._tx = tx
            return await handler(call)

        try:
            if not in_transaction:
                return await handler(call)
            return await self.database.write(work, conflict_keys=KEYS_OF[handler](call) if handler in KEYS_OF else ())
        except Refusal as refusal:
            return refusal

    async def terminal(
        self, *, pos_id: int | None = None, operating_mode: OperatingMode = "UNDEFINED", live: bool = False
    ) -> str:
        """Create another terminal of the seller."""
        made = await self.database.write(
            lambda tx: store.create(
                tx,
                seller_id=self.seller_id,
                pos_id=pos_id or self.pos_id,
                terminal_id=store.virtual_id(),
                live=live,
                operating_mode=operating_mode,
                now_ms=START_MS,
            )
        )
        assert made is not None
        return made.terminal_id

    async def order(self, *, seconds: int = 900) -> Order:
        """Create an order on the terminal."""
        order = self.new_order(seconds=seconds)
        assert await self.database.write(lambda tx: orders.create(Change(tx, order.created_ms, PLAIN), order))
        return order

    def new_order(self, *, seconds: int = 900) -> Order:
        """Return an order that is not in the database."""
        now_ms = self.clock.now_ms()
        return Order(
            seller_id=self.seller_id,
            order_id=f"ORD{ids.ulid(now_ms)}",
            application_id=1,
            live=0,
            terminal_id=self.terminal_id,
            status="created",
            status_detail="created",
            payment_status_detail="created",
            version=1,
            currency="BRL",
            country="BRA",
            amount="24.90",
            amount_minor=2490,
            external_reference="ext_ref_1234",
            description=None,
            expiration_time="PT15M",
            config='{"point":{"terminal_id":"T","print_on_terminal":"seller_ticket"}}',
            integration_data="{}",
            created_ms=now_ms,
            updated_ms=now_ms,
            expires_ms=now_ms + seconds * 1000,
            payer_email=None,
            taxes=None,
            acquirer=None,
        )

    async def move(self, move: Move, order: Order) -> Order | None:
        """Make a move that is not the terminal's, as a cancel or an expiry."""
        return await self.database.write(lambda tx: orders.move(Change(tx, self.clock.now_ms(), PLAIN), move, order))

    async def now(self, order: Order) -> Order:
        """Return the current row of the order."""
        found = await self.database.read(lambda tx: orders.find(tx, order.seller_id, order.order_id))
        assert found is not None
        return found

    async def rows(self, sql: str, *args: Any) -> list[Row]:
        """Return the rows of a statement."""
        return await self.database.read(lambda tx: tx.all(sql, *args))

    async def hello(self, *journal: dict[str, Any], boot_id: str | None = None) -> Answer | Refusal:
        """Send a hello; without a boot id it repeats the current session's."""
        self.boot_id = boot_id or self.boot_id
        body = HelloRequest.model_validate({"boot_id": self.boot_id, "journal": list(journal)})
        return await self.handle(sessions.hello, body, in_transaction=False)

    async def next(self, wait: int = 0, boot_id: str | None = None) -> Answer | Refusal:
        """Poll for the next message."""
        query = {"boot_id": boot_id or self.boot_id, "wait": str(wait)}
        return await self.handle(polling.next_message, query=query, in_transaction=False)

    async def acknowledge(self, order: Order, boot_id: str | None = None, **caller: Any) -> Answer | Refusal:
        """Acknowledge the order."""
        body = SessionRequest(boot_id=boot_id or self.boot_id)
        return await self.handle(leases.acknowledge, body, paths=[order.ulid], **caller)

    async def progress(self, order: Order, step: str, seq: int = 1, boot_id: str | None = None) -> Answer | Refusal:
        """Report a step."""
        body = ProgressRequest.model_validate({"boot_id": boot_id or self.boot_id, "seq": seq, "step": step})
        return await self.handle(leases.progress, body, paths=[order.ulid])

    async def answer_cancel(self, order: Order, *, done: bool) -> Answer | Refusal:
        """Answer a cancel message."""
        body = CancelResultRequest(boot_id=self.boot_id, done=done)
        return await self.handle(leases.answer_cancel, body, paths=[order.ulid])

    async def report(
        self, order: Order, result: dict[str, Any] | bytes, result_id: str | None = None, **caller: Any
    ) -> Answer | Refusal:
        """Report a result."""
        raw = result if isinstance(result, bytes) else json.dumps({"boot_id": self.boot_id, **result}).encode()
        return await self.handle(results.report, raw, paths=[order.ulid, result_id or new_boot()], **caller)

    async def setup(self, *modes: tuple[str, str], live: bool = False) -> Answer | Refusal:
        """Set modes as an application."""
        items = [{"id": terminal_id, "operating_mode": mode} for terminal_id, mode in modes]
        return await self.handle(handlers.setup, SetupRequest.model_validate({"terminals": items}), live=live)

    async def at_terminal(self) -> Order:
        """Create an order and acknowledge it."""
        order = await self.order()
        assert answered(await self.hello())
        assert answered(await self.acknowledge(order))
        return await self.now(order)

    async def granted(self) -> Order:
        """Create an order whose authorization is permitted."""
        order = await self.at_terminal()
        assert answered(await self.progress(order, "authorizing"))["go"] is True
        return await self.now(order)


async def open_desk(database: Database) -> Desk:
    """Create the desk in a fresh database."""

    async def work(tx: Transaction) -> Desk:
        seller = await sellers.create(
            tx,
            email="seller@shop.example",
            name="Corner shop",
            country="BRA",
            currency="BRL",
            password_hash="-",
            now_ms=START_MS,
        )
        assert seller is not None
        shop = await stores.create_store(tx, seller.seller_id, "Main street", START_MS)
        pos = await stores.create_pos(tx, seller.seller_id, shop.store_id, "SUC0101POS", "Till 1", START_MS)
        assert pos is not None
        terminal = await store.create(
            tx,
            seller_id=seller.seller_id,
            pos_id=pos.pos_id,
            terminal_id=store.virtual_id(),
            live=False,
            is_virtual=True,
            operating_mode="PDV",
            now_ms=START_MS,
        )
        assert terminal is not None
        return Desk(database, seller.seller_id, pos.pos_id, shop.store_id, terminal.terminal_id)

    return await database.write(work)


def answered(outcome: Answer | Refusal) -> dict[str, Any]:
    """Assert that the outcome is a 200 and return its body."""
    assert isinstance(outcome, Answer), outcome
    assert outcome.status == 200
    body: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(outcome.body))
    return body


def refused(outcome: Answer | Refusal) -> str:
    """Assert that the outcome is a refusal and return its code."""
    assert isinstance(outcome, Refusal), outcome
    return outcome.kind.code
