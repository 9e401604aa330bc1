"""The two event loops that a node may run on: uvloop, and asyncio's own where uvloop is not installed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import uvloop

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "uvloop": uvloop.new_event_loop,
    "asyncio": asyncio.new_event_loop,
}
EACH_LOOP = ["uvloop", pytest.param("asyncio", marks=pytest.mark.slow)]
