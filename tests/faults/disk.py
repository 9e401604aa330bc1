"""A disk that fails as disks do: an apsw VFS over real files that can lose power, refuse a sync, be slow, or be full.

Of what was written since a file's last sync a power cut keeps what a disk may: any part, in any order, torn at sectors.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import apsw

SECTOR_BYTES = 512
NAMES = itertools.count()

Remains = Literal["nothing", "everything", "beginning", "some writes", "some sectors", "some sectors or junk"]
REMAINS: tuple[Remains, ...] = (
    "nothing",
    "everything",
    "beginning",
    "some writes",
    "some sectors",
    "some sectors or junk",
)
"""What a cut may leave of the writes that were not synced."""


@dataclass(frozen=True, slots=True)
class Write:
    """Some bytes at an offset; without bytes, the file's new length."""

    offset: int
    data: bytes | None

    def sectors(self) -> Iterator[Write]:
        """The parts that reach the disk by themselves: a sector is written or not."""
        if self.data is None:
            yield self
            return
        begin = 0
        while begin < len(self.data):
            end = begin + SECTOR_BYTES - (self.offset + begin) % SECTOR_BYTES
            yield Write(self.offset + begin, self.data[begin:end])
            begin = end

    def apply(self, content: bytearray) -> None:
        """Change the content; a gap before the offset is zeros, as in a file with holes."""
        if self.data is None:
            del content[self.offset :]
            return
        content.extend(bytes(max(0, self.offset - len(content))))
        content[self.offset : self.offset + len(self.data)] = self.data


@dataclass(eq=False)
class Image:
    """One file: what of it is on the disk, what was only written, and whether its name is on the disk."""

    name: str
    content: bytearray = field(default_factory=bytearray)
    written: list[Write] = field(default_factory=list)
    named: bool = True
    removed: bool = False

    def synced(self) -> None:
        """All that was written is on the disk, and so is the file's name: SQLite's own files sync their folder too."""
        for write in self.written:
            write.apply(self.content)
        self.written.clear()
        self.named = True

    def left_by_a_cut(self, remains: Remains, chance: random.Random) -> bytes:
        """What a power cut leaves."""
        content = bytearray(self.content)
        for write in _surviving(self.written, remains, chance):
            write.apply(content)
        return bytes(content)


def _surviving(written: list[Write], remains: Remains, chance: random.Random) -> list[Write]:
    if remains == "nothing":
        return []
    if remains == "everything":
        return written
    if remains == "beginning":
        whole = chance.randrange(len(written) + 1)
        torn = [part for write in written[whole : whole + 1] for part in write.sectors() if chance.random() < 0.5]
        return written[:whole] + torn
    parts = written if remains == "some writes" else [part for write in written for part in write.sectors()]
    share = chance.random()
    kept = [part for part in parts if chance.random() < share]
    chance.shuffle(kept)
    if remains == "some sectors or junk":
        kept = [_junk(part, chance) if chance.random() < 0.2 else part for part in kept]
    return kept


def _junk(part: Write, chance: random.Random) -> Write:
    return part if part.data is None else Write(part.offset, chance.randbytes(len(part.data)))


@dataclass(eq=False)
class PowerOn:
    """The time between a start and a cut: the files of a folder, through the disk's cache."""

    folder: Path
    images: dict[str, Image]
    removed: list[Image] = field(default_factory=list)
    off: bool = False
    abandoned: bool = False
    """Operations on files that are still open have no effect."""


