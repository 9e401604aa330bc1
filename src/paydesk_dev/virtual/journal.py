"""A terminal's journal: the state it needs after a crash, in one file that is replaced as a whole and synced.

The memory mirrors the disk: an entry changes in memory only after it was written.
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
from paydesk.engine.terminals.schemas import Kind

OFFERED, ACKNOWLEDGED, AUTHORIZING = "offered", "acknowledged", "authorizing"

_TERMINAL_ID = re.compile(r"[A-Za-z0-9_-]{1,80}", re.ASCII)
_log = structlog.get_logger("virtual.journal")


class Entry(msgspec.Struct, frozen=True):
    """A lease of the terminal: its order, the last step that matters, and the result once there is one."""

    lease_id: str
    order: dict[str, Any]
    step: str = OFFERED
    until: str = ""
    """When the authorization permit expires; empty without a permit."""
    result_id: str = ""
    result: dict[str, Any] | None = None
    presented: dict[str, Any] | None = None
    """The presented card, written before the acquirer is called."""
    number: int = 0
    """The number of the order, counted from 0: its place in the playlist."""
    chosen: dict[str, Any] | None = None
    """What a person presented, written with the request for the permit."""
    expires_date: str = ""
    """When the order expires, by the service's clock."""
    is_provisional: bool = False
    """Whether the approval counts only once the service has accepted the result."""

    @property
    def sent(self) -> bool:
        """Whether the acquirer may have been called, so that the payment may have been charged."""
        return self.presented is not None


class _File(msgspec.Struct):
    terminal_id: str
    device_token: str
    script: str
    entries: list[Entry]
    kind: Kind = "terminal"
    orders: int = 0
    latest: str = ""
    seed: int | None = None
    is_retired: bool = False
    is_quick: bool = False


class Journal:
    """The journal of one terminal: its kind, script and device token, and `entries`, its leases by id.

    `orders` is how many orders the terminal was offered, `latest` the lease of the last one; `seed` makes the faults of
    a flaky network the same in each run; one that `is_retired` is switched off for good, until it can be deleted; one
    that `is_quick` makes no pauses for eyes.
    Without a path it is kept in memory, for load tests: it survives a restart of its terminal, not of the process.
    """

    def __init__(
        self,
        path: Path | None,
        terminal_id: str,
        device_token: Secret,
        script: str,
        entries: Iterable[Entry] = (),
        *,
        kind: Kind = "terminal",
    ) -> None:
        self.path, self._is_stored = path or Path(), path is not None
        self.terminal_id, self.device_token, self.script = terminal_id, device_token, script
        self.entries: Mapping[str, Entry] = {entry.lease_id: entry for entry in entries}
        self.kind: Kind = kind
        self.orders, self.latest, self.is_retired, self.is_quick = 0, "", False, False
        self.seed: int | None = None
        self._lock = asyncio.Lock()

    async def save(self) -> None:
        """Write the journal unchanged."""
        await self._write(lambda _: None)

    def number_of(self, lease_id: str) -> int:
        """Return the number of the order, counted from 0; a new one's is written with its entry."""
        if lease_id != self.latest:
            self.latest = lease_id
            self.orders += 1
        return self.orders - 1

    async def put(self, entry: Entry, **changes: Any) -> Entry:
        """Write the entry with these changes and return it; it is durable then."""
        changed = msgspec.structs.replace(entry, **changes)
        await self._write(lambda entries: entries.update({entry.lease_id: changed}))
        return changed

    async def forget(self, lease_id: str) -> None:
        """Delete the lease."""
        if lease_id in self.entries:
            await self._write(lambda entries: entries.pop(lease_id, None))

    async def clear(self) -> None:
        """Delete all leases, and count the orders from 0 again."""
        if self.entries or self.orders:
            self.orders, self.latest = 0, ""
            await self._write(lambda entries: entries.clear())

    async def set_script(self, script: str) -> None:
        """Change the terminal's script."""
        await self._write(lambda _: None, script)

    async def _write(self, change: Callable[[dict[str, Entry]], object], script: str | None = None) -> None:
        async with self._lock:
            entries, script = dict(self.entries), script or self.script
            change(entries)
            if not self._is_stored:
                self.entries, self.script = entries, script
                return
            token, flags = self.device_token.reveal(), (self.is_retired, self.is_quick)
            about = (self.kind, self.orders, self.latest, self.seed, *flags)
            file = msgspec.json.encode(_File(self.terminal_id, token, script, list(entries.values()), *about))
            writing = asyncio.ensure_future(asyncio.to_thread(atomic_file.replace, self.path, file))
            try:
                await asyncio.shield(writing)
            finally:
                # A thread cannot be stopped: a canceled caller waits here until the file is complete.
                await writing
                self.entries, self.script = entries, script


def path_of(folder: Path, terminal_id: str) -> Path:
    """Return the path of the terminal's journal. Raises `ValueError` for an invalid id."""
    if not _TERMINAL_ID.fullmatch(terminal_id):
        raise ValueError(f"{terminal_id!r} is not a terminal id")
    return folder / f"{terminal_id}.json"


def read(path: Path) -> Journal | None:
    """Read the journal; return None if the file is missing, or invalid: then it is renamed and logged."""
    try:
        file = msgspec.json.decode(path.read_bytes(), type=_File)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        renamed = path.with_suffix(".unreadable")
        path.replace(renamed)
        _log.error("journal_invalid", renamed_to=str(renamed), reason=str(error))
        return None
    journal = Journal(path, file.terminal_id, Secret(file.device_token), file.script, file.entries, kind=file.kind)
    journal.orders, journal.latest, journal.seed = file.orders, file.latest, file.seed
    journal.is_retired, journal.is_quick = file.is_retired, file.is_quick
    return journal
