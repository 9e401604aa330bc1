"""What a command changes about logs is undone afterwards."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog

from paydesk.platform.http import request_log


@contextmanager
def kept_logging() -> Iterator[None]:
    """Log again as before at the end: a service that runs in the same process may be logging, or be listened to."""
    root, access = logging.getLogger(), logging.getLogger("uvicorn.access")
    handlers, level, silent = root.handlers[:], root.level, access.disabled
    structured = structlog.get_config()
    target = request_log.configured()
    try:
        yield
    finally:
        written: Any = getattr(structlog.get_config()["logger_factory"], "_file", None)
        written = getattr(written, "_stream", written)
        if getattr(written, "name", "") == os.devnull:
            written.close()  # A command that discards its log leaves it open until the end of its process.
        structlog.configure(**structured)
        request_log.configure(**target)
        root.handlers[:], root.level, access.disabled = handlers, level, silent
