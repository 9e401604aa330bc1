"""The order of checks: a request with several faults gets the error that is checked first."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from accounts import other_application, other_seller
from paydesk.core.secrets import digest
from service import Reply, Service, access_token, order_body


@dataclass(frozen=True)
class Cancel:
    """A request to cancel an order that is canceled already, by a key that is new: the last fault of all."""

    order_id: str
    method: str = "POST"
    path: str = "/v1/orders/{}/cancel"
    host: str = ""
    key: str | None = field(default_factory=lambda: str(uuid.uuid4()))
    used_key: str = ""
    data: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    token: frozenset[str] = frozenset()

    def having(self, **headers: str) -> Cancel:
        """With further headers."""
        return replace(self, headers={**self.headers, **{name.replace("_", "-"): headers[name] for name in headers}})

    def by(self, *flaws: str) -> Cancel:
        """By a token with these further flaws."""
        return replace(self, token=self.token | set(flaws))


Fault = Callable[[Cancel], Cancel]

# Each with its code, in the order of the checks.
CHAIN: tuple[tuple[str, Fault], ...] = (
    ("not_found", lambda request: replace(request, path="/v1/order/{}/cancel")),
    ("method_not_allowed", lambda request: replace(request, method="PUT")),
    ("payload_too_large", lambda request: replace(request, data=request.data + b" " * 65_536)),
    ("misdirected_request", lambda request: request.having(Host="elsewhere.example")),
    ("unsupported_header", lambda request: request.having(x_test_scope="sandbox")),
    ("unsupported_media_type", lambda request: request.having(Content_Type="text/plain")),
    ("unauthorized", lambda request: request.by("revoked")),
    ("forbidden", lambda request: request.by("suspended")),
    ("insufficient_scope", lambda request: request.by("read_only")),
    ("unsupported_header", lambda request: request.by("live").having(X_Test_Token="true")),
    ("empty_required_header", lambda request: replace(request, key=None)),
    ("invalid_path_param", lambda request: replace(request, order_id="ORD1")),
    ("json_syntax_error", lambda request: replace(request, data=b"{")),
    ("unsupported_properties", lambda request: replace(request, data=b'{"reason": 1}')),
    (
        "idempotency_key_already_used",
        lambda request: replace(request, key=request.used_key).having(X_Allow_Cancelable_Status="at_terminal"),
    ),
    ("order_already_canceled", lambda request: request),
)
PLACES = range(len(CHAIN))


@pytest.fixture
async def canceled(service: Service) -> Cancel:
    """The last fault alone."""
    order_id = (await service.create(await service.terminal())).body["id"]
    assert (await service.cancel(order_id, key="used")).status == 200
    return Cancel(order_id, used_key="used")


async def test_each_fault_comes_before_the_next(service: Service, canceled: Cancel) -> None:
    """Of two neighbours the first one is answered."""
    for place in PLACES:
        spoiled = canceled
        for _, spoil in reversed(CHAIN[place : place + 2]):
            spoiled = spoil(spoiled)
        reply = await _send(service, spoiled)
        assert reply.code == CHAIN[place][0], f"{CHAIN[place : place + 2]}"


async def test_each_fault_comes_before_all_that_follow(service: Service, canceled: Cancel) -> None:
    """A request with all faults from one on gets the code of the first."""
    spoiled = canceled
    for code, spoil in reversed(CHAIN):
        spoiled = spoil(spoiled)
        reply = await _send(service, spoiled)
        assert reply.code == code


async def test_a_create_is_validated_before_its_terminal(service: Service) -> None:
    """Field, key, terminal's owner, terminal's mode, order in the way: in this order."""
    terminal = await service.terminal()
    good, unknown = order_body(terminal.id), order_body("NEWLAND_N950__NOWHERE")
    assert (await service.request("POST", "/v1/orders", good, key="used")).status == 201

    async def code(body: object, key: str = "") -> str:
        return (await service.request("POST", "/v1/orders", body, key=key)).code

    assert await code({**unknown, "type": "online"}, "used") == "property_value"
    assert await code(unknown, "used") == "idempotency_key_already_used"
    assert await code(unknown) == "forbidden_checking_terminal_owner"
    await service.scene.run("UPDATE terminals SET operating_mode = 'STANDALONE' WHERE terminal_id = $1", terminal.id)
    assert await code(good) == "terminal_not_in_pdv_mode"
    await service.scene.run("UPDATE terminals SET operating_mode = 'PDV' WHERE terminal_id = $1", terminal.id)
    assert await code(good) == "already_queued_order_on_terminal"


async def test_an_unknown_order_comes_before_its_state(service: Service, canceled: Cancel) -> None:
    """An application without access to an order does not learn that it is canceled."""
    other = await other_seller(service)
    reply = await other.cancel(canceled.order_id)
    assert (reply.status, reply.code) == (404, "order_not_found")
    assert (await (await other_application(service)).cancel(canceled.order_id)).code == "order_already_canceled"


async def _send(service: Service, request: Cancel) -> Reply:
    # A key that is missing spoils every key; otherwise it is sent by hand, because the method may be another.
    headers = {**request.headers, **({"X-Idempotency-Key": request.key} if request.key is not None else {})}
    return await service.request(
        request.method,
        request.path.format(request.order_id),
        data=request.data,
        headers=headers,
        key=None,
        token=await _token(service, request.token),
    )


async def _token(service: Service, flaws: frozenset[str]) -> str:
    """A token with these flaws; the seller is another one where it is to be suspended."""
    if not flaws:
        return service.access_token
    caller = await other_seller(service) if "suspended" in flaws else service
    scope = "read" if "read_only" in flaws else "read write"
    token = await access_token(caller.scene, service.clock.now_ms(), live="live" in flaws, scope=scope)
    if "suspended" in flaws:
        await caller.scene.run("UPDATE sellers SET suspended_ms = 1 WHERE seller_id = $1", caller.seller_id)
    if "revoked" in flaws:
        await caller.scene.run("UPDATE access_tokens SET revoked_ms = 1 WHERE digest = $1", digest(token))
    return token
