"""The log line of a request.

JSON lines are encoded here, not by structlog, which takes twenty times as long.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TextIO

import msgspec
import structlog

from paydesk.core import runtime
from paydesk.core.card_numbers import MASK
from paydesk.core.clock import rfc3339
from paydesk.core.errors import NOT_READY, Refusal
from paydesk.core.redaction import carries_secret, redacted

PATH_CHARACTERS_MAX = 200
UNQUOTED_MAX = 3
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")

log = structlog.get_logger("request")
_encode = msgspec.json.Encoder().encode


class _Target:
    """The output: `json_stream`, or structlog if it is None. Unless `enabled`, only errors are logged."""

    enabled = True
    json_stream: TextIO | None = None
    common: Mapping[str, Any] = MappingProxyType({})


def configure(*, enabled: bool, json_stream: TextIO | None, process: int | None = None) -> None:
    """Log every request, or failed ones only; as JSON directly to a stream, or through structlog."""
    _Target.enabled, _Target.json_stream = enabled, json_stream
    _Target.common = {} if process is None else {"process": process}


def configured() -> dict[str, Any]:
    """Return the arguments of `configure` that lead to the present configuration."""
    return {"enabled": _Target.enabled, "json_stream": _Target.json_stream, "process": None, **_Target.common}


def write(
    method: str,
    path: str,
    status: int,
    request_id: str,
    started: float,
    refusal: Refusal | None,
    address: str,
    identity: Callable[[], Mapping[str, Any]] = dict,
) -> None:
    """Log a request from `address`; `started` is a time of `runtime.monotonic`.

    `identity` returns the authenticated ids of the caller; it is called only if a line is written. A refusal is logged
    with its code, its precise reason and its facts. A status of 500 and above is an error and logged at every level,
    except "not ready" of `/readyz`.
    """
    failed = status >= 500 and (refusal is None or refusal.kind is not NOT_READY)
    if not (failed or _Target.enabled):
        return
    fields: dict[str, Any] = {
        "method": method,
        "path": path if len(path) <= PATH_CHARACTERS_MAX and "%" not in path else readable(path),
        "status": status,
        "ms": round((runtime.monotonic() - started) * 1000, 1),
        "request_id": request_id,
    }
    origin = {"address": address, **identity()}
    if refusal is not None:
        fields["error"] = refusal.kind.code
        fields["reason"] = refusal.reason
        origin |= refusal.facts
    if _Target.json_stream is None:
        (log.error if failed else log.info)("request", **fields, **origin)
    else:
        _write_json(_Target.json_stream, "error" if failed else "info", fields, origin)


def readable(path: str) -> str:
    """Return the path unquoted, masked and then truncated, so that no escape or truncation hides part of a secret.

    A path that still has escapes, or has a secret that only partial unquoting shows, is masked as a whole.
    """
    plain = unquoted(path)
    if plain is None:
        return MASK
    masked: str = redacted(plain, "path")
    return masked[:PATH_CHARACTERS_MAX]


def unquoted(text: str) -> str | None:
    """Return the text without percent-encoding; None if some remains, or if only an earlier decoding has a secret."""
    texts = [text]
    for _ in range(UNQUOTED_MAX):
        texts.append(urllib.parse.unquote(texts[-1]))
    plain = texts[-1]
    if _ESCAPE.search(plain) or any(text != plain and redacted(text) != text for text in texts):
        return None
    return plain


def _write_json(stream: TextIO, level: str, fields: dict[str, Any], origin: Mapping[str, Any]) -> None:
    """Write the line. `origin`, an IP address and ids from the database, contains no secret."""
    # No secret contains a line break, so one search in all texts is enough.
    if carries_secret("\n".join([value for value in fields.values() if isinstance(value, str)])):
        fields = {name: redacted(value, name) for name, value in fields.items()}
    now = rfc3339(runtime.wall_ns() // 1_000_000)
    line = {"timestamp": now, "level": level, "event": "request", **fields, **origin, **_Target.common}
    stream.write(_encode(line).decode() + "\n")
    stream.flush()
