"""Replace a file atomically and durably: mode 0600, with an fsync of the file and of its folder."""

from __future__ import annotations

import os
from pathlib import Path


def replace(path: Path, content: bytes) -> None:
    """Replace the file's content; a reader sees the old or the new content, also after a power failure."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        if os.geteuid() == 0 and path.exists():
            # The service can still read a file that root replaces.
            there = path.stat()
            os.fchown(descriptor, there.st_uid, there.st_gid)
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
