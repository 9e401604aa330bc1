"""The journal of a virtual terminal survives a crash of its process."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from paydesk.core.secrets import Secret
from paydesk_dev.virtual import journal as journals
from paydesk_dev.virtual.journal import Entry, Journal


def _journal(folder: Path) -> Journal:
    return Journal(journals.path_of(folder, "T__1"), "T__1", Secret("PDT-1"), "approve")


async def test_reads_entries_token_and_script_as_written(tmp_path: Path) -> None:
    """The file is readable only by its owner."""
    journal = _journal(tmp_path)
    await journal.put(
        Entry("A", {"amount": "1"}, "authorizing", "2026-01-31T14:26:42.109Z", "R", {"outcome": "approved"})
    )
    await journal.put(Entry("B", {"amount": "2"}))
    await journal.forget("B")
    await journal.set_script("hold")
    again = journals.read(journal.path)
    assert again is not None
    assert again.entries == journal.entries
    assert list(again.entries) == ["A"]
    assert (again.terminal_id, again.device_token, again.script) == ("T__1", Secret("PDT-1"), "hold")
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600


async def test_concurrent_changes_are_all_stored(tmp_path: Path) -> None:
    """Concurrent writers do not undo each other's changes."""
    journal = _journal(tmp_path)
    await asyncio.gather(*(journal.put(Entry(str(number), {})) for number in range(20)))
    again = journals.read(journal.path)
    assert again is not None
    assert len(again.entries) == 20


async def test_canceled_write_leaves_a_complete_file(tmp_path: Path) -> None:
    """It has the old entry or the new one, and memory and disk agree."""
    journal = _journal(tmp_path)
    await journal.save()
    writing = asyncio.create_task(journal.put(Entry("A", {})))
    await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    again = journals.read(journal.path)
    assert again is not None
    assert again.entries == journal.entries


async def test_failed_write_changes_nothing_in_memory(tmp_path: Path) -> None:
    """What is not on the disk is in no entry: the terminal must not go on with it."""
    journal = _journal(tmp_path / "missing")
    with pytest.raises(OSError, match="missing"):
        await journal.put(Entry("A", {}))
    assert journal.entries == {}


def test_invalid_journal_is_renamed_and_ignored(tmp_path: Path) -> None:
    """The file is kept for an investigation."""
    path = journals.path_of(tmp_path, "T__1")
    path.write_bytes(b'{"terminal_id": "T__1", "entr')
    assert journals.read(path) is None
    assert not path.exists()
    assert path.with_suffix(".unreadable").exists()


@pytest.mark.parametrize("terminal_id", ["", "../T", "T/1", "T" * 81])
def test_invalid_terminal_id_never_becomes_a_path(tmp_path: Path, terminal_id: str) -> None:
    """An id with a path separator, an empty one or a long one is refused."""
    with pytest.raises(ValueError, match="terminal id"):
        journals.path_of(tmp_path, terminal_id)
