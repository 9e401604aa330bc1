"""What is inserted is what is read: no field of a row's struct is left out, or ends up in another column."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import msgspec
import pytest

from paydesk.engine.orders import store
from paydesk.engine.orders.order import Order
from paydesk.engine.payments.refund import Refund
from paydesk.engine.payments.refunds import store as refund_store
from paydesk.engine.payments.simulator import ledger
from paydesk.engine.payments.simulator.ledger import LedgerPayment, Movement
from paydesk.platform.storage.database import Database, Row, Transaction
from tables import each

ONE_OF = {
    "status": "processing",
    "status_detail": "created",
    "payment_status_detail": "created",
    "kind": "refund",
    "outcome": "approved",
}
"""Values where a column allows only some."""


def _values(names: tuple[str, ...], types: dict[str, str]) -> dict[str, Any]:
    """A different value for each field, of the field's type."""
    return {name: ONE_OF.get(name, n if "int" in types[name] else f"{name}-{n}") for n, name in enumerate(names, 2)}


@pytest.mark.on_postgres
async def test_a_new_order_is_read_as_it_was_inserted(database: Database) -> None:
    """With the defaults of the fields that are not inserted."""
    new = Order.__struct_fields__[: -len(Order.__struct_defaults__)]
    order = Order(**_values(new, Order.__annotations__) | {"status": "created"})

    async def work(tx: Transaction) -> Order | None:
        assert await tx.run(store.CREATE, *store._inserted(order)) == 1
        return await store.find(tx, order.seller_id, order.order_id)

    assert await database.write(work) == order


@each("field", Order.__struct_fields__[len(Order.__struct_fields__) - len(Order.__struct_defaults__) :])
def test_a_new_order_has_defaults_where_nothing_is_inserted(field: str) -> None:
    """Otherwise the value would be lost without an error."""
    new = Order.__struct_fields__[: -len(Order.__struct_defaults__)]
    order = Order(**_values(new, Order.__annotations__), **{field: 7})  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="stands before those with a default"):
        store._inserted(order)


@pytest.mark.on_postgres
async def test_a_new_refund_is_read_as_it_was_inserted(database: Database) -> None:
    """It is due at once, and claimed by its request until the lease ends."""
    refund = Refund(**_values(Refund.__struct_fields__, Refund.__annotations__))

    async def work(tx: Transaction) -> Row | None:
        await tx.run(refund_store.ADD, *msgspec.structs.astuple(refund), 7_000)
        sql = f"SELECT next_ms, claimed_until_ms, {refund_store.COLUMNS} FROM refunds"
        return await tx.one(sql)

    row = await database.write(work)
    assert row is not None
    assert Refund(*row[2:]) == refund
    assert tuple(row[:2]) == (refund.created_ms, 7_000)


@pytest.mark.on_postgres
@pytest.mark.parametrize(
    ("add", "find", "kind"),
    [
        (ledger.ADD_PAYMENT, ledger.FIND_PAYMENT, LedgerPayment),
        (ledger.ADD_MOVEMENT["refund"], ledger.FIND_MOVEMENT["refund"], Movement),
    ],
)
async def test_a_row_of_the_ledger_is_read_as_it_was_inserted(
    database: Database, add: str, find: str, kind: type[Any]
) -> None:
    """All of its fields."""
    named = _values(
        tuple(field.name for field in fields(kind)), {field.name: str(field.type) for field in fields(kind)}
    )

    async def work(tx: Transaction) -> Row | None:
        await tx.run(add, *named.values())
        return await tx.one(find, *list(named.values())[:2])

    row = await database.write(work)
    assert row is not None
    assert kind(*row) == kind(**named)


def test_rows_have_the_columns_of_their_structs() -> None:
    """The parameters of an INSERT are as many as its struct's fields, and one for the refund's lease."""
    for sql, count in (
        (store.CREATE, len(Order.__struct_fields__) - len(Order.__struct_defaults__)),
        (refund_store.ADD, len(Refund.__struct_fields__) + 1),
    ):
        assert {int(number) for number in re.findall(r"\$(\d+)", sql)} == set(range(1, count + 1))
