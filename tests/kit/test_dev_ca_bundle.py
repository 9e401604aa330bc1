"""The file with the certificates of public authorities and that of `paydesk dev --tls`."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from paydesk.platform.process.node import StartRefused
from paydesk_dev.tls import ca_bundle
from paydesk_dev.tls.certificates import find_or_create


def test_the_bundle_stays_the_same_at_each_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a shell whose variable names the bundle itself."""
    ca_file = find_or_create(tmp_path / "user").file
    first = ca_bundle.write(tmp_path, ca_file)
    content = first.read_bytes()
    monkeypatch.setenv("SSL_CERT_FILE", str(first))
    assert ca_bundle.write(tmp_path, ca_file).read_bytes() == content
    assert content.startswith(ca_file.read_bytes())


def test_without_public_certificates_the_bundle_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a minimal container."""
    monkeypatch.setattr(ca_bundle, "PUBLIC_FILES", ())
    paths = ssl.get_default_verify_paths()._replace(openssl_cafile=str(tmp_path / "missing"))
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: paths)
    file = ca_bundle.write(tmp_path, find_or_create(tmp_path / "user").file)
    assert ssl.create_default_context(cafile=str(file)).cert_store_stats()["x509_ca"] == 1


def test_the_first_readable_file_is_used(tmp_path: Path) -> None:
    """Files that are missing are left out."""
    (tmp_path / "second").write_bytes(b"second")
    (tmp_path / "third").write_bytes(b"third")
    assert ca_bundle._read_first(tmp_path / name for name in ("first", "second", "third")) == b"second"
    assert ca_bundle._read_first([tmp_path / "first"]) == b""


def test_a_folder_that_is_missing_is_refused(tmp_path: Path) -> None:
    """With the option to change."""
    ca_file = find_or_create(tmp_path / "user").file
    with pytest.raises(StartRefused, match=r"cannot be written: .* Choose a folder with --data\."):
        ca_bundle.write(tmp_path / "missing", ca_file)
