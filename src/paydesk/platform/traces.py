"""The spans of requests and of calls to other systems, which a collector gets if `trace_endpoint` is set."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from paydesk.core import ids, runtime, trace
from paydesk.core.trace import CURRENT, Attributes, Trace
from paydesk.platform.settings import Settings, SettingsError

if TYPE_CHECKING:
    from paydesk.platform.collector import Collector

ERROR, ORDER, SELLER, STATUS = "error.type", "paydesk.order_id", "paydesk.seller_id", "http.response.status_code"
# In the path, and at the start of the response to a create or to a terminal's poll. A lease has its order's ULID.
_ORDER = re.compile(rf'(?:/|^{{"(?:type":"order","lease_)?id":")(?:ORD)?({ids.ULID_PATTERN})(?:["/]|$)')


class PROCESS:
    """The collector of this process, and the share of what is done without a trace that begins a recorded one."""

    collector: Collector | None = None
    ratio = 0.0


@asynccontextmanager
async def recorded(settings: Settings) -> AsyncIterator[None]:
    """Record spans if it is set so, and send the last ones at the end. Raises `SettingsError`."""
    if settings.trace_endpoint is None:
        yield
        return
    try:
        from paydesk.platform.collector import Collector
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"trace_endpoint is set, but the module {error.name} is not installed. Run: pip install 'paydesk[otel]', or"
            " unset PAYDESK_TRACE_ENDPOINT."
        ) from None
    PROCESS.collector, PROCESS.ratio = collector, _ = Collector(settings.trace_endpoint), settings.trace_ratio
    try:
        yield
    finally:
        PROCESS.collector, PROCESS.ratio = None, 0.0
        await collector.close()


def begin(parent: Trace | None) -> Trace | None:
    """Return a new span, which is the current one: below `parent`, or the first of a trace, or None for no trace."""
    span = parent.child() if parent else trace.first(PROCESS.ratio) if PROCESS.ratio else None
    CURRENT.set(span)
    return span


def record(span: Trace, name: str, began: float, attributes: Attributes, **more: bool) -> None:
    """Record a span that ends now, as `Collector.add` takes it; `began` is a time of `runtime.monotonic`."""
    if PROCESS.collector is not None and span.flags & trace.SAMPLED:
        began_ns = runtime.wall_ns() - round((runtime.monotonic() - began) * 1e9)
        PROCESS.collector.add(span, name, attributes, began_ns, **more)


@contextmanager
def call(name: str, parent: Trace | None, attributes: Attributes) -> Iterator[None]:
    """Record a call to another system, which is made in the block: it has the span's headers."""
    before, began = CURRENT.get(), runtime.monotonic()
    span = begin(parent)
    try:
        yield
    except BaseException as error:
        attributes[ERROR] = type(error).__name__
        raise
    finally:
        CURRENT.set(before)
        if span is not None:
            record(span, name, began, attributes, failed=ERROR in attributes, is_call=True)


def order_of(path: str, body: bytes) -> Attributes:
    """Return the attribute that names the order of a request, by its path or its response."""
    match = _ORDER.search(path) or _ORDER.search(body[:80].decode("latin-1"))
    return {ORDER: f"ORD{match[1]}"} if match else {}
