"""Answers that faults make or change: refusals on purpose, and answers that are cut, altered or empty."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from paydesk.core import errors
from paydesk.core.errors import ErrorKind, Refusal
from paydesk.core.faults import Fault, Kind
from paydesk.platform.http.asgi import Message
from paydesk.platform.operation import Operation

RETRY_SECONDS = 1
PIECES = 20
"""The number of pieces of a dribbled answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer of the application."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Answer | None:
        """Return the answer in the messages of ASGI; None if there is none."""
        if not messages:
            return None
        start, *bodies = messages
        return cls(start["status"], list(start["headers"]), b"".join(one.get("body", b"") for one in bodies))

    @property
    def document(self) -> dict[str, Any] | None:
        """The JSON object of the body; None if it is another."""
        try:
            document = msgspec.json.decode(self.body)
        except msgspec.DecodeError:
            return None
        return document if isinstance(document, dict) else None

    def with_body(self, body: bytes) -> Answer:
        """Return the answer with another body, of which its head says the length."""
        headers = [(name, value) for name, value in self.headers if name != b"content-length"]
        return replace(self, headers=[*headers, (b"content-length", str(len(body)).encode())], body=body)


def refusal_of(fault: Fault, kind: Kind, operation: Operation) -> Refusal:
    """Return the refusal of a kind that answers without an effect, or after it."""
    reason = f"the fault {kind}"
    match kind.name:
        case "busy":
            return errors.RESOURCE_LOCKED.with_reason(reason)
        case "limited":
            seconds = fault.delay_of(kind) or RETRY_SECONDS
            return errors.TOO_MANY_REQUESTS.with_reason(reason, headers=(("retry-after", str(max(1, round(seconds)))),))
        case "missing":
            declared = (one for one in operation.errors if one.status == errors.NOT_FOUND.status)
            return next(declared, errors.NOT_FOUND).with_reason(reason)
        case _:
            return _with_status(fault.status_of(kind, errors.SERVICE_UNAVAILABLE.status)).with_reason(reason)


def changed(answer: Answer, fault: Fault, kind: Kind) -> Answer:
    """Return the answer as a kind changes it; as it is if it has no JSON object, and no refusal with other values."""
    document, is_success = answer.document, 200 <= answer.status < 300
    if document is None or not (is_success or kind.name == "broken_json"):
        return answer
    match kind.name:
        case "broken_json":
            return answer.with_body(answer.body[: len(answer.body) * 2 // 3])
        case "altered":
            for pointer, value in fault.set.items():
                _put(document, pointer, value)
        case "empty":
            document = _emptied(document)
    return answer.with_body(msgspec.json.encode(document))


def pieces(body: bytes) -> list[bytes]:
    """Return the pieces of a body that is dribbled."""
    length = max(1, -(-len(body) // PIECES))
    return [body[start : start + length] for start in range(0, len(body), length)]


def _with_status(status: int) -> ErrorKind:
    own = (errors.SERVICE_UNAVAILABLE, errors.INTERNAL_ERROR, errors.NOT_FOUND, errors.FORBIDDEN)
    return next((one for one in own if one.status == status), replace(errors.SERVICE_UNAVAILABLE, status=status))


def _emptied(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a list without its rows, and with no number of them."""
    emptied: dict[str, Any] = {}
    for name, value in document.items():
        if isinstance(value, list):
            emptied[name] = []
        elif name == "data" and isinstance(value, dict):
            emptied[name] = _emptied(value)
        elif name == "paging" and isinstance(value, dict):
            zeros = {one: type(value[one])(0) for one in ("total", "total_pages") if one in value}
            emptied[name] = {**value, **zeros}
        else:
            emptied[name] = value
    return emptied


def _put(document: Any, pointer: str, value: Any) -> None:
    """Set a value at a JSON pointer (RFC 6901); a place that the document does not have is left alone."""
    *parents, last = (part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
    for part in parents:
        document = _member(document, part)
    if isinstance(document, dict):
        document[last] = value
    elif (index := _index(document, last)) is not None:
        document[index] = value


def _member(document: Any, part: str) -> Any:
    if isinstance(document, dict):
        return document.get(part)
    index = _index(document, part)
    return None if index is None else document[index]


def _index(document: Any, part: str) -> int | None:
    """Return the index of a list's element; None if there is none."""
    is_index = isinstance(document, list) and re.fullmatch("[0-9]{1,6}", part) and int(part) < len(document)
    return int(part) if is_index else None