class Disk(apsw.VFS):
    """The disk. `chance` decides whatever a disk decides by itself; the faults are attributes that a test sets."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.name = f"disk-{next(NAMES)}"
        self.base = apsw.vfs_names()[0]
        super().__init__(self.name, self.base)
        self.folder = folder
        self.chance = chance
        self.platters: dict[str, bytes] = {}
        self._in_memory: tuple[dict[str, Image], dict[str, bytes]] | None = None
        """After a sync that failed: the files, and what the system shows of them, on the disk or not."""
        self._restarts = itertools.count()
        self.power: PowerOn | None = None
        self.cuts = 0
        self.remains = REMAINS
        self.operations_until_cut: int | None = None
        self.sync_seconds: tuple[float, float] = (0.0, 0.0)
        self.syncs_until_failure: int | None = None
        self.full_share = 0.0
        """How many of the writes find no room."""
        self._lock = threading.RLock()

    # Power ----------------------------------------------------------------------------------------------------------

    def turn_on(self) -> Path:
        """A folder with the files as the system shows them: after a cut those of the disk, else those in its memory."""
        assert self.power is None, "it is on"
        folder = self.folder / f"start-{next(self._restarts)}"
        folder.mkdir()
        images = {name: Image(name, bytearray(content)) for name, content in self.platters.items()}
        images, shown = self._in_memory or (images, self.platters)
        self._in_memory = None
        for name, content in shown.items():
            (folder / name).write_bytes(content)
        self.power = PowerOn(folder, images)
        return folder

    def cut(self) -> None:
        """The power fails now: what is left is settled, and from now on nothing is read, written or synced."""
        with self._lock:
            power = self.power
            if power is None or power.off:
                return
            power.off = True
            self.platters = self._left_by_a_cut(power)
            self.cuts += 1
            self.operations_until_cut = self.syncs_until_failure = None

    def _left_by_a_cut(self, power: PowerOn) -> dict[str, bytes]:
        remains = self.chance.choice(self.remains)
        return {
            image.name: image.left_by_a_cut(remains, self.chance)
            for image in (*power.removed, *power.images.values())
            if (image.named and not image.removed) or self.chance.random() < 0.5
        }

    def abandon(self) -> None:
        """Closing an open file after a power cut has no effect."""
        assert self.power is not None, "it was on"
        assert self.power.off, "it was cut"
        self.power.abandoned = True
        self.power = None

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Connections that are opened meanwhile are on this disk."""
        previous = apsw.vfs_names()[0]
        apsw.set_default_vfs(self.name)
        try:
            yield
        finally:
            apsw.set_default_vfs(previous)

    # What SQLite asks of it --------------------------------------------------------------------------------------

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - apsw's name
        """Open a file; one that is none of ours is an ordinary one."""
        path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name or "")
        with self._lock:
            power = self.power
            if power is None or path.parent != power.folder:
                return apsw.VFSFile(self.base, name, flags)
            self._refuse_when_off(power)
            opened = DiskFile(self, power, name, flags)
            opened.image = power.images.setdefault(path.name, Image(path.name, named=False))
            return opened

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: FBT001, N802 - apsw's name
        """Delete a file: for good where the folder is synced, otherwise it may come back."""
        path = Path(filename)
        with self._lock:
            if self.power is not None and path.parent == self.power.folder:
                self._refuse_when_off(self.power)
                image = self.power.images.pop(path.name, None)
                if image is not None and not syncdir:
                    image.removed = True
                    self.power.removed.append(image)
        super().xDelete(filename, syncdir)

    # Faults -------------------------------------------------------------------------------------------------------

    @contextmanager
    def writing(self, file: DiskFile, write: Write) -> Iterator[None]:
        """Around a write to the real file: refused where there is no power or no room, else on account."""
        with self._lock:
            self._refuse_when_off(file.power)
            if write.data is not None and self.chance.random() < self.full_share:
                raise _failure(apsw.FullError, apsw.SQLITE_FULL, "the disk has no room")
            yield
            if not file.power.abandoned:
                file.image.written.append(write)
                self._one_operation(file.power)

    def sync(self, file: DiskFile) -> None:
        """Put on the disk what was written, unless its power or the disk itself fails."""
        time.sleep(self.chance.uniform(*self.sync_seconds))
        with self._lock:
            if file.power.abandoned:
                return
            self._refuse_when_off(file.power)
            self._one_operation(file.power)
            if self.syncs_until_failure is not None:
                self.syncs_until_failure -= 1
                if self.syncs_until_failure <= 0:
                    self._lose(file)
                    raise _failure(apsw.IOError, apsw.SQLITE_IOERR_FSYNC, "the disk lost what it was given")
            file.image.synced()

    def _lose(self, file: DiskFile) -> None:
        """A sync fails: what is on the disk is chance, and the system shows what was written and takes it for synced.

        The process must end: until the next start nothing is read, written or synced.
        """
        images, folder = file.power.images, file.power.folder
        self._in_memory = images, {name: (folder / name).read_bytes() for name in images}
        file.image.content[:] = file.image.left_by_a_cut(self.chance.choice(self.remains), self.chance)
        file.image.written.clear()
        file.power.off = True
        self.syncs_until_failure = self.operations_until_cut = None

    def _one_operation(self, power: PowerOn) -> None:
        if self.operations_until_cut is not None:
            self.operations_until_cut -= 1
            if self.operations_until_cut <= 0:
                self.cut()
                self._refuse_when_off(power)

    def _refuse_when_off(self, power: PowerOn) -> None:
        if power.off and not power.abandoned:
            raise _failure(apsw.IOError, apsw.SQLITE_IOERR, "the power is off")


class DiskFile(apsw.VFSFile):
    """An open file on the disk: it reads and writes a real file, and the disk keeps the account."""

    image: Image

    def __init__(self, disk: Disk, power: PowerOn, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__(disk.base, name, flags)
        self.disk = disk
        self.power = power

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - apsw's name
        """Write."""
        with self.disk.writing(self, Write(offset, bytes(data))):
            super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - apsw's name
        """Cut the file off."""
        with self.disk.writing(self, Write(newsize, None)):
            super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802 - apsw's name
        """Sync. The real file is not: nothing depends on the real disk."""
        del flags
        self.disk.sync(self)


def _failure(kind: type[apsw.Error], code: int, message: str) -> apsw.Error:
    failure: Any = kind(message)
    # apsw passes these to SQLite.
    failure.result, failure.extendedresult = code & 0xFF, code
    return cast("apsw.Error", failure)
