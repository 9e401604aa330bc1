"""GET /operator/v1/exports/orders: orders as CSV and as JSON lines."""

from __future__ import annotations

import asyncio
import csv
import io
import itertools
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest

from accounts import other_seller
from cost import turns_within
from faulty_database import FaultyDatabase
from operator_calls import Operator, audited, operator
from paydesk.engine.orders.order import Order
from paydesk.operators.orders.export.formats import COLUMNS, csv_lines, harmless
from paydesk.operators.orders.export.handlers import SLICE_ROWS, Exporting
from paydesk.platform.storage.database import Database, T, Work
from plain_rows import run
from refund_scene import paid, refund
from resolving_scene import typed
from service import Service, running
from tables import each
from waiting import until

MANY, MILLISECONDS_MAX = 5_000, 50.0
WIDE_EQUALS = "\uff1d"


async def exported(desk: Operator, query: str = "", path: str = "") -> tuple[list[dict[str, str]], str | None]:
    """Return the rows of the export, and the address of the next ones."""
    address = path or f"/operator/v1/exports/orders?{query}"
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {desk.token}"}) as client,
        client.get(desk.service.base_url + address) as response,
    ):
        assert response.status == 200, await response.text()
        assert response.headers["content-type"] == "text/csv; charset=utf-8"
        assert re.fullmatch(
            r'attachment; filename="orders-\d{4}-\d\d-\d\d\.csv"', response.headers["content-disposition"]
        )
        text = (await response.read()).decode()
        link = re.fullmatch('<(.+)>; rel="next"', response.headers.get("link", ""))
    assert text.startswith(",".join(COLUMNS) + "\r\n")
    return list(csv.DictReader(io.StringIO(text, newline=""))), link and link[1]


@pytest.mark.on_postgres
async def test_orders_are_exported_as_csv(database: Database) -> None:
    """With amounts, card and payer; the filters are those of the list."""
    async with running(database, workers=False) as service:
        desk = await operator(service, "support")
        order_id = await paid(service)
        assert (await refund(service, order_id, "4.90")).status == 201
        await run(database, "UPDATE orders SET payer_email = 'p@shop.example' WHERE order_id = $1", order_id)
        other = await service.create(await service.terminal(), external_reference="A-1", description="=1+1")
        rows, more = await exported(desk)
        assert more is None
        assert [row["id"] for row in rows] == [other.body["id"], order_id]
        expected = {
            "status": "processed",
            "status_detail": "partially_refunded",
            "live_mode": "false",
            "currency": "BRL",
            "amount": "24.90",
            "paid_amount": "24.90",
            "refunded_amount": "4.90",
            "payer_email": "p@shop.example",
            "seller_id": str(service.seller_id),
        }
        assert expected.items() <= rows[1].items()
        assert (rows[0]["external_reference"], rows[0]["description"]) == ("A-1", "'=1+1")
        filtered, _ = await exported(desk, "status=created&external_reference=A-1")
        assert filtered == rows[:1]
        assert await exported(desk, "live=true") == ([], None)


@pytest.mark.on_postgres
async def test_export_is_in_the_audit_trail(database: Database) -> None:
    """Of every role: who, the filters without the buyer's address, and how many orders; a refused one is not."""
    async with running(database, workers=False) as service:
        desk = await operator(service, "viewer")
        await paid(service)
        await exported(desk, "status=processed&limit=5")
        await exported(desk, "payer_email=p%40shop.example")
        assert await desk.refused("GET", "exports/orders?status=lost") == (400, "property_value")
        first, second = await audited(service)
    assert (first.operator_id, first.action, first.subject) == (desk.operator_id, "orders.export", "orders")
    assert first.after == {"filters": {"status": "processed"}, "rows": 1}
    assert second.after["rows"] == 0
    assert "shop.example" not in str(second)


