"""Spans: what a collector gets of requests, calls to acquirers and deliveries, and what a missing one costs."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import webhooks_scene
from command_line import command
from free_port import refusing_port
from paydesk.core import trace
from paydesk.engine.payments.acquirers import CheckedAcquirer
from paydesk.platform import collector, traces
from paydesk.platform.settings import Settings, SettingsError, load
from paydesk.platform.storage.database import Database
from paydesk_process import environment
from played_switch import APPROVED, CARD, PAYMENT, SECRET, PlayedSwitch, Reply, playing
from refund_scene import paid, refund
from service import Service, running
from tables import each
from waiting import HANGS_SECONDS, until

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, UNSAMPLED = ({"traceparent": f"00-{TRACE}-{SPAN}-{flags}"} for flags in ("01", "00"))
OFF = """
import asyncio, sys
from paydesk.platform import traces
from paydesk.platform.settings import Settings
import paydesk.service.serve, paydesk_dev.dev.service
async def off():
    async with traces.recorded(Settings(trace_ratio=1)):
        assert traces.PROCESS.ratio == 0
asyncio.run(off())
print(*(name for name in sys.modules if name.startswith(("opentelemetry", "google", "paydesk.platform.collector"))))
"""


@dataclass
class Heard:
    """A collector of spans on loopback, which decodes what it gets by the classes of OpenTelemetry."""

    url: str = ""
    status: int = 200
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)
    headers: list[Any] = field(default_factory=list)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Keep the spans."""
        assert (request.method, request.path) == ("POST", "/v1/traces")
        self.headers.append(request.headers)
        decoded: Any = ExportTraceServiceRequest  # of a package without types
        self.requests.append(decoded.FromString(await request.read()))
        return web.Response(status=self.status)

    @property
    def spans(self) -> list[Any]:
        """The spans."""
        scopes = [scope for one in self.requests for resource in one.resource_spans for scope in resource.scope_spans]
        return [span for scope in scopes for span in scope.spans]

    def has(self, count: int) -> bool:
        """Return whether so many spans have come."""
        return len(self.spans) >= count

    def named(self, name: str) -> list[Any]:
        """Return the spans of a name."""
        return [span for span in self.spans if span.name == name]


def facts(span: Any) -> dict[str, str | int]:
    """Return the attributes of a span."""
    values = {one.key: one.value for one in span.attributes}
    return {key: getattr(value, value.WhichOneof("value")) for key, value in values.items()}


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    monkeypatch.setenv("SWITCH_KEY", SECRET)


