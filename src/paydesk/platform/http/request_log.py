"""The log line of a request.

JSON lines are encoded here, not by structlog, which takes twenty times as long, and written once a turn of the event
loop: each write wakes the reader of a pipe.
"""

from __future__ import annotations

import asyncio
import atexit
import re
import urllib.parse
from collections import deque
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, TextIO

import msgspec
import structlog

from paydesk.core import runtime
from paydesk.core.clock import rfc3339
from paydesk.core.errors import NOT_READY, Refusal
from paydesk.core.text.card_numbers import MASK
from paydesk.core.text.redaction import carries_secret, redacted
from paydesk.platform.http.refusals.repeated import RepeatedRefusals

FROM_OUTSIDE = ("path", "request_id", "reason")
PATH_CHARACTERS_MAX = 200
UNQUOTED_MAX = 3
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")

log = structlog.get_logger("request")
_encode = msgspec.json.Encoder().encode

_waiting = deque[str]()


class _Target:
    """The output: `json_stream`, or structlog if it is None. Unless `enabled`, only errors are logged."""

    enabled = True
    json_stream: TextIO | None = None
    common: Mapping[str, Any] = MappingProxyType({})
    flushing: asyncio.AbstractEventLoop | None = None
    """The event loop that writes the waiting lines at the end of its turn."""


def configure(*, enabled: bool, json_stream: TextIO | None, process: int | None = None) -> None:
    """Log every request, or failed ones only; as JSON directly to a stream, or through structlog."""
    flush()
    _Target.enabled, _Target.json_stream = enabled, json_stream
    _Target.common = {} if process is None else {"process": process}


def configured() -> dict[str, Any]:
    """Return the arguments of `configure` that lead to the present configuration."""
    return {"enabled": _Target.enabled, "json_stream": _Target.json_stream, "process": None, **_Target.common}


def write(  # noqa: PLR0913 - the facts of a line
    method: str,
    path: str,
    status: int,
    request_id: str,
    started: float,
    refusal: Refusal | None,
    address: str,
    identity: Callable[[], Mapping[str, Any]] = dict,
    *,
    known: Collection[str] = (),
    repeated: RepeatedRefusals | None = None,
) -> None:
    """Log a request from `address`; `started` is a time of `runtime.monotonic`.

    `identity` returns the authenticated ids of the caller; it is called only if a line is written. `known` has a path
    and an id that did not come from outside and need no search for secrets. A refusal is logged with its code, its
    precise reason and its facts, unless `repeated` counts it. A status of 500 and above is an error and logged at every
    level, except "not ready" of `/readyz`.
    """
    failed = status >= 500 and (refusal is None or refusal.kind is not NOT_READY)
    if not (failed or _Target.enabled):
        return
    ids = {**identity(), **refusal.facts} if refusal is not None else identity()
    if refusal is not None and repeated is not None and repeated.counts(refusal, address, ids):
        return
    fields: dict[str, Any] = {
        "method": method,
        "path": path if len(path) <= PATH_CHARACTERS_MAX and "%" not in path else readable(path),
        "status": status,
        "ms": int((runtime.monotonic() - started) * 10_000 + 0.5) / 10,
        "request_id": request_id,
    }
    if refusal is not None:
        fields["error"], fields["reason"] = refusal.kind.code, refusal.reason
    fields["address"] = address
    fields.update(ids)
    if _Target.json_stream is None:
        (log.error if failed else log.info)("request", **fields)
    else:
        _write_json("error" if failed else "info", fields, known)


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


def _write_json(level: str, fields: dict[str, Any], known: Collection[str]) -> None:
    """Write the line. The values of other fields than `FROM_OUTSIDE` are our own, ids and an IP address."""
    texts = [fields[name] for name in FROM_OUTSIDE if name in fields and fields[name] not in known]
    # No secret contains a line break, so one search in all texts is enough.
    if texts and carries_secret("\n".join(texts)):
        fields.update({name: redacted(fields[name], name) for name in FROM_OUTSIDE if name in fields})
    now = rfc3339(runtime.wall_ns() // 1_000_000)
    line = {"timestamp": now, "level": level, "event": "request", **fields, **_Target.common}
    _waiting.append(_encode(line).decode() + "\n")
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        loop = None
    if loop is None or level == "error":
        flush()
    elif loop is not _Target.flushing:
        _Target.flushing = loop
        loop.call_soon(flush)


def flush() -> None:
    """Write the lines of this turn of the event loop. Other threads may write theirs at the same time."""
    lines: list[str] = []
    _Target.flushing = None
    try:
        while _waiting:
            lines.append(_waiting.popleft())
    except IndexError:
        pass  # Another thread has just taken the last one.
    if lines and _Target.json_stream is not None:
        _Target.json_stream.write("".join(lines))
        _Target.json_stream.flush()


atexit.register(flush)
