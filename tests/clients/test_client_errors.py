"""What users of the official clients read when they print an error: the field or the cause, and what to do.

Neither client keeps `errors` of a body. Python prints `message`; Node prints `message`, and `cause` where the whole
error is logged.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

import mercadopago
import pytest
from mercadopago.config.config import Config
from mercadopago.config.request_options import RequestOptions
from mercadopago.errors import MercadoPagoError

import counted
import node_clients
from accounts import other_application
from paydesk.platform.http.server import server
from paydesk.platform.storage.database import Database
from service import Service, order_body, running
from tables import each

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

Fields = dict[str, Any]


@dataclass(frozen=True)
class Printed:
    """An error of a client: as text, its message alone, with everything that it keeps, and its causes."""

    text: str
    message: str
    everything: str
    causes: list[dict[str, str]]


@dataclass(frozen=True)
class Request:
    """A call of a client: the method of its orders, or `oauth` for a token, with the body or the order's id."""

    method: str
    given: Any
    token: str = ""
    key: str = ""


class Client(Protocol):
    """An application that uses one of the clients."""

    def printed(self, request: Request) -> Printed:
        """Return the error of a refused call as users of this client print it."""


class OnPython:
    """The official Python client."""

    def __init__(self, _: Service) -> None: ...

    def printed(self, request: Request) -> Printed:
        """Return the exception as `print(exception)` shows it, and the response without raising."""
        sdk = mercadopago.SDK(request.token)
        headers = {"x-idempotency-key": request.key} if request.key else {}
        options = RequestOptions(request.token, custom_headers=headers)
        if request.method == "oauth":
            answer = sdk.oauth().create(request.given)
        else:
            answer = getattr(sdk.order(), request.method)(request.given, request_options=options)
        with pytest.raises(MercadoPagoError) as raised:
            answer.raise_for_status()
        error = raised.value
        assert answer.error_message == error.message
        everything = repr(vars(error)).replace("\\'", "'")
        return Printed(str(error), error.message, everything, error.causes)


class OnNode:
    """The official Node client."""

    def __init__(self, service: Service) -> None:
        self._base_url = service.base_url
        node_clients.require()

    def printed(self, request: Request) -> Printed:
        """Return the error as `String(error)`, `error.message` and `console.log(error)` show it."""
        if request.method == "oauth":
            answer = node_clients.oauth(self._base_url, "create", {"body": request.given})
        else:
            answer = node_clients.call(
                self._base_url,
                "Order",
                request.method,
                accessToken=request.token,
                options={"idempotencyKey": request.key} if request.key else {},
                given={"body" if request.method == "create" else "id": request.given},
            )
        assert "failure" in answer, answer
        return Printed(answer["asString"], answer["message"], answer["logged"], answer["causes"])


