"""Sends spans by OTLP over HTTP. Only this module imports OpenTelemetry, and it is imported only if that is set."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

import structlog
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from paydesk import __version__
from paydesk.core import runtime
from paydesk.core.trace import Attributes, Trace

SEND_SECONDS_MAX, CLOSE_SECONDS_MAX = 3.0, 4.0

log = structlog.get_logger("traces")


class _Exporter(SpanExporter):
    """Posts spans, in OpenTelemetry's thread. What the collector does not take at once is lost."""

    def __init__(self, endpoint: str) -> None:
        self._url, self._loop, self._fault = urlsplit(endpoint), asyncio.get_running_loop(), ""
        connect = HTTPSConnection if self._url.scheme == "https" else HTTPConnection
        self._connection = connect(self._url.netloc, timeout=SEND_SECONDS_MAX)
        pairs = [pair.partition("=") for pair in os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", "").split(",") if pair]
        self._headers = {name.strip(): unquote(value.strip()) for name, _, value in pairs}
        self._headers |= {"Content-Type": "application/x-protobuf", "User-Agent": f"Paydesk/{__version__}"}

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send the spans. The first failure after a success is logged."""
        message: Any = encode_spans(spans)  # of a package without types
        try:
            self._connection.request("POST", self._url.path or "/", message.SerializeToString(), self._headers)
            status = self._connection.getresponse().status
            fault = "" if 200 <= status < 300 else f"status {status}"
        except (OSError, HTTPException, ValueError) as error:
            fault = getattr(error, "strerror", None) or type(error).__name__
        finally:
            self._connection.close()
        if fault and not self._fault:
            with suppress(RuntimeError):  # The event loop has ended.
                self._loop.call_soon_threadsafe(partial(log.warning, "traces_not_sent", reason=fault))
        self._fault = fault
        return SpanExportResult.FAILURE if fault else SpanExportResult.SUCCESS


class Collector:
    """The collector at `endpoint`. Spans wait for it in a bounded queue."""

    def __init__(self, endpoint: str) -> None:
        own = Resource({"service.name": "paydesk", "service.version": __version__})
        self._resource, self._scope = own.merge(OTELResourceDetector().detect()), InstrumentationScope("paydesk")
        self._queue = BatchSpanProcessor(_Exporter(endpoint))

    def add(self, trace: Trace, name: str, facts: Attributes, began_ns: int, *, failed: bool, is_call: bool) -> None:
        """Queue a span that ends now. `is_call`: Paydesk is the client."""
        flags, ids = TraceFlags(trace.flags), [int(text or "0", 16) for text in (trace.span_id, trace.parent_id)]
        span, parent = (SpanContext(int(trace.trace_id, 16), one, is_remote=False, trace_flags=flags) for one in ids)
        ended = ReadableSpan(
            name,
            span,
            parent if trace.parent_id else None,
            self._resource,
            facts,
            kind=SpanKind.CLIENT if is_call else SpanKind.SERVER,
            status=Status(StatusCode.ERROR if failed else StatusCode.UNSET),
            start_time=began_ns,
            end_time=runtime.wall_ns(),
            instrumentation_scope=self._scope,
        )
        self._queue.on_end(ended)

    async def close(self) -> None:
        """Send what waits, for `CLOSE_SECONDS_MAX` at most."""
        ending = Thread(target=self._queue.shutdown, daemon=True)  # The process does not wait for it.
        ending.start()
        await asyncio.to_thread(ending.join, CLOSE_SECONDS_MAX)
