"""Plays a fixed run of mixed requests against a node in this process: `python -m bench.replay DATABASE_URL COUNT FILE`.

The file gets a line of JSON for each answer, and then for each row of each table. What a request is made of depends on
chance, which is fixed, and on earlier answers. In every twelfth step eight requests are sent together.
"""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TextIO, TypeVar

from bench import fixed

# isort: split
import asyncpg
import uvloop

from bench.counted import read_answer, request, served
from bench.seed import FIRST_SERIAL, KEYS, TERMINAL_PREFIX, Sizes, seed
from paydesk.operators.accounts import credentials
from paydesk.platform import logs, settings
from paydesk.platform.http.asgi import ASGIApp, Receive, Scope, Send
from paydesk.platform.http.recording import worker as request_recording
from paydesk.platform.http.recording.recorder import RequestRecorder
from paydesk.platform.process import node
from paydesk.platform.storage.migrate import migrate
from paydesk.service.app import EVERY_SURFACE
from paydesk.service.compose import compose
from paydesk_dev.inbox import store as sandbox

T = TypeVar("T")

TERMINALS, DEVICES, TOGETHER = 600, 40, 8
CLOCK = fixed.FixedClock()
UNCOMPARED_TABLES = ("schema_migrations", "sqlite_sequence")
RESULTS = (
    {"outcome": "approved", "status_detail": "accredited", "authorization_code": "831000", "reference_id": "42"},
    {"outcome": "declined", "status_detail": "insufficient_amount"},
    {"outcome": "unknown"},
)
CARD = {
    "payment_method": {"id": "visa", "type": "credit_card", "installments": 1},
    "card": {"first_digits": "503175", "last_digits": "6351", "entry_mode": "contactless"},
}
REFUSED: tuple[dict[str, Any], ...] = (
    {"type": "online"},
    {"extra": 1},
    {"transactions": {"payments": []}},
    {"description": "4111 1111 1111 1111"},
    {"external_reference": "a b"},
    {"expiration_time": "PT1S"},
    {"total_amount": "1.00"},
    {"currency": "USD"},
    *({"transactions": {"payments": [{"amount": amount}]}} for amount in ("1.", ".5", "0", "01.999", "٣", 1.5, None)),
    {"config": {"point": {"terminal_id": "NEWLAND_N950__UNKNOWN"}}},
)
BROKEN = (b"", b"{", b'{"type": "point", "type": "point"}', b'{"a": 1%s}' % (b"0" * 30), b"[1]", b'"\xff"', b"\x00")
LISTS = (
    *("orders", "sellers", "applications", "terminals", "stores", "pos", "grants", "requests", "deliveries", "audit"),
    *("subscriptions", "operators", "events", "refunds", "inquiries", "reversals", "figures"),
)
"""Not `attention`, which has orders of one millisecond in any order."""


class Sent(NamedTuple):
    """A request, and what its answer changes for the following ones."""

    method: str
    path: str
    body: Any = None
    token: str | None = None
    key: str = ""
    learn: Callable[[Any], object] = lambda _: None
    """Called with the answer if it is no error; None if it is no object."""


