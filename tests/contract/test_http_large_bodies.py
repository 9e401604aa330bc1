"""The one path with a larger limit: its body is read after the checks that need none, and few at once."""

from __future__ import annotations

import contextlib
import io
import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from accounts import other_seller, with_scope
from every_operation import OPERATIONS
from paydesk.core.errors import Refusal
from paydesk.engine.printing.schemas import BODY_BYTES_MAX
from paydesk.platform.http.endpoint import Endpoint
from paydesk.platform.http.large_bodies import BODIES_MAX, BODIES_OF_CALLER_MAX, LargeBodies
from paydesk.platform.operation import Caller
from print_scene import PATH, action_body, chunk, in_base64, png
from raw_http import Wire, head, wire
from service import Reply, Service
from waiting import until

IMAGE_BYTES = 800_000


def request_head(*fields: str, token: str | None, length: int | None = BODY_BYTES_MAX, path: str = PATH) -> bytes:
    """Return the head of a request with a body of this length, or a chunked one."""
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    credentials = [f"Authorization: Bearer {token}"] if token is not None else []
    key = f"X-Idempotency-Key: {uuid.uuid4()}"
    return head("POST", path, "Content-Type: application/json", framing, key, *credentials, *fields)


def large_body(terminal_id: str) -> bytes:
    """Return the body of an image of nearly the largest size."""
    content = in_base64(png(more=chunk(b"tEXt", bytes(IMAGE_BYTES))))
    return json.dumps(action_body(terminal_id, content, "image")).encode()


async def sent(service: Service, body: bytes, token: str = "") -> Reply:
    """Send the body."""
    headers = {
        "Authorization": f"Bearer {token or service.access_token}",
        "Content-Type": "application/json",
        "X-Idempotency-Key": str(uuid.uuid4()),
    }
    async with service.session.post(service.base_url + PATH, data=io.BytesIO(body), headers=headers) as answer:
        return Reply(answer.status, answer.headers, await answer.read(), await answer.json())


async def test_a_large_image_reaches_its_terminal(service: Service) -> None:
    """In more than a megabyte of JSON, byte for byte."""
    device = await service.device(await service.terminal())
    body = large_body(device.terminal.id)
    assert 1_000_000 < len(body) < BODY_BYTES_MAX
    assert (await sent(service, body)).status == 201
    assert (await device.next()).body["content"] == json.loads(body)["content"]


@pytest.mark.parametrize("length", [BODY_BYTES_MAX, None])
async def test_a_large_body_without_a_token_is_refused_unread(service: Service, length: int | None) -> None:
    """The answer comes before the first byte of the body; so it does for the other checks that need none."""
    read_only = await with_scope(service, "read")
    suspended = await other_seller(service)
    await suspended.scene.run("UPDATE sellers SET suspended_ms = 1 WHERE seller_id = $1", suspended.seller_id)
    for token, code in (
        (None, "unauthorized"),
        ("APP_USR-guessed", "unauthorized"),
        (suspended.access_token, "forbidden"),
        (read_only, "insufficient_scope"),
    ):
        async with wire(service) as connection:
            await connection.send(request_head(token=token, length=length))
            assert (await connection.answer()).code == code


async def test_a_body_that_is_sent_all_the_same_is_dropped(service: Service) -> None:
    """The connection serves the next request."""
    async with wire(service) as connection:
        await connection.send(request_head(token=None) + b" " * BODY_BYTES_MAX)
        assert (await connection.answer()).code == "unauthorized"
        await connection.send(head("GET", "/livez"))
        assert (await connection.answer()).status == 200


async def test_a_body_above_the_limit_is_refused(service: Service) -> None:
    """By its length before it is read, else while it is; the message has this path's limit."""
    token = service.access_token
    announced = request_head(token=token, length=BODY_BYTES_MAX + 1)
    endless = request_head(token=token, length=None) + (b"10000\r\n" + b" " * 65_536 + b"\r\n") * 17
    for request in (announced, endless):
        async with wire(service) as connection:
            await connection.send(request)
            answer = await connection.answer()
            assert (answer.status, answer.code) == (413, "payload_too_large")
            assert answer.body["message"] == "The body is larger than 1,100,000 bytes."


