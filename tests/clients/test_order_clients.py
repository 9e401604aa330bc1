"""The official clients as they are on the shelf, on Python and on Node, take orders through their lives.

None of them is changed; each gets the service's address by its own option.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

import mercadopago
import pytest
from mercadopago.config.config import Config
from mercadopago.config.request_options import RequestOptions
from mercadopago.errors import MercadoPagoError

import node_clients
from accounts import other_seller, with_scope
from paydesk.core import errors as shared
from paydesk.core.errors import ErrorKind
from paydesk.core.ids import ulid
from paydesk.engine.orders import errors
from paydesk.engine.payments import errors as payment_errors
from paydesk.platform.http.server import server
from paydesk.platform.storage.database import Database
from refund_scene import DECLINED, paid, part_of
from service import Service, order_body, running

Order = dict[str, Any]
AT_TERMINAL = {"X-Allow-Cancelable-Status": "at_terminal"}


class Refused(Exception):
    """What a client made of a refusal: its error's class, the status, the code and the sentence."""


class Client(Protocol):
    """An application that uses one of the clients; a method of its orders is named, and given what it takes."""

    def call(self, method: str, *given: Any, headers: Mapping[str, str] | None = None, key: str = "") -> Any:
        """The body of the answer. Raises `Refused`."""

    def test_mode(self, method: str, *given: Any) -> Any:
        """The call with the client's own option for test credentials."""


class OnPython:
    """The official Python client."""

    def __init__(self, _: Service, access_token: str) -> None:
        self._access_token = access_token
        self._order = mercadopago.SDK(access_token).order()

    def call(self, method: str, *given: Any, headers: Mapping[str, str] | None = None, key: str = "") -> Any:
        """Headers and the key are options of a request."""
        own = {**(headers or {}), **({"x-idempotency-key": key} if key else {})}
        options = RequestOptions(self._access_token, custom_headers=own)
        answer = getattr(self._order, method)(*given, request_options=options)
        try:
            answer.raise_for_status()
        except MercadoPagoError as error:
            raise Refused(type(error).__name__, error.status_code, error.error, error.message) from error
        return answer["response"]

    def test_mode(self, method: str, *given: Any) -> Any:
        """It has none: the header is an own one."""
        return self.call(method, *given, headers={"X-Test-Token": "true"})


class OnNode:
    """The official Node client."""

    def __init__(self, service: Service, access_token: str) -> None:
        self._base_url, self._access_token = service.base_url, access_token

    def call(self, method: str, *given: Any, headers: Mapping[str, str] | None = None, key: str = "") -> Any:
        """It has no option for headers, but hands on what it doesn't know to `fetch`."""
        own = {"headers": {"Authorization": f"Bearer {self._access_token}", **headers}} if headers else {}
        return self._call(method, given, {**own, **({"idempotencyKey": key} if key else {})})

    def test_mode(self, method: str, *given: Any) -> Any:
        """Its option sends a header."""
        return self._call(method, given, {"testToken": True})

    def _call(self, method: str, given: tuple[Any, ...], options: dict[str, Any]) -> Any:
        names = {"create": ("body",), "search": ("options",)}.get(method, ("id", "body"))
        answer = node_clients.call(
            self._base_url,
            "Order",
            method,
            accessToken=self._access_token,
            options=options,
            given=dict(zip(names, given, strict=False)),
        )
        if "failure" in answer:
            raise Refused(*(answer[name] for name in ("failure", "status", "error", "message")))
        answer.pop("api_response")
        return answer


Make = Callable[[Service, str], Client]

ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
"""Where a test is about what a client sends and reads, one database says as much as two."""


@pytest.fixture(params=[OnPython, OnNode], ids=lambda client: client.__name__)
def make(request: pytest.FixtureRequest) -> Make:
    """Each of the clients, that on Node where there is one."""
    if request.param is OnNode:
        node_clients.require()
    chosen: Make = request.param
    return chosen