class Player:
    """Chooses the requests."""

    def __init__(self, seeded: dict[str, Any], operator_token: str) -> None:
        self._seeded, self._operator, self._chance = seeded, operator_token, random.Random(7)  # noqa: S311 - repeatable
        self._orders: list[str] = []
        self._creates: list[Sent] = []
        self._subscriptions: list[str] = []
        self._actions: list[str] = []
        self._paid: list[str] = []
        self._devices: list[dict[str, Any]] = [{**one, "steps": []} for one in seeded["devices"]]
        self._numbers = iter(range(1_000_000))
        self._first = [self._change] * 20
        self._kinds: dict[Callable[[], Sent], int] = {
            self._create: 26, self._repeated: 6, self._refused: 10, self._get: 8, self._cancel: 8, self._refund: 5,
            self._simulate: 8, self._device: 26, self._print: 4, self._token: 6, self._operators: 10, self._change: 4,
            self._setup: 2,
        }  # fmt: skip

    def next(self) -> Sent:
        """Return one request."""
        kinds = [*self._kinds]
        return self._first.pop()() if self._first else self._chance.choices(kinds, [*self._kinds.values()])[0]()

    def together(self) -> list[Sent]:
        """Return requests to send together: creates, two of them with one key, and a print action.

        Each has another terminal: which of two is first on PostgreSQL is a matter of time.
        """
        repeated, creates = self._repeated(), [self._create() for _ in range(TOGETHER - 3)]
        sent: dict[str, Sent] = {}
        for one in (*creates, self._new_print(), repeated):
            sent.setdefault(one.body["config"]["point"]["terminal_id"], one)
        return [*sent.values(), creates[0]]

    def _one(self, of: Sequence[T]) -> T:
        return self._chance.choice(of)

    def _order(self) -> str:
        return self._one([*self._orders[-60:], "ORD01J67CQQH5904WDBVZEM4JMEP3"])

    def _terminal(self) -> str:
        """Return a terminal, one time in four one of those that poll, which often have an order already."""
        number = self._chance.randrange(self._one((0, 0, 0, TERMINALS - DEVICES)), TERMINALS)
        return f"{TERMINAL_PREFIX}{FIRST_SERIAL + number}"

    def _of_application(self, method: str, path: str, body: Any = None, key: str | None = None, **more: Any) -> Sent:
        key = f"key-{next(self._numbers)}" if key is None else key
        return Sent(method, path, body, self._seeded["access_token"], key if method == "POST" else "", **more)

    def _body(self, **fields: Any) -> dict[str, Any]:
        point = {"terminal_id": self._terminal(), "print_on_terminal": self._one(("seller_ticket", "no_ticket"))}
        optional = {
            "external_reference": f"ext-{self._chance.randrange(9)}",
            "description": "Café ☕",
            "expiration_time": self._one(("PT10M", "PT1H30M", "PT45S")),
            "payer": {"email": "ana@shop.example"},
            "integration_data": {"platform_id": "p1", "sponsor": {"id": "s1"}},
        }
        chosen = {name: value for name, value in optional.items() if self._chance.random() < 0.4}
        amount = self._one(("24.90", "1", "100.5", "999999999.99"))
        method = {"payment_method": {"default_type": self._one(("credit_card", "debit_card", "qr"))}}
        config = {"point": point, **(method if self._chance.random() < 0.3 else {})}
        required = {"type": "point", "transactions": {"payments": [{"amount": amount}]}, "config": config}
        return required | chosen | fields

    def _create(self) -> Sent:
        sent = self._of_application("POST", "/v1/orders", self._body())
        self._creates.append(sent)
        return sent._replace(learn=lambda order: self._orders.append(order["id"]))

    def _repeated(self) -> Sent:
        sent = self._one(self._creates[-50:]) if self._creates else self._create()
        return sent if self._chance.random() < 0.7 else sent._replace(body=self._body())

    def _refused(self) -> Sent:
        sent = self._of_application("POST", "/v1/orders", self._body(**self._one(REFUSED)))
        if self._chance.random() < 0.5:
            return sent
        return self._one(
            (
                sent._replace(body=self._one(BROKEN)),
                sent._replace(key=self._one(("", "k" * 300))),
                sent._replace(token=self._one((None, "APP_USR-1"))),
            )
        )

    def _get(self) -> Sent:
        search = self._one(("", "?limit=3", "?status=created", "?external_reference=ext-1", "?limit=none"))
        paths = ["/users/me", "/terminals/v1/list", "/v1/events", f"/v1/orders{search}", "/v1/unknown"]
        paths += [f"/v1/orders/{self._order()}"] * 6 + [f"/terminals/v1/actions/{one}" for one in self._actions[-2:]]
        return self._of_application("GET", self._one(paths))

    def _cancel(self) -> Sent:
        return self._of_application("POST", f"/v1/orders/{self._order()}/cancel")

    def _refund(self) -> Sent:
        order = self._one([self._order(), *self._paid[-9:]])
        part = {"transactions": [{"id": f"PAY{order[3:]}", "amount": self._one(("0.50", "5", "99"))}]}
        return self._of_application("POST", f"/v1/orders/{order}/refund", self._one((None, {}, part)))

    def _simulate(self) -> Sent:
        order, status = self._order(), self._one(("processed", "processed", "failed", "canceled", "action_required"))
        sent = self._of_application("POST", f"/v1/orders/{order}/events", {"status": status})
        return sent._replace(learn=lambda _: self._paid.append(order)) if status == "processed" else sent

    def _setup(self) -> Sent:
        mode = {"id": self._terminal(), "operating_mode": self._one(("PDV", "STANDALONE"))}
        return self._of_application("PATCH", "/terminals/v1/setup", {"terminals": [mode]})

    def _print(self) -> Sent:
        if self._actions and self._chance.random() < 0.3:
            return self._of_application("POST", f"/terminals/v1/actions/{self._one(self._actions)}/cancel")
        return self._new_print()

    def _new_print(self) -> Sent:
        config = {"point": {"terminal_id": self._terminal(), "subtype": "custom"}}
        content = "{center}{b}Corner shop{/b}{/center}{br}" + "Your coupon for the next visit. " * 3
        body = {"type": "print", "external_reference": "p-1", "config": config, "content": content}
        sent = self._of_application("POST", "/terminals/v1/actions", body)
        return sent._replace(learn=lambda action: self._actions.append(action["id"]))

    def _device(self) -> Sent:
        """Let a terminal take its next step: poll, or report what it does with the order that it was offered."""
        device = self._one(self._devices)
        boot = {"boot_id": device["boot_id"]}
        if device["steps"]:
            method, path, body = device["steps"].pop(0)
            return Sent(method, f"/device/v1/{path}", {**boot, **body}, device["token"])
        if self._chance.random() < 0.05:
            return Sent("POST", "/device/v1/hello", {**boot, "app_version": "2"}, device["token"])

        def learn(message: Any) -> None:
            device["steps"] = list(self._steps(message, self._one(RESULTS))) if message else []

        return Sent("GET", f"/device/v1/next?wait=0&boot_id={boot['boot_id']}", None, device["token"], learn=learn)

    def _steps(self, message: Any, result: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
        lease = f"leases/{message.get('lease_id')}"
        if message["type"] == "order":
            yield "POST", f"{lease}/ack", {}
            yield "POST", f"{lease}/progress", {"seq": 1, "step": "card_requested"}
            yield "POST", f"{lease}/progress", {"seq": 2, "step": "authorizing"}
            paid = {**CARD, "paid_amount": message["order"]["amount"]} if result["outcome"] == "approved" else {}
            report = f"{lease}/results/{uuid.uuid5(uuid.NAMESPACE_URL, lease)}"
            yield from [("PUT", report, result | paid)] * self._one((1, 1, 2))
        elif message["type"] == "cancel":
            yield "POST", f"{lease}/cancel-result", {"done": self._one((True, False))}
        elif message["type"] == "print":
            yield "POST", f"actions/{message['action_id']}/result", {"outcome": self._one(("printed", "failed"))}

    def _token(self) -> Sent:
        place = self._chance.randrange(8)
        token = self._seeded["refresh_tokens"][place]
        body = {name: self._seeded[name] for name in ("client_id", "client_secret")}
        if self._chance.random() < 0.2:
            path, more = self._one(("revoke", "introspect")), {"token": self._seeded["refresh_tokens"][place + 8]}
            return Sent("POST", f"/oauth/{path}", body | more)
        wrong = self._one(({"client_secret": "wrong"}, {"refresh_token": "TG-1-2"}, {"grant_type": "none"}, *[{}] * 6))
        keeps = self._chance.random() < 0.3  # Then the token is used again.

        def learn(pair: Any) -> None:
            self._seeded["refresh_tokens"][place] = token if keeps else pair["refresh_token"]

        return Sent(
            "POST", "/oauth/token", body | {"grant_type": "refresh_token", "refresh_token": token} | wrong, learn=learn
        )

    def _operators(self) -> Sent:
        paths = [
            *LISTS,
            f"orders/{self._order()}",
            f"search?q={self._order()}",
            f"terminals/{self._terminal()}",
            "none",
        ]
        return Sent("GET", f"/operator/v1/{self._one(paths)}", None, self._operator)

    def _change(self) -> Sent:
        """Change something as an operator."""
        subscription, number = self._one(self._subscriptions or ["none"]), next(self._numbers)
        client_id, seller_id = self._seeded["client_id"], self._seeded["seller_id"]
        seller = {"email": f"s{number}@shop.example", "name": "Shop", "country": "BRA", "currency": "BRL"}
        subscribed = {
            "client_id": client_id,
            "url": f"https://93.184.216.34/{number}",
            "topic": self._one(("orders", "x")),
        }
        method, path, body = self._one((
            *[("POST", "subscriptions", subscribed)] * 2,
            ("POST", f"subscriptions/{subscription}/{self._one(('pause', 'resume', 'secrets'))}", None),
            ("PATCH", f"subscriptions/{subscription}", {"url": "https://93.184.216.34/changed"}),
            ("DELETE", f"subscriptions/{subscription}", None),
            ("POST", "stores", {"seller_id": seller_id, "name": f"Store {number}"}),
            ("POST", "sellers", seller),
            ("POST", "applications", {"name": "Till", "redirect_uris": ["https://shop.example/callback"]}),
            ("POST", f"applications/{client_id}/secrets", {}),
            ("PATCH", f"terminals/{self._terminal()}", {"operating_mode": self._one(("PDV", "STANDALONE"))}),
            ("POST", f"orders/{self._order()}/cancel", {"reason": "The customer has left."}),
            ("POST", f"orders/{self._order()}/refund", {"reason": "The customer has complained."}),
            ("POST", f"orders/{self._order()}/resolve", {"outcome": "approved", "reason": "Seen in the portal."}),
        ))  # fmt: skip
        learn = self._subscribe if (method, path) == ("POST", "subscriptions") else lambda _: None
        key = f"key-{number}" if path.startswith("orders/") else ""
        return Sent(method, f"/operator/v1/{path}", body, self._operator, key, learn)

    def _subscribe(self, subscription: Any) -> None:
        self._subscriptions.append(subscription["id"])


async def run(database_url: str, count: int, file: TextIO) -> None:
    """Play at least `count` requests, and write the answers and the rows."""
    chosen = settings.load(database_url=database_url, **settings.UNTHROTTLED)
    async with node.database_of(chosen) as database:
        fixed.begin(0)
        vars(database)["write"] = fixed.alike(database.write)
        await migrate(database, CLOCK.now_ms())
        seeded = await seed(database, CLOCK.now_ms(), Sizes(TERMINALS, 16, DEVICES))
        token = credentials.new_token()
        await database.write(lambda tx: credentials.add_operator(tx, token, "Operator", "owner", CLOCK.now_ms()))
        player, composed = Player(seeded, token.reveal()), compose(chosen, database, KEYS, CLOCK)
        recorder = composed.shared.objects[RequestRecorder]
        ports: list[int] = []
        async with served(composed, EVERY_SURFACE, partial(_noting, ports)) as address:
            connections = [await asyncio.open_connection(*address) for _ in range(TOGETHER)]
            ports += [writer.get_extra_info("sockname")[1] for _, writer in connections]
            played = 0
            for step in range(1, count):
                fixed.begin(step)
                # The time of SQL's own clock.
                await database.write(lambda tx: sandbox.set_clock(tx, 0, CLOCK.now_ms()))
                sent = player.together() if step % 12 == 0 else [player.next()]
                for (_, writer), one in zip(connections, sent, strict=False):
                    writer.write(_bytes(one))
                for (reader, _), one in zip(connections, sent, strict=False):
                    status, head, answer = await read_answer(reader)
                    if status < 400:
                        one.learn(json.loads(answer) if answer.startswith(b"{") else None)
                    headers = [line for line in head.decode().split("\r\n")[1:-2] if not line.startswith("date:")]
                    _write(file, request=one[:5], status=status, headers=headers, answer=answer.decode())
                # Requests that were sent together are answered in any order.
                recorder._left.sort(key=lambda left: left.request_id)  # noqa: SLF001
                await request_recording.write(composed.context, recorder)
                played += len(sent)
                if played >= count:
                    break
            for _, writer in connections:
                writer.close()
    for table, row in await _rows(database_url):
        _write(file, table=table, row=row)


def _noting(ports: list[int], app: ASGIApp) -> ASGIApp:
    """Return the application, which notes the connection of each request."""

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        fixed.connection.set(ports.index(scope["client"][1]))
        await app(scope, receive, send)

    return noting


def _bytes(sent: Sent) -> bytes:
    headers = f"Authorization: Bearer {sent.token}\r\n" if sent.token else ""
    headers += f"X-Idempotency-Key: {sent.key}\r\n" if sent.key else ""
    return request(sent.method, sent.path, headers, sent.body)


def _write(file: TextIO, **line: Any) -> None:
    file.write(json.dumps(line, default=lambda value: value.hex() if isinstance(value, bytes) else repr(value)) + "\n")


async def _rows(database_url: str) -> list[tuple[str, dict[str, Any]]]:
    """Return all rows by table, in an order that depends on nothing but their values."""
    rows: list[tuple[str, dict[str, Any]]] = []
    if database_url.startswith("sqlite:"):
        file = sqlite3.connect(database_url.removeprefix("sqlite:"))
        file.row_factory = sqlite3.Row
        for (table,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            rows += [(table, dict(row)) for row in file.execute(f'SELECT * FROM "{table}"')]
    else:
        connection = await asyncpg.connect(database_url)
        for (table,) in await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"):
            rows += [(table, dict(row)) for row in await connection.fetch(f'SELECT * FROM "{table}"')]
        await connection.close()
    return sorted((row for row in rows if row[0] not in UNCOMPARED_TABLES), key=repr)


if __name__ == "__main__":
    logs.configure("json", level="warning")
    with Path(sys.argv[3]).open("w") as output:
        uvloop.run(run(sys.argv[1], int(sys.argv[2]), output))
