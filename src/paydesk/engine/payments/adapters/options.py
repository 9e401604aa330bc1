"""Reads the options of the acquirers file that adapters have in common: capabilities and secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from datetime import time
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from paydesk.core.secrets import Secret
from paydesk.engine.payments.adapters.context import AdapterRefused
from paydesk.engine.payments.capabilities import Capabilities, DayClose
from paydesk.platform import secret_source
from paydesk.platform.secret_source import SecretRefused

T = TypeVar("T")

_NAMES = frozenset(field.name for field in fields(Capabilities))


def options_of(options: Mapping[str, Any], kind: type[T], *, where: str = "") -> T:
    """Return the options as the type has them; `where` begins the message. Raises `AdapterRefused`."""
    try:
        return msgspec.convert(options, kind, dec_hook=_refuse)
    except msgspec.ValidationError as error:
        raise AdapterRefused(f"{where}{_with_choices(str(error), kind)}") from None


def capabilities_of(options: Mapping[str, Any]) -> Capabilities:
    """Return the capabilities in an adapter's options. Raises `AdapterRefused`."""
    unknown = sorted(set(options) - _NAMES)
    if unknown:
        raise AdapterRefused(f"`capabilities` has an unknown field `{unknown[0]}`: it has {', '.join(sorted(_NAMES))}")
    closings = {
        name: _day_close(name, options[name])
        for name in ("confirm_before", "reverse_until")
        if not isinstance(options.get(name, 0), int)
    }
    others = {name: value for name, value in options.items() if name not in closings}
    return replace(options_of(others, Capabilities, where="`capabilities`: "), **closings)  # type: ignore[arg-type]


def _with_choices(message: str, kind: type) -> str:
    """Return the message about an unknown option or value, with those that exist."""
    hints = get_type_hints(kind)
    if message.startswith("Object contains unknown field"):
        return f"{message}: it has {', '.join(sorted(hints))}"
    hint = hints.get(message.rpartition("`$.")[2].partition("[")[0].rstrip("`"))
    enum = next((part for part in (hint, *get_args(hint)) if get_origin(part) is Literal), None)
    return f"{message}: use {', '.join(get_args(enum))}" if message.startswith("Invalid enum value") else message


def _refuse(kind: type, value: object) -> object:
    raise ValueError(f"{value!r} is no {kind.__name__}")


def _day_close(name: str, value: object) -> DayClose:
    example = '{ time = "00:00", zone = "America/Sao_Paulo" }'
    if not isinstance(value, Mapping) or set(value) != {"time", "zone"}:
        raise AdapterRefused(f"`{name}` must be a number of seconds, or a closing hour such as {example}")
    try:
        closing = time.fromisoformat(str(value["time"]))
    except ValueError:
        raise AdapterRefused(f"`time` of `{name}` must be an hour of the day such as 00:00") from None
    if closing.tzinfo is not None:
        raise AdapterRefused(f"`time` of `{name}` must have no offset: `zone` names the time zone")
    try:
        return DayClose(closing, ZoneInfo(str(value["zone"])))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise AdapterRefused(f"`zone` of `{name}` must be a time zone such as America/Sao_Paulo") from None


def secret_of(reference: str) -> Secret:
    """Return the secret that `file:PATH` or `env:NAME` names. Raises `AdapterRefused`, never with the secret."""
    with _refusing():
        return secret_source.secret_of(reference)


def private_text(path: Path) -> str:
    """Return the text of a file that only its owner can read. Raises `AdapterRefused`."""
    with _refusing():
        return secret_source.private_text(path)


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except SecretRefused as refused:
        raise AdapterRefused(str(refused)) from None
