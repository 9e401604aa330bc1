"""A client's trace goes on to the acquirer and to the webhooks of what the request caused, without any collector."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import webhooks_scene
from authorize_scene import request_of, rows, service_terminal
from paydesk.engine.orders.routing import Routing
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.adapters.context import AdapterContext
from paydesk.platform.storage.database import Database
from played_switch import http_acquirer
from refund_scene import body_of
from service import Device, Reply, Service, running
from switch_process import SECRET, switch
from tables import each
from waiting import until
from webhooks_scene import Receiver

TRACE, OTHER, SPAN = "0af7651916cd43dd8448eb211c80319c", "1af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
DELIVERIES = "SELECT trace FROM deliveries WHERE order_id = $1 ORDER BY version"


def traced(trace_id: str = TRACE, flags: str = "00") -> dict[str, str]:
    """Return the headers of a client's trace."""
    return {"traceparent": f"00-{trace_id}-{SPAN}-{flags}", "tracestate": "shop=1"}


def trace_of(parent: str) -> str:
    """Return the trace that a header names; its span must be one of ours."""
    match = re.fullmatch(r"00-([0-9a-f]{32})-([0-9a-f]{16})-00", parent)
    assert match, parent
    assert match[2] != SPAN
    return match[1]


@asynccontextmanager
async def subscribed(service: Service, *, live: bool) -> AsyncIterator[Receiver]:
    """Run a receiver of the application's webhooks."""
    async with webhooks_scene.receiver() as receiver:
        application_id = service.scene.application.application_id
        await webhooks_scene.subscribe(service.database, receiver.url, live=live, application_id=application_id)
        yield receiver


async def created(device: Device, headers: dict[str, str]) -> Reply:
    """Create a live order for the terminal."""
    token = device.service.live_access_token
    return await device.service.request("POST", "/v1/orders", body_of(device, "24.90"), token=token, headers=headers)


async def test_a_trace_reaches_the_switch_and_the_receiver(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each event has that of its own request: the application's create and refund, the terminal's authorization."""
    monkeypatch.setenv("SWITCH_KEY", SECRET)
    with switch(tmp_path) as host:
        acquirers = Acquirers(live={"main": http_acquirer(host.port, AdapterContext())}, routing=Routing("main"))
        async with (
            running(database, acquirers=acquirers, routing=Routing("main")) as service,
            subscribed(service, live=True) as receiver,
        ):
            terminal = await service_terminal(service, live=True)
            device = await service.device(terminal)
            order_id = (await created(device, traced())).body["id"]
            assert (await device.ack(order_id[3:])).status == 200
            path, body = f"/device/v1/leases/{order_id[3:]}/authorize", request_of(device.boot_id)
            reply = await service.request("POST", path, body, token=terminal.token, key=None, headers=traced(OTHER))
            assert reply.body["outcome"] == "approved"
            path, token = f"/v1/orders/{order_id}/refund", service.live_access_token
            assert (await service.request("POST", path, token=token, headers=traced())).status == 201
            await until(lambda: len(receiver.got) == 4)
        lines = [line.split() for line in host.log.read_text().splitlines() if "POST" in line or "/paydesk/" in line]
    asked = {line[1]: line[-1] for line in lines if line[1] in ("/paydesk/authorize", "/paydesk/refund")}
    assert {path: trace_of(parent) for path, parent in asked.items()} == {
        "/paydesk/authorize": OTHER,
        "/paydesk/refund": TRACE,
    }
    assert not any("-" in line[-1] and len(line[-1]) == 55 for line in lines if line[1] == "/paydesk/echo")
    sent = [got.headers.get("traceparent") for got in receiver.got]
    assert [trace_of(parent) if parent else None for parent in sent] == [TRACE, None, OTHER, TRACE]
    assert [got.headers.get("tracestate") for got in receiver.got] == ["shop=1", None, "shop=1", "shop=1"]


@each(
    "headers",
    [
        {},
        {"traceparent": f"00-{TRACE}-{SPAN}"},
        {"traceparent": f"00-{'0' * 32}-{SPAN}-01", "tracestate": "shop=1"},
        {"tracestate": "shop=1"},
    ],
)
async def test_without_a_valid_trace_nothing_is_carried(service: Service, headers: dict[str, str]) -> None:
    """A malformed header is ignored."""
    async with subscribed(service, live=True) as receiver:
        device = await service.device(await service.terminal(live=True))
        assert (await created(device, headers)).status == 201
        await until(lambda: bool(receiver.got))
    assert not {"traceparent", "tracestate"} & {name.lower() for name in receiver.got[0].headers}


@pytest.mark.on_postgres
async def test_concurrent_requests_keep_their_own_traces(service: Service) -> None:
    """Units of work that share a transaction, are repeated or run alone have the trace of their request."""
    traces = [f"{number:032x}" for number in range(1, 13)]
    async with subscribed(service, live=True) as receiver:
        devices = [await service.device(await service.terminal(live=True)) for _ in traces]
        sent = [traced(trace_id) if int(trace_id, 16) % 3 else {} for trace_id in traces]
        replies = await asyncio.gather(*map(created, devices, sent))
        await until(lambda: len(receiver.got) == len(traces))
    for reply, trace_id in zip(replies, traces, strict=True):
        ((stored,),) = await rows(service, DELIVERIES, reply.body["id"])
        if int(trace_id, 16) % 3:
            parent, _, state = stored.partition(" ")
            assert (trace_of(parent), state) == (trace_id, "shop=1")
        else:
            assert stored is None
