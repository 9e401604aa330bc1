"""A terminal's journal: what it must know again after a crash, in one file that is replaced whole and synced.

What is in memory is what is on the disk: an entry changes here only once it was written.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import structlog

from paydesk.core import atomic_file
from paydesk.core.secrets import Secret

OFFERED, ACKNOWLEDGED, AUTHORIZING = "offered", "acknowledged", "authorizing"

_TERMINAL_ID = re.compile(r"[A-Za-z0-9_-]{1,80}", re.ASCII)
_log = structlog.get_logger("virtual.journal")


class Entry(msgspec.Struct, frozen=True):
    """A lease the terminal holds: the order, the last step that matters, and the result once there is one."""

    lease_id: str
    order: dict[str, Any]
    step: str = OFFERED
    until: str = ""
    """Up to when the grant lets it go to the acquirer; empty without a grant."""
    result_id: str = ""
    result: dict[str, Any] | None = None
    presented: dict[str, Any] | None = None
    """What the acquirer is asked with; written down before it is asked, so from then on it may have been charged."""


class _File(msgspec.Struct):
    terminal_id: str
    device_token: str
    script: str
    entries: list[Entry]


class Journal:
    """The journal of one terminal. `entries` are its leases by id; `script` and `device_token` are kept beside them."""

    def __init__(
        self, path: Path, terminal_id: str, device_token: Secret, script: str, entries: Iterable[Entry] = ()
    ) -> None:
        self.path, self.terminal_id, self.device_token, self.script = path, terminal_id, device_token, script
        self.entries: Mapping[str, Entry] = {entry.lease_id: entry for entry in entries}
        self._one_at_a_time = asyncio.Lock()

    async def save(self) -> None:
        """Write it as it is."""
        await self._write(lambda _: None)

    async def put(self, entry: Entry) -> None:
        """Write the entry down; durable when this returns."""
        await self._write(lambda entries: entries.update({entry.lease_id: entry}))

    async def forget(self, lease_id: str) -> None:
        """Cross the lease out."""
        if lease_id in self.entries:
            await self._write(lambda entries: entries.pop(lease_id, None))

    async def set_script(self, script: str) -> None:
        """From now on the terminal plays another script."""
        await self._write(lambda _: None, script)

    async def _write(self, change: Callable[[dict[str, Entry]], object], script: str | None = None) -> None:
        async with self._one_at_a_time:
            entries, script = dict(self.entries), script or self.script
            change(entries)
            file = _File(self.terminal_id, self.device_token.reveal(), script, list(entries.values()))
            writing = asyncio.ensure_future(
                asyncio.to_thread(atomic_file.replace, self.path, msgspec.json.encode(file))
            )
            try:
                await asyncio.shield(writing)
            finally:
                # A thread can't be stopped half-way: who is canceled here waits until the file is whole.
                await writing
                self.entries, self.script = entries, script


def path_of(folder: Path, terminal_id: str) -> Path:
    """Where the terminal's journal lies. Raises `ValueError` for an id that is none."""
    if not _TERMINAL_ID.fullmatch(terminal_id):
        raise ValueError(f"{terminal_id!r} is not a terminal id")
    return folder / f"{terminal_id}.json"


def read(path: Path) -> Journal | None:
    """The journal in the file; None where there is none, or one that can't be read, which is put aside and logged."""
    try:
        file = msgspec.json.decode(path.read_bytes(), type=_File)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        aside = path.with_suffix(".unreadable")
        path.replace(aside)
        _log.error("a terminal's journal is unreadable; it begins an empty one", kept=str(aside), reason=str(error))
        return None
    return Journal(path, file.terminal_id, Secret(file.device_token), file.script, file.entries)
