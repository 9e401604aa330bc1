"""A certificate for the host of the examples."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import shared_objects
from proxies.configured import HOST
from upgrade import kept

DAY = dt.timedelta(days=1)


@pytest.fixture
def people_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens are derived from the key of the nodes."""
    monkeypatch.setitem(shared_objects.KEYS._keys, 1, kept.KEY)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The files of a certificate that signs itself, and of its key."""
    folder = tmp_path_factory.mktemp("certificate")
    key, subject = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = dt.datetime.now(dt.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName(name) for name in (HOST, "console.example.com", "localhost")])
    builder = x509.CertificateBuilder(
        subject, subject, key.public_key(), x509.random_serial_number(), now - DAY, now + DAY
    )
    made = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files
