"""A file with the certificates of public authorities and that of `paydesk dev --tls`.

`SSL_CERT_FILE` and its like replace what a program trusts. With this file it can still call other hosts.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterable
from pathlib import Path

from paydesk.core import atomic_file
from paydesk.platform.process.node import StartRefused

FILE = "ca-bundle.pem"
PUBLIC_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Arch, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",  # openSUSE
    "/etc/ssl/cert.pem",  # macOS, Alpine
)


def write(folder: Path, ca_file: Path) -> Path:
    """Write the bundle to `folder`, and return its absolute path. Raises `StartRefused`."""
    file = (folder / FILE).absolute()
    # The environment's SSL_CERT_FILE is not read: it may name this file.
    public = _read_first(map(Path, (ssl.get_default_verify_paths().openssl_cafile, *PUBLIC_FILES)))
    try:
        atomic_file.replace(file, ca_file.read_bytes() + public)
    except OSError as error:
        raise StartRefused(f"{file} cannot be written: {error.strerror}. Choose a folder with --data.") from None
    return file


def _read_first(files: Iterable[Path]) -> bytes:
    """Return the content of the first file that can be read, nothing if there is none."""
    for file in files:
        with contextlib.suppress(OSError):
            return file.read_bytes()
    return b""