async def test_other_paths_keep_their_limit(service: Service) -> None:
    """64 KiB."""
    for path in ("/v1/orders", f"{PATH}/{uuid.uuid4()}/cancel"):
        async with wire(service) as connection:
            await connection.send(request_head(token=service.access_token, length=64 * 1024 + 1, path=path))
            answer = await connection.answer()
            assert (answer.status, answer.code) == (413, "payload_too_large")
            assert answer.body["message"] == "The body is larger than 64 KiB."


async def test_few_large_bodies_of_a_caller_are_read_at_once(service: Service) -> None:
    """Further ones get 429 with `Retry-After`, small ones and other callers don't; ended ones make room."""
    other = await other_seller(service)
    async with _unfinished(service, BODIES_OF_CALLER_MAX) as connections:
        terminal = await service.terminal()
        refused = await sent(service, large_body(terminal.id))
        assert (refused.status, refused.code) == (429, "too_many_requests")
        assert refused.headers["retry-after"] == "1"
        assert (await service.request("POST", PATH, action_body(terminal.id))).status == 201
        body = large_body((await other.terminal()).id)
        assert (await sent(service, body, other.access_token)).status == 201
        for connection in connections:
            connection.cut()
        await until(lambda: service.gauges.requests_running == 0)
        terminal = await service.terminal()
        assert (await sent(service, large_body(terminal.id))).status == 201


async def test_large_bodies_of_all_operations_count_together(service: Service) -> None:
    """Whichever operation takes them: a second one does not double what a caller, or all of them, may send."""
    printing = next(operation for operation in OPERATIONS if operation.body_bytes_max is not None)
    endpoint = Endpoint(replace(printing, name="another", path="/terminals/v1/another"), service.shared)
    async with _unfinished(service, BODIES_OF_CALLER_MAX):
        scope = {"type": "http", "method": "POST", "path": "/terminals/v1/another", "query_string": b"",
                 "path_params": {}, "client": ("127.0.0.1", 1), "headers": _headers(service)}  # fmt: skip
        sent_parts: list[dict[str, Any]] = []

        async def send(part: Any) -> None:
            sent_parts.append(part)

        async def receive() -> Any:
            pytest.fail("its body is read")

        await endpoint(scope, receive, send)
        assert sent_parts[0]["status"] == 429


def _headers(service: Service) -> list[tuple[bytes, bytes]]:
    given = {
        "host": "127.0.0.1",
        "authorization": f"Bearer {service.access_token}",
        "content-type": "application/json",
        "content-length": str(64 * 1024 + 1),
        "x-idempotency-key": str(uuid.uuid4()),
    }
    return [(name.encode(), value.encode()) for name, value in given.items()]


@contextlib.asynccontextmanager
async def _unfinished(service: Service, count: int) -> AsyncIterator[list[Wire]]:
    """Open connections whose large body stays incomplete; the service says with 100 that it has begun to read."""
    async with contextlib.AsyncExitStack() as stack:
        connections = [await stack.enter_async_context(wire(service)) for _ in range(count)]
        for connection in connections:
            await connection.send(request_head("Expect: 100-continue", token=service.access_token))
            assert (await connection.answer()).status == 100
            await connection.send(b" ")
        yield connections


def test_few_large_bodies_are_read_at_once_in_all() -> None:
    """From any number of callers; nothing stays of those that ended."""
    bodies = LargeBodies()
    with contextlib.ExitStack() as stack:
        for number in range(BODIES_MAX):
            stack.enter_context(bodies.admit(Caller(1, token_digest=str(number).encode())))
        with pytest.raises(Refusal, match="too many large bodies at once"):
            stack.enter_context(bodies.admit(Caller(1, token_digest=b"another")))
    assert not bodies._of_callers
    with bodies.admit(Caller(1)):
        pass
