"""A node whose disk fails its n-th sync: `main([DATABASE_URL, PORT])` serves until then, n from `FAILING_SYNC`."""

from __future__ import annotations

import os
from typing import Any

import apsw

from node_process import main as serve


class FailingFile(apsw.VFSFile):
    """A file of a disk that loses, once, what it was given."""

    syncs_left = 0

    def xSync(self, flags: int) -> None:  # noqa: N802 - apsw's name
        """Sync, or fail to."""
        FailingFile.syncs_left -= 1
        if FailingFile.syncs_left == 0:
            failure: Any = apsw.IOError("the disk lost what it was given")
            failure.result, failure.extendedresult = apsw.SQLITE_IOERR, apsw.SQLITE_IOERR_FSYNC
            raise failure
        super().xSync(flags)


class FailingDisk(apsw.VFS):
    """The system's files, with syncs that are counted."""

    def __init__(self) -> None:
        self.base = apsw.vfs_names()[0]
        super().__init__("failing", self.base)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - apsw's name
        """Open a file on it."""
        return FailingFile(self.base, name, flags)


def main(arguments: list[str]) -> None:
    """Serve the database on the port, from a disk that fails."""
    disk = FailingDisk()
    apsw.set_default_vfs("failing")
    FailingFile.syncs_left = int(os.environ["FAILING_SYNC"])
    serve(arguments)
    del disk
