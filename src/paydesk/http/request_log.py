"""The one line that a request writes into the log.

Every request pays for it, so a JSON line is put together here and not by structlog, which takes twenty times as long.
"""

from __future__ import annotations

import re
import time
import urllib.parse
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TextIO

import msgspec
import structlog

from paydesk.card_numbers import MASK
from paydesk.clock import rfc3339
from paydesk.errors import Refusal
from paydesk.redaction import carries_secret, redacted

PATH_CHARACTERS_MAX = 200
UNQUOTED_MAX = 3
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")

log = structlog.get_logger("request")
_encode = msgspec.json.Encoder().encode


class _Target:
    """Where the lines go: to `json_stream`, to structlog where there is none, nowhere while not `enabled`."""

    enabled = True
    json_stream: TextIO | None = None
    common: Mapping[str, Any] = MappingProxyType({})


def configure(*, enabled: bool, json_stream: TextIO | None, process: int | None = None) -> None:
    """Write a line a request or none; as JSON straight to a stream, or through structlog."""
    _Target.enabled, _Target.json_stream = enabled, json_stream
    _Target.common = {} if process is None else {"process": process}


def write(method: str, path: str, status: int, request_id: str, started: float, refusal: Refusal | None) -> None:
    """Write it; `started` is by `time.perf_counter`. Of a refusal it has the code and the precise reason."""
    if not _Target.enabled:
        return
    fields: dict[str, Any] = {
        "method": method,
        "path": path if len(path) <= PATH_CHARACTERS_MAX and "%" not in path else _readable(path),
        "status": status,
        "ms": round((time.perf_counter() - started) * 1000, 1),
        "request_id": request_id,
    }
    if refusal is not None:
        fields["error"] = refusal.kind.code
        fields["reason"] = refusal.reason
    if _Target.json_stream is None:
        log.info("request", **fields)
    else:
        _write_json(_Target.json_stream, fields)


def _readable(path: str) -> str:
    """Return the path unquoted, masked and then cut, so that neither an escape nor the cut hides part of a secret.

    Where the text still has escapes, or carried a secret before it was unquoted to its end, nothing of it is kept.
    """
    texts = [path]
    for _ in range(UNQUOTED_MAX):
        texts.append(urllib.parse.unquote(texts[-1]))
    plain = texts[-1]
    if _ESCAPE.search(plain) or any(text != plain and redacted(text) != text for text in texts):
        return MASK
    masked: str = redacted(plain, "path")
    return masked[:PATH_CHARACTERS_MAX]


def _write_json(stream: TextIO, fields: dict[str, Any]) -> None:
    # A line break belongs to no secret, so one look at all texts is enough.
    if carries_secret("\n".join([value for value in fields.values() if isinstance(value, str)])):
        fields = {name: redacted(value, name) for name, value in fields.items()}
    now = rfc3339(time.time_ns() // 1_000_000)
    line = {"timestamp": now, "level": "info", "event": "request", **fields, **_Target.common}
    stream.write(_encode(line).decode() + "\n")
    stream.flush()