@pytest.fixture
async def service(database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    """A service that both clients call instead of their own."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(server, "QUIET_SECONDS", 0.02)  # clients keep their connections
    async with running(database, workers=False) as made:
        monkeypatch.setattr(Config, "_Config__api_base_url", made.base_url)
        yield made


@pytest.fixture(params=[OnPython, OnNode], ids=lambda client: client.__name__)
def client(request: pytest.FixtureRequest, service: Service) -> Client:
    """Each of the clients."""
    made: Client = request.param(service)
    return made


Arrange = Callable[[Service], Awaitable[tuple[Request, tuple[str, ...]]]]
"""Prepares a refused request; returns it with what its error must name: the field or the cause, and the remedy."""


async def _order(service: Service, **fields: Any) -> Fields:
    return order_body((await service.terminal()).id, **fields)


async def missing_field(service: Service) -> tuple[Request, tuple[str, ...]]:
    """An order without its terminal."""
    body = await _order(service, config={"point": {"print_on_terminal": "no_ticket"}})
    expected = "A required property is missing: '$.config.point.terminal_id'."
    return Request("create", body, service.access_token), (expected,)


async def wrong_amount(service: Service) -> tuple[Request, tuple[str, ...]]:
    """An amount of zero."""
    body = await _order(service, transactions={"payments": [{"amount": "0.00"}]})
    return Request("create", body, service.access_token), ("'$.transactions.payments[0].amount' must be above zero.",)


async def unknown_terminal(service: Service) -> tuple[Request, tuple[str, ...]]:
    """A terminal that does not exist."""
    body = order_body("NEWLAND_N950__NOWHERE")
    return Request("create", body, service.access_token), ("'$.config.point.terminal_id'", "GET /terminals/v1/list")


async def live_token_at_a_virtual_terminal(service: Service) -> tuple[Request, tuple[str, ...]]:
    """A live token where a test token is needed."""
    virtual = await service.terminal(terminal_id=counted.virtual_id())
    expected = ("virtual terminal", "test tokens only", "test_token: true", "`test_tokens`")
    return Request("create", order_body(virtual.id), service.live_access_token), expected


async def busy_terminal(service: Service) -> tuple[Request, tuple[str, ...]]:
    """A second order on a terminal."""
    terminal = await service.terminal()
    order_id = (await service.create(terminal)).body["id"]
    expected = (
        f"{order_id} is created on this terminal",
        f"POST /v1/orders/{order_id}/cancel",
        "same X-Idempotency-Key",
    )
    return Request("create", order_body(terminal.id), service.access_token), expected


async def terminal_busy_with_the_order_of_another_application(service: Service) -> tuple[Request, tuple[str, ...]]:
    """The order of another application is not named."""
    terminal = await service.terminal()
    await (await other_application(service)).create(terminal)
    request = Request("create", order_body(terminal.id), service.access_token)
    return request, ("retry with the same X-Idempotency-Key when it has ended",)


async def used_key(service: Service) -> tuple[Request, tuple[str, ...]]:
    """A key that another order has."""
    key = str(uuid.uuid4())
    first = await service.request("POST", "/v1/orders", await _order(service), key=key)
    assert first.status == 201
    return Request("create", await _order(service), service.access_token, key), ("X-Idempotency-Key", "Use a new key")


async def order_at_its_terminal(service: Service) -> tuple[Request, tuple[str, ...]]:
    """A cancel without the header."""
    device = await service.device(await service.terminal())
    order_id = (await service.create(device.terminal)).body["id"]
    assert (await device.ack(order_id[3:])).status == 200
    expected = ("the order is at_terminal", "X-Allow-Cancelable-Status: at_terminal")
    return Request("cancel", order_id, service.access_token), expected


async def processed_order(service: Service) -> tuple[Request, tuple[str, ...]]:
    """A cancel that comes too late."""
    device = await service.device(await service.terminal())
    order_id = (await service.create(device.terminal)).body["id"]
    for step in (device.ack(order_id[3:]), device.authorizing(order_id[3:]), device.approve(order_id[3:])):
        assert (await step).status == 200
    expected = ("the order is processed", f"POST /v1/orders/{order_id}/refund")
    return Request("cancel", order_id, service.access_token), expected


async def canceled_order(service: Service) -> tuple[Request, tuple[str, ...]]:
    """A second cancel."""
    order_id = (await service.create(await service.terminal())).body["id"]
    assert (await service.cancel(order_id)).status == 200
    return Request("cancel", order_id, service.access_token), ("already canceled", "no further cancel is needed")


async def missing_parameter(service: Service) -> tuple[Request, tuple[str, ...]]:
    """A token request without redirect_uri."""
    body = service.scene.exchange(await service.scene.code())
    body.pop("redirect_uri")
    return Request("oauth", body, "none"), ("redirect_uri is missing.",)


async def unknown_parameter(service: Service) -> tuple[Request, tuple[str, ...]]:
    """A token request with a parameter of another interface."""
    body = {**service.scene.exchange(await service.scene.code()), "format": "x"}
    return Request("oauth", body, "none"), ("format is not a known parameter.",)


IN_THE_MESSAGE: tuple[Arrange, ...] = (missing_field, wrong_amount, unknown_terminal, live_token_at_a_virtual_terminal,
                                       busy_terminal, terminal_busy_with_the_order_of_another_application, used_key,
                                       order_at_its_terminal, processed_order, canceled_order, missing_parameter,
                                       unknown_parameter)  # fmt: skip


@each("arrange", IN_THE_MESSAGE, ids=lambda arrange: arrange.__name__)
async def test_every_way_to_print_an_error_names_field_and_remedy(
    service: Service, client: Client, arrange: Arrange
) -> None:
    """The error as text, its message, and the error as a whole."""
    request, expected = await arrange(service)
    printed = await asyncio.to_thread(client.printed, request)
    for text in (printed.text, printed.message, printed.everything):
        assert [part for part in expected if part not in text] == [], text


async def test_causes_have_one_sentence_for_each_fault(service: Service, client: Client) -> None:
    """Also of faults after the first, which the message does not have."""
    body = await _order(service, transactions={"payments": [{"amount": "x", "tip": 1}]}, surprise=True)
    printed = await asyncio.to_thread(client.printed, Request("create", body, service.access_token))
    assert [cause["code"] for cause in printed.causes] == ["property_value", *["unsupported_properties"] * 2]
    assert printed.causes[0]["description"] == printed.message
    for cause, field in zip(printed.causes, ("payments[0].amount", "payments[0].tip", "surprise"), strict=True):
        assert f"{field}'" in cause["description"]
        assert cause["description"] in printed.everything


@each(
    "token, message, expected",
    [
        ("", "authorization value not present", "the header Authorization has no token; send Bearer, a space and an"),
        ("APP_USR-guess", "invalid access token", "the token is unknown; send an access token"),
        ("PDO-" + "0" * 40, "invalid access token", "an operator's token (PDO-…) was sent; this operation needs an"),
    ],
)
async def test_a_refused_token_is_explained_in_the_causes(
    service: Service, client: Client, token: str, message: str, expected: str
) -> None:
    """The message is the one that clients compare; the whole error says what was sent and what is needed."""
    printed = await asyncio.to_thread(client.printed, Request("create", await _order(service), token))
    assert printed.message == message
    (cause,) = printed.causes
    assert cause["code"] == "unauthorized"
    assert expected in cause["description"]
    assert expected in printed.everything
    assert json.dumps(token) not in printed.everything