@pytest.mark.on_postgres
async def test_more_orders_follow_a_link(database: Database) -> None:
    """Each order is in one part; the filters stay."""
    async with running(database, workers=False) as service:
        desk, other = await operator(service), await other_seller(service)
        sellers = (service, other, service, service)
        made = [(await one.create(await one.terminal())).body["id"] for one in sellers]
        found, path = await exported(desk, f"limit=1&since={quote('2020-01-01T00:00:00+01:00')}")
        while path is not None:
            assert "since=2020-01-01T00%3A00%3A00%2B01%3A00" in path
            rows, path = await exported(desk, path=path)
            found += rows
        assert sorted(row["id"] for row in found) == sorted(made)


@pytest.mark.on_postgres
async def test_other_requests_are_served_during_an_export(database: Database) -> None:
    """No turn of the event loop takes as long as writing thousands of orders; no order is lost between slices."""
    async with running(database, workers=False) as service:
        desk = await operator(service, "viewer")
        await copied(database, await paid(service), MANY)

        async def export() -> None:
            rows, more = await exported(desk)
            assert (len({row["id"] for row in rows}), more) == (MANY + 1, None)

        await turns_within(MILLISECONDS_MAX, export)
        rows, more = await exported(desk, f"limit={SLICE_ROWS + 1}")
        assert (len(rows), more is not None) == (SLICE_ROWS + 1, True)


class HeldDatabase(FaultyDatabase):
    """A database whose long reads wait while a test says so."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.may_read = asyncio.Event()

    async def read(self, work: Work[T], **options: Any) -> T:
        """Run `work` once it may."""
        if options.get("heavy"):
            await self.may_read.wait()
        return await super().read(work, **options)


async def test_an_operator_has_one_export_at_a_time(database: Database) -> None:
    """A second one at once is refused; another operator's is not, nor a later one, whatever became of the first."""
    held = HeldDatabase(database)
    async with running(held, workers=False) as service:
        desk, other = await operator(service, "viewer"), await operator(service, "viewer")
        exports = [asyncio.create_task(exported(one)) for one in (desk, other)]
        await until(lambda: service.shared.objects[Exporting] == {desk.operator_id, other.operator_id})
        refused = await desk.ask("GET", "exports/orders")
        assert (refused.status, refused.code, refused.headers["retry-after"]) == (429, "too_many_requests", "1")
        assert "Another export of yours is under way" in refused.body["message"]
        held.may_read.set()
        assert [await export for export in exports] == [([], None)] * 2
        assert await desk.refused("GET", "exports/orders?after=x") == (400, "property_value")
        assert await exported(desk) == ([], None)


async def copied(database: Database, order_id: str, count: int) -> None:
    """Insert so many copies of an order."""
    others = ", ".join(name for name in Order.__struct_fields__ if name not in ("seller_id", "order_id"))
    await run(
        database,
        f"""INSERT INTO orders (seller_id, order_id, {others})
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
        SELECT seller_id, substr(order_id, 1, 23) || substr(CAST(100000 + i AS text), 1, 6), {others}
          FROM n CROSS JOIN orders WHERE order_id = $1""",
        order_id,
    )


@each("query", ["limit=10001", "limit=0", "status=open", "after=x", "since=x"])
async def test_invalid_parameters_return_400(service: Service, query: str) -> None:
    """As for the list."""
    assert await (await operator(service)).refused("GET", f"exports/orders?{query}") == (400, "property_value")


def test_cells_follow_rfc_4180() -> None:
    """Quotes are doubled, cells with separators are quoted, lines end with CRLF."""
    text = csv_lines([{"id": 'a "b"', "description": "c, d\ne", "live_mode": True}])
    assert text.decode() == '"a ""b""",,,,true,,,,,,,,"c, d\ne",,,,,,,,,,,,\r\n'