@asynccontextmanager
async def collecting(**changes: Any) -> AsyncIterator[Heard]:
    """Run a collector, to which this process sends its spans."""
    heard = Heard()
    runner = web.ServerRunner(web.Server(heard.handle), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    heard.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/traces"
    try:
        async with traces.recorded(Settings(trace_endpoint=heard.url, **changes)):
            yield heard
    finally:
        await runner.cleanup()


async def test_a_request_and_its_delivery_are_spans_of_the_clients_trace(database: Database) -> None:
    """With ids, outcome and times, below the client's span; nothing else of the request is in them."""
    async with collecting() as heard, running(database) as service, webhooks_scene.receiver() as receiver:
        application_id = service.scene.application.application_id
        await webhooks_scene.subscribe(database, receiver.url, application_id=application_id)
        order_id = await _created(service, SAMPLED)
        await until(lambda: len(heard.spans) == 2)
    (create,), (delivery,) = heard.named("POST /v1/orders"), heard.named("POST webhook")
    assert (create.trace_id.hex(), create.parent_span_id.hex(), create.kind) == (TRACE, SPAN, 2)
    assert facts(create) == {
        "paydesk.operation": "create_order",
        "paydesk.order_id": order_id,
        "paydesk.seller_id": service.seller_id,
        "http.response.status_code": 201,
    }
    assert (delivery.trace_id.hex(), delivery.parent_span_id, delivery.kind) == (TRACE, create.span_id, 3)
    assert facts(delivery) == {
        "paydesk.order_id": order_id,
        "paydesk.seller_id": service.seller_id,
        "paydesk.attempt": 1,
        "http.response.status_code": 200,
    }
    for span in (create, delivery):
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
        assert span.status.code == 0
    assert receiver.got[0].headers["traceparent"] == f"00-{TRACE}-{delivery.span_id.hex()}-01"
    resource = {one.key: one.value.string_value for one in heard.requests[0].resource_spans[0].resource.attributes}
    assert resource["service.name"] == "paydesk"


async def test_a_call_to_an_acquirer_is_a_span_whose_id_the_switch_gets(service: Service) -> None:
    """Its request is the parent."""
    async with collecting() as heard:
        order_id = await paid(service)
        assert (await refund(service, order_id, headers=SAMPLED)).status == 201
        await until(lambda: len(heard.spans) >= 2)
        async with playing(PlayedSwitch(Reply(APPROVED))) as acquirer:
            trace.CURRENT.set(trace.read(SAMPLED["traceparent"]))
            await CheckedAcquirer(acquirer).authorize(PAYMENT, CARD)
        await until(lambda: bool(heard.named("acquirer authorize")))
    (request,), (call,) = heard.named("POST /v1/orders/{order_id}/refund"), heard.named("acquirer refund")
    assert (call.trace_id.hex(), call.parent_span_id, call.kind) == (TRACE, request.span_id, 3)
    assert facts(call) == {
        "paydesk.order_id": order_id,
        "paydesk.seller_id": service.seller_id,
        "paydesk.outcome": "Approved",
    }


async def test_an_unanswered_call_is_an_error() -> None:
    """It has the kind of the outcome, and no text of the acquirer."""
    switch = PlayedSwitch(Reply(cut=0))
    async with collecting(trace_ratio=1) as heard, playing(switch) as acquirer:
        await CheckedAcquirer(acquirer).authorize(PAYMENT, CARD)
        await until(lambda: bool(heard.spans))
    (call,) = heard.spans
    assert (facts(call)["error.type"], call.status.code, call.status.message) == ("Unknown", 2, "")
    sent = switch.requests[0].headers["traceparent"]
    assert sent == f"00-{call.trace_id.hex()}-{call.span_id.hex()}-03"
    assert not any("traceparent" in one.headers for one in switch.received if one not in switch.requests)


async def test_a_refusal_has_its_code_and_the_orders_id(service: Service) -> None:
    """A refusal is no failure of the service."""
    order_id = f"ORD{'0' * 26}"
    async with collecting() as heard:
        assert (await service.request("GET", f"/v1/orders/{order_id}", headers=SAMPLED)).status == 404
        assert (await service.request("GET", f"/v1/orders/{order_id}", headers=SAMPLED, token=None)).status == 401
        await until(lambda: len(heard.spans) == 2)
    missing, unauthorized = heard.spans
    assert facts(missing) == {
        "paydesk.operation": "get_order",
        "paydesk.order_id": order_id,
        "paydesk.seller_id": service.seller_id,
        "http.response.status_code": 404,
        "error.type": "order_not_found",
    }
    assert (missing.status.code, facts(unauthorized)["error.type"]) == (0, "unauthorized")
    assert "paydesk.seller_id" not in facts(unauthorized)


async def test_the_client_decides_and_else_the_ratio(database: Database) -> None:
    """A trace without the flag is carried and not recorded; health checks begin none."""
    for ratio, begun in ((0.0, 0), (1.0, 1)):
        async with collecting(trace_ratio=ratio) as heard, running(database) as service:
            path = f"/v1/orders/ORD{'0' * 26}"
            for headers in ({}, UNSAMPLED, {"traceparent": "malformed"}):
                await service.request("GET", path, headers=headers)
            await service.request("GET", "/livez", token=None)
            await service.request("GET", path, headers=SAMPLED)
            await until(partial(heard.has, 2 * begun + 1))
        assert len(heard.spans) == 2 * begun + 1
        assert [span.trace_id.hex() == TRACE for span in heard.spans] == [False] * (2 * begun) + [True]
        assert all(len(span.parent_span_id) == 0 for span in heard.spans[:-1])


async def test_headers_and_names_are_those_of_opentelemetrys_variables(
    monkeypatch: pytest.MonkeyPatch, service: Service
) -> None:
    """So a hosted collector can be used; the values are percent-encoded."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b%3D, x-tenant=shop")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "till")
    async with collecting() as heard:
        await service.request("GET", f"/v1/orders/ORD{'0' * 26}", headers=SAMPLED)
        await until(lambda: bool(heard.spans))
    assert (heard.headers[0]["api-key"], heard.headers[0]["x-tenant"]) == ("a b=", "shop")
    resource = {one.key: one.value.string_value for one in heard.requests[0].resource_spans[0].resource.attributes}
    assert resource["service.name"] == "till"


@each(
    "kind, reason",
    [
        ("refusing", "Connection refused"),
        ("silent", "TimeoutError"),
        ("failing", "status 503"),
        ("malformed", "ValueError"),
    ],
)
async def test_a_collector_that_takes_nothing_costs_only_spans(
    kind: str, reason: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No request waits for it, no more spans are kept than the queue holds, and one line of the log says why."""
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "50")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10")
    monkeypatch.setattr(collector, "SEND_SECONDS_MAX", 0.2)
    if kind == "malformed":
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret%0D%0A")
    with refusing_port() as refusing, socket.create_server(("127.0.0.1", 0)) as silent:
        port = refusing if kind == "refusing" else silent.getsockname()[1]
        async with collecting() as heard, running(database) as service:
            heard.status = 503
            url = heard.url if kind in ("failing", "malformed") else f"http://127.0.0.1:{port}"
            with structlog.testing.capture_logs() as logged:
                async with traces.recorded(Settings(trace_endpoint=url)):
                    sending = traces.PROCESS.collector
                    assert sending is not None
                    for _ in range(80):
                        reply = await service.request("GET", f"/v1/orders/ORD{'0' * 26}", headers=SAMPLED)
                        assert reply.status == 404
                    assert len(sending._queue._batch_processor._queue) <= 50
                    await until(lambda: any(line["event"] == "traces_not_sent" for line in logged))
            lines = [line for line in logged if line["event"] == "traces_not_sent"]
            assert "secret" not in str(lines)
            assert [line["reason"] for line in lines] == [reason]
    assert traces.PROCESS.collector is None