@pytest.fixture
async def service(database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    """A service that the clients take for the one they were written for."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(server, "QUIET_SECONDS", 0.02)  # clients keep their connections
    async with running(database) as made:
        monkeypatch.setattr(Config, "_Config__api_base_url", made.base_url)
        yield made


@pytest.fixture
def client(service: Service, make: Make) -> Client:
    """A client with a token for test orders."""
    return make(service, service.access_token)


async def call(client: Client, method: str, *given: Any, **options: Any) -> Any:
    """What the client was answered."""
    return await asyncio.to_thread(client.call, method, *given, **options)


async def refused(client: Client, kind: ErrorKind, method: str, *given: Any, **options: Any) -> None:
    """The client raises the class that it has for the status, with the code and the sentence of this kind."""
    with pytest.raises(Refused) as raised:
        await call(client, method, *given, **options)
    assert raised.value.args[:3] == (CLASSES[kind.status], kind.status, kind.code)
    assert raised.value.args[3].startswith(kind.message.removesuffix("."))


CLASSES = {
    400: "MPBadRequestError",
    401: "MPAuthenticationError",
    403: "MPForbiddenError",
    404: "MPNotFoundError",
    409: "MPIdempotencyError",
}
"""How both clients call their errors."""


@ON_SQLITE
async def test_creates_gets_and_cancels(service: Service, client: Client) -> None:
    """What is created is what is read, and is canceled for good."""
    terminal = await service.terminal()
    created = await call(client, "create", order_body(terminal.id))
    assert (created["status"], created["status_detail"], created["live_mode"]) == ("created", "created", False)
    assert (created["total_amount"], _payment(created)["amount"]) == ("24.90", "24.90")
    assert await call(client, "get", created["id"]) == created
    canceled = await call(client, "cancel", created["id"])
    assert (canceled["id"], canceled["status"], canceled["status_detail"]) == (created["id"], "canceled", "canceled")
    assert _payment(canceled)["status_detail"] == "canceled_by_api"
    assert await call(client, "get", created["id"]) == canceled


@ON_SQLITE
async def test_a_repeat_with_its_key_is_the_same_order(service: Service, client: Client) -> None:
    """The same key with the same request is one order; with another request it is rejected."""
    terminal, key = await service.terminal(), str(uuid.uuid4())
    first, second = [await call(client, "create", order_body(terminal.id), key=key) for _ in range(2)]
    assert first == second
    other = order_body(terminal.id, "1.00")
    await refused(client, shared.IDEMPOTENCY_KEY_ALREADY_USED, "create", other, key=key)


@ON_SQLITE
async def test_cancels_at_the_terminal(service: Service, client: Client) -> None:
    """With the extra header the terminal is requested to release the order, which cancels it."""
    terminal = await service.terminal()
    device = await service.device(terminal)
    order = await call(client, "create", order_body(terminal.id))
    assert (await device.ack(order["id"][3:])).status == 200
    await refused(client, errors.CANNOT_CANCEL_ORDER, "cancel", order["id"])
    asked = await call(client, "cancel", order["id"], headers=AT_TERMINAL)
    assert (asked["status"], _payment(asked)["status_detail"]) == ("at_terminal", "cancellation_requested")
    done = await device.post(f"/leases/{order['id'][3:]}/cancel-result", {"boot_id": device.boot_id, "done": True})
    assert done.status == 200
    ended = await call(client, "get", order["id"])
    assert (ended["status"], _payment(ended)["status_detail"]) == ("canceled", "canceled_by_api")


@ON_SQLITE
async def test_too_late_to_cancel_at_the_terminal(service: Service, client: Client) -> None:
    """After the terminal was granted to authorize it is asked all the same, and the payment is what comes of it."""
    terminal = await service.terminal()
    device = await service.device(terminal)
    order = await call(client, "create", order_body(terminal.id))
    assert (await device.ack(order["id"][3:])).status == 200
    assert (await device.authorizing(order["id"][3:])).status == 200
    asked = await call(client, "cancel", order["id"], headers=AT_TERMINAL)
    assert asked["status"] == "at_terminal"
    assert (await device.approve(order["id"][3:])).status == 200
    paid_for = await call(client, "get", order["id"])
    assert (paid_for["status"], paid_for["status_detail"]) == ("processed", "processed")
    payment = _payment(paid_for)
    assert (payment["status_detail"], payment["paid_amount"]) == ("accredited", "24.90")
    await refused(client, errors.CANNOT_CANCEL_ORDER, "cancel", order["id"])


@ON_SQLITE
async def test_reads_refusals(service: Service, make: Make, client: Client) -> None:
    """Every refusal is the client's own error, with the code and the sentence."""
    terminal = await service.terminal()
    body = order_body(terminal.id)
    order = await call(client, "create", body)
    await refused(client, errors.ALREADY_QUEUED_ORDER_ON_TERMINAL, "create", body)
    await refused(client, shared.PROPERTY_VALUE, "create", order_body(terminal.id, "0.00"))
    await refused(client, shared.UNSUPPORTED_PROPERTIES, "create", {**body, "surprise": 1})
    await refused(client, shared.REQUIRED_PROPERTIES, "create", {"type": "point"})
    await refused(client, errors.FORBIDDEN_CHECKING_TERMINAL_OWNER, "create", order_body("NEWLAND_N950__NOWHERE"))
    await refused(client, errors.ORDER_NOT_FOUND, "get", f"ORD{ulid(0)}")
    await refused(client, shared.INVALID_PATH_PARAM, "get", "no-order")
    await call(client, "cancel", order["id"])
    await refused(client, errors.ORDER_ALREADY_CANCELED, "cancel", order["id"])
    asleep = await service.terminal(mode="STANDALONE")
    await refused(client, errors.TERMINAL_NOT_IN_PDV_MODE, "create", order_body(asleep.id))
    await refused(make(service, "APP_USR-unknown"), shared.UNAUTHORIZED, "get", order["id"])
    reader = make(service, await with_scope(service, "read"))
    with pytest.raises(Refused) as raised:
        await call(reader, "cancel", order["id"])
    assert raised.value.args[:3] == ("MPForbiddenError", 403, "insufficient_scope")
    outsider = make(service, (await other_seller(service)).access_token)
    await refused(outsider, errors.ORDER_NOT_FOUND, "get", order["id"])


@ON_SQLITE
async def test_a_live_token_in_test_mode_is_refused(service: Service, make: Make) -> None:
    """The client's test switch does not turn a live token into a test token: no charge by mistake."""
    terminal = await service.terminal(live=True)
    client = make(service, service.live_access_token)
    with pytest.raises(Refused) as raised:
        await asyncio.to_thread(client.test_mode, "create", order_body(terminal.id))
    assert raised.value.args[:3] == ("MPBadRequestError", 400, "unsupported_header")
    order = await call(client, "create", order_body(terminal.id))
    assert order["live_mode"] is True
    client = make(service, service.access_token)
    test = await service.terminal()
    assert (await asyncio.to_thread(client.test_mode, "create", order_body(test.id)))["live_mode"] is False


@ON_SQLITE
async def test_refunds(service: Service, client: Client) -> None:
    """In parts and then all that is left; what is more than that, and what is refunded, is refused."""
    order_id = await paid(service)
    part = part_of(order_id, "4.90")
    answer = await call(client, "refund", order_id, part)
    refund = answer["transactions"]["refunds"][0]
    assert (answer["status_detail"], refund["status"], refund["amount"]) == ("partially_refunded", "processed", "4.90")
    await refused(client, payment_errors.REFUND_AMOUNT_EXCEEDS, "refund", order_id, part_of(order_id, "20.01"))
    await refused(client, payment_errors.TRANSACTION_NOT_FOUND, "refund", order_id, part_of(f"ORD{ulid(0)}", "1.00"))
    rest = await call(client, "refund", order_id)
    assert (rest["status"], rest["transactions"]["refunds"][0]["amount"]) == ("refunded", "20.00")
    await refused(client, payment_errors.ORDER_ALREADY_REFUNDED, "refund", order_id)
    order = await call(client, "get", order_id)
    assert [one["amount"] for one in order["transactions"]["refunds"]] == ["4.90", "20.00"]


@ON_SQLITE
async def test_refunds_the_whole(service: Service, client: Client) -> None:
    """All at once where no part is named; the order is refunded, and the payment says how much."""
    order_id = await paid(service)
    answer = await call(client, "refund", order_id)
    (refund,) = answer["transactions"]["refunds"]
    assert (answer["id"], answer["status"], answer["status_detail"]) == (order_id, "refunded", "refunded")
    assert (refund["transaction_id"], refund["status"], refund["amount"]) == (
        f"PAY{order_id[3:]}",
        "processed",
        "24.90",
    )
    order = await call(client, "get", order_id)
    payment = _payment(order)
    assert (order["status"], payment["status_detail"], payment["refunded_amount"]) == ("refunded", "refunded", "24.90")


@ON_SQLITE
async def test_a_repeated_refund_is_one(service: Service, client: Client) -> None:
    """With its key it is the same refund; what is not paid, and what the acquirer declines, is refused."""
    order_id, key = await paid(service), str(uuid.uuid4())
    first, second = [await call(client, "refund", order_id, part_of(order_id, "1.00"), key=key) for _ in range(2)]
    assert first == second
    await refused(client, payment_errors.CANNOT_REFUND_ORDER, "refund", await paid(service, DECLINED))
    unpaid = (await service.create(await service.terminal())).body["id"]
    await refused(client, payment_errors.CANNOT_REFUND_ORDER, "refund", unpaid)


@ON_SQLITE
async def test_searches(service: Service, client: Client) -> None:
    """By what an order says, in pages whose numbers are strings; what is asked wrongly is refused."""
    terminals = [await service.terminal() for _ in range(3)]
    first, second, _ = [
        await call(client, "create", order_body(terminal.id, external_reference=reference))
        for terminal, reference in zip(terminals, ("till-1", "till-1", "till-2"), strict=True)
    ]
    found = await call(client, "search", {"external_reference": "till-1", "sort_order": "asc", "limit": 1})
    assert found["data"] == [first]
    assert found["paging"] == {"total": "2", "total_pages": "2", "offset": "0", "limit": "1"}
    found = await call(client, "search", {"terminal_id": terminals[1].id, "status": "created"})
    assert found["data"] == [second]
    await refused(client, shared.PROPERTY_VALUE, "search", {"status": "open"})
    await refused(client, shared.UNSUPPORTED_PROPERTIES, "search", {"surprise": 1})


@ON_SQLITE
async def test_walks_through_all_pages(service: Service) -> None:
    """The iterator of the client for Python meets every order once."""
    created = [(await service.create(await service.terminal())).body["id"] for _ in range(5)]
    orders = mercadopago.SDK(service.access_token).order()
    walked = await asyncio.to_thread(lambda: list(orders.search_auto_paging_iter({"sort_order": "asc"}, limit=2)))
    assert [order["id"] for order in walked] == created


def _payment(order: Order) -> dict[str, Any]:
    payment: dict[str, Any] = order["transactions"]["payments"][0]
    return payment
