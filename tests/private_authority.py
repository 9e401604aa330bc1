"""A private certificate authority, as an operator has one between a service and a switch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY_SECONDS = 86_400


class Authority:
    """An authority, whose certificates are files in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.file = self._write(name, name, self._key, 1, is_authority=True)

    def certificate(self, name: str, days: int = 1) -> Path:
        """Return a file with a key and its new certificate for 127.0.0.1, which is valid for so many days from now."""
        return self._write(f"{self._name}-{name}", name, ec.generate_private_key(ec.SECP256R1()), days)

    def _write(
        self, file_name: str, name: str, key: ec.EllipticCurvePrivateKey, days: int, *, is_authority: bool = False
    ) -> Path:
        now = datetime.now(UTC)
        subject, issuer = (
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]) for common_name in (name, self._name)
        )
        certificate = (
            x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(days=9))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        file = self._folder / f"{file_name}.pem"
        file.touch(0o600)
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        return file