@each(
    "value, shown",
    [
        *((f"{sign}1", f"'{sign}1") for sign in f"=+-@{WIDE_EQUALS}\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b"),
        *((f"{blank}=1", f"'{blank}=1") for blank in (" ", "  ", "\xa0", "\u3000", "\x0b", '"', "\u200b")),
        *((f"{line}=1", f"{line}'=1") for line in ("\t", "\r", "\n")),
        ("a;=1", "a;'=1"),
        (f"a; {WIDE_EQUALS}1;b;-2", f"a;' {WIDE_EQUALS}1;b;'-2"),
        ('a;"=1', "a;'\"=1"),
        ("\u200d=1", "'\u200d=1"),
        ("=1;=2", "'=1;'=2"),
        ("a\n+1", "a\n'+1"),
        ("a;\t@", "a;'\t'@"),
        *((same, same) for same in ("", "a=1", "a - b", "a;b", "a, =1", "1;2", 7, None)),
    ],
)
def test_a_cell_is_no_formula(value: Any, shown: Any) -> None:
    """An apostrophe stands before each formula that a spreadsheet sees, with each list separator."""
    assert harmless(value) == shown


@each("separator", [",", ";", "\t"])
def test_no_cell_is_a_formula_in_any_country(separator: str) -> None:
    """Read with another list separator, cells end within texts: none of them begins a formula."""
    texts = [
        "".join(parts)
        for parts in itertools.product(("", "a"), (*';,"\t\n', " "), ("", " ", '"'), ("=1", f"{WIDE_EQUALS}1", "-1"))
    ]
    read = csv_lines([{"id": "O1", "description": text, "payer_email": text} for text in texts]).decode()
    cells = [cell for row in csv.reader(io.StringIO(read, newline=""), delimiter=separator) for cell in row]
    assert not [cell for cell in cells if cell.strip(' "\t\r\n').startswith(("=", WIDE_EQUALS, "-"))]


@pytest.mark.on_postgres
async def test_json_lines_have_the_values_unchanged(database: Database, tmp_path: Path) -> None:
    """By `format`, in parts as the CSV, and by the command; values that an order has not are absent."""
    async with running(database, workers=False) as service:
        desk = await operator(service)
        order_id = await paid(service)
        other = (await service.create(await service.terminal(), external_reference="A-1", description="=1; =2")).body[
            "id"
        ]
        reply = await desk.ask("GET", "exports/orders?format=jsonl&limit=1")
        assert reply.headers["content-type"] == "application/jsonl"
        assert reply.headers["content-disposition"].endswith('.jsonl"')
        assert "format=jsonl" in reply.headers["link"]
        text = await typed(desk, tmp_path, "orders", "export", "--format", "jsonl")
        assert text.encode().startswith(reply.raw)
        created, processed = map(json.loads, text.splitlines())
        assert (created["id"], created["description"], created["live_mode"]) == (other, "=1; =2", False)
        assert not created.keys() & {"paid_amount", "paid_date", "installments", "payer_email"}
        assert (processed["id"], processed["paid_amount"], processed["installments"]) == (order_id, "24.90", 1)
        assert processed.keys() < {*COLUMNS}
        assert await desk.refused("GET", "exports/orders?format=xml") == (400, "property_value")
        assert "jsonl" in await typed(desk, tmp_path, "orders", "export", "--format", "xml")


@pytest.mark.on_postgres
async def test_commands(database: Database, tmp_path: Path) -> None:
    """`paydesk orders export`, `search`, `figures` and `attention`."""
    async with running(database, workers=False) as service:
        desk = await operator(service)
        order_id = await paid(service)
        text = await typed(desk, tmp_path, "orders", "export", "--status", "processed", "--test")
        assert [row["id"] for row in csv.DictReader(io.StringIO(text))] == [order_id]
        assert (await typed(desk, tmp_path, "orders", "list", "--test", "--json")).count(order_id) == 1
        assert await typed(desk, tmp_path, "orders", "list", "--live") == ""
        assert "--format jsonl" in await typed(desk, tmp_path, "orders", "export", "--json")
        assert order_id in await typed(desk, tmp_path, "search", order_id.lower())
        assert "Nothing was found for x1." in await typed(desk, tmp_path, "search", "x1")
        figures = await typed(desk, tmp_path, "figures", "--test")
        assert "processed 24.90" in figures
        assert "must be a date" in await typed(desk, tmp_path, "figures", "--day", "today")
        assert await typed(desk, tmp_path, "attention") == ""
        assert await typed(desk, tmp_path, "attention", "--json") == "[]\n"