async def test_the_end_does_not_wait_for_a_silent_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that still waits for it does not keep the process alive."""
    monkeypatch.setattr(collector, "CLOSE_SECONDS_MAX", 0.1)
    monkeypatch.setattr(collector, "SEND_SECONDS_MAX", HANGS_SECONDS)
    before = set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        async with traces.recorded(Settings(trace_endpoint=url, trace_ratio=1)):
            with traces.call("call", None, {}):
                pass
            connection, _ = await asyncio.to_thread(silent.accept)
        (left,) = (one for one in set(threading.enumerate()) - before if "Otel" in one.name)
        assert left.daemon
        connection.close()
    await asyncio.to_thread(left.join)


@each(
    "setting",
    ["collector", "ftp://collector", "http://", "http://user@collector", "http://collector:port", "http://c/?key=1"],
)
def test_an_endpoint_must_be_a_url(setting: str) -> None:
    """Without credentials, which belong into the variable for headers."""
    with pytest.raises(SettingsError, match="PAYDESK_TRACE_ENDPOINT"):
        load({"PAYDESK_TRACE_ENDPOINT": setting})


def test_off_imports_nothing_of_opentelemetry() -> None:
    """Neither at start nor by a ratio without an endpoint."""
    shown = subprocess.run([sys.executable, "-c", OFF], capture_output=True, text=True, check=True, env={**os.environ})
    assert shown.stdout.strip() == ""


def test_without_the_extra_the_service_says_what_to_install(tmp_path: Path) -> None:
    """It does not start."""
    (tmp_path / "opentelemetry.py").write_text("raise ModuleNotFoundError(name='opentelemetry')")
    path = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
    changes = {"PYTHONPATH": path, "PAYDESK_TRACE_ENDPOINT": "http://127.0.0.1:1", "PAYDESK_PUBLIC_URL": "http://[::1]"}
    serve = [sys.executable, "-m", "paydesk.commands", "serve"]
    assert command("keys", "add", folder=tmp_path).returncode == 0
    refused = subprocess.run(
        serve, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment(**changes)
    )
    assert (refused.returncode, refused.stdout) == (1, "")
    sentence = "the module opentelemetry is not installed. Run: pip install 'paydesk[otel]', or unset"
    assert sentence in " ".join(refused.stderr.split())


async def _created(service: Service, headers: dict[str, str]) -> str:
    terminal = await service.terminal()
    body = {
        "type": "point",
        "external_reference": "ext_ref_1234",
        "transactions": {"payments": [{"amount": "24.90"}]},
        "config": {"point": {"terminal_id": terminal.id}},
        "description": "not in a span",
    }
    reply = await service.request("POST", "/v1/orders", body, headers=headers)
    assert reply.status == 201, reply
    order_id: str = reply.body["id"]
    return order_id
