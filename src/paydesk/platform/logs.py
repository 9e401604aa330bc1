"""Logs: one event per line, as text on a terminal and as JSON otherwise, with secrets masked.

Logs go to standard error; standard output is for the results of commands.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal, TextIO

import msgspec
import structlog

from paydesk.core.metrics import Counter
from paydesk.core.text.redaction import redact
from paydesk.platform.http import request_log

LogFormat = Literal["auto", "json", "text"]
LogLevel = Literal["info", "warning"]
TextLine = Callable[[Mapping[str, Any]], str | None]
"""Returns the line of an event, or None to leave the event out."""


def configure(
    log_format: LogFormat = "auto",
    stream: TextIO | None = None,
    level: LogLevel = "info",
    *,
    process: int | None = None,
    text_line: TextLine | None = None,
) -> None:
    """Configure structlog and the standard library's loggers to write to one stream in one format.

    The level `warning` leaves out lower levels, and requests unless their status is 500 or above. `process` is added to
    every line if several processes write to one log. `text_line` makes the lines of text that a person reads on a
    terminal; text in a file has everything.
    """
    stream = stream or sys.stderr
    lasting: Any = Lasting(stream)
    as_text = log_format == "text" or (log_format == "auto" and stream.isatty())
    renderer: Any = structlog.dev.ConsoleRenderer(
        colors=stream.isatty(),
        exception_formatter=structlog.dev.plain_traceback,
        pad_event_to=24,
        sort_keys=False,
    )
    if text_line is not None and stream.isatty():
        renderer = _short(text_line)
    request_log.configure(enabled=level == "info", json_stream=None if as_text else lasting, process=process)
    structlog.configure(
        processors=[
            _after_requests,
            *([] if process is None else [lambda _logger, _method, event: {**event, "process": process}]),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            redact,
            renderer if as_text else structlog.processors.JSONRenderer(_json),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(lasting),
        cache_logger_on_first_use=False,
    )
    _redirect_standard_library()


DROPPED = Counter("paydesk_log_lines_dropped_total", "Writes to the log that failed, of one line or several.")


class Lasting:
    """Writes to a stream until its reader has gone: then to nowhere, because the service goes on without it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Write the text, or lose it."""
        self._attempt(self._stream.write, text)

    def flush(self) -> None:
        """Write what waits, or lose it."""
        self._attempt(self._stream.flush)

    def _attempt(self, do: Callable[..., object], *arguments: str) -> None:
        try:
            do(*arguments)
        except BrokenPipeError:
            DROPPED.add()
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
        except OSError:
            DROPPED.add()  # A disk that is full now may have room for later lines.


def _after_requests(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Write the waiting lines of requests first: the process may end after this one."""
    request_log.flush()
    return event


class StandardLibraryHandler(logging.Handler):
    """Passes log records of libraries (uvicorn, asyncio, aiohttp) to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record with its logger's name."""
        structlog.get_logger(record.name).log(
            record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info or None
        )


def _redirect_standard_library() -> None:
    root = logging.getLogger()
    root.handlers[:] = [StandardLibraryHandler()]
    root.setLevel(logging.WARNING)
    for name in ("uvicorn", "uvicorn.error", "asyncio", "aiohttp"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    # `request_log` logs requests.
    logging.getLogger("uvicorn.access").disabled = True


def _short(text_line: TextLine) -> structlog.typing.Processor:
    def render(_logger: Any, _method: str, event: structlog.typing.EventDict) -> str:
        line = text_line(event)
        if line is None:
            raise structlog.DropEvent
        return line

    return render


def _json(event: dict[str, Any], **_: Any) -> str:
    first = {name: event.pop(name, None) for name in ("timestamp", "level", "event")}
    return msgspec.json.encode({**first, **event}, enc_hook=str).decode()
