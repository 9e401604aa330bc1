"""The logging configuration, which commands change, is as before afterwards."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from paydesk.http import request_log


@contextmanager
def kept_logging() -> Iterator[None]:
    """Restore the logging configuration at the end."""
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    try:
        yield
    finally:
        structlog.reset_defaults()
        request_log.configure(enabled=True, json_stream=None)
        root.handlers[:], root.level = before
        logging.getLogger("uvicorn.access").disabled = False
