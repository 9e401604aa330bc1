"""A file that is replaced whole or not at all, and for good: of mode 0600, synced, and its folder too."""

from __future__ import annotations

import os
from pathlib import Path


def replace(path: Path, content: bytes) -> None:
    """Put the content there; whoever reads the file finds the old one or the new one, also after a power cut."""
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        _keep_owner(path, descriptor)
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _keep_owner(path: Path, descriptor: int) -> None:
    """Where root changes the file it stays the service's, which could not read it otherwise."""
    if os.geteuid() == 0 and path.exists():
        there = path.stat()
        os.fchown(descriptor, there.st_uid, there.st_gid)
