"""The certificates of `paydesk dev --tls`: an authority, created once for this user, and one for the service.

The authority's private key never leaves this machine. Its name constraints limit the damage if it is stolen: it cannot
sign for any host but this machine and those of the vendor that `--tls` answers for, and for nothing but servers.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import ipaddress
import os
import ssl
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from paydesk.core import atomic_file
from paydesk.platform.process.node import StartRefused

LOCAL_NAMES = ("localhost",)
LOCAL_ADDRESSES = (ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1"))
VENDOR_HOSTS = (
    "api.mercadopago.com",
    "auth.mercadopago.com",
    *(f"auth.mercadopago.com.{country}" for country in ("ar", "br", "cl", "co", "mx", "pe", "uy")),
    "auth.mercadopago.cl",
)
"""The hosts that official clients call; `paydesk dev --tls` answers for them."""

AUTHORITY_DAYS = 5 * 365
SERVER_DAYS = 90
"""A new certificate is made at every start, so a service may run this long."""
RENEWED_BEFORE = dt.timedelta(days=SERVER_DAYS)
"""An authority that expires earlier than a certificate that it signs is replaced."""
CERTIFICATE_FILE, KEY_FILE, LOCK_FILE = "paydesk-dev-ca.pem", "paydesk-dev-ca.key", "paydesk-dev-ca.lock"
SERVER_FILE = "server.pem"
ROOT_ID = 0
_OTHERS = 0o077
_COMMON_NAME = "Paydesk development CA"


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority: its certificate, which clients must trust, and its key."""

    file: Path
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def server_context(self, folder: Path) -> ssl.SSLContext:
        """Return the TLS context of a service, with a new certificate for this machine and the vendor's hosts.

        The certificate and its key are written to `folder`, readable only by this user, because OpenSSL loads files.
        Raises `StartRefused` if they cannot be written.
        """
        file = folder / SERVER_FILE
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(key)
        try:
            atomic_file.replace(file, _pem(key) + certificate.public_bytes(serialization.Encoding.PEM))
        except OSError as error:
            raise StartRefused(f"{file} cannot be written: {error.strerror}. Choose a folder with --data.") from None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        context.load_cert_chain(file)
        return context

    def _sign(self, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
        names = [x509.DNSName(name) for name in (*LOCAL_NAMES, *VENDOR_HOSTS)]
        addresses = [x509.IPAddress(address) for address in LOCAL_ADDRESSES]
        issuer = self.key.public_key()
        return (
            _certificate("localhost", self.certificate.subject, key, SERVER_DAYS)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([*names, *addresses]), critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer), critical=False)
            .sign(self.key, hashes.SHA256())
        )


def find_or_create(folder: Path) -> Authority:
    """Return the authority in `folder`, created if there is none, if it is incomplete, or if it expires soon.

    One whose key other users can read is replaced too. Raises `StartRefused` if it cannot be read or written, or if the
    folder belongs to another user.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # No other user may put an authority there, whose key he would have.
        status, own_id = folder.stat(), os.geteuid()
        if own_id not in (status.st_uid, ROOT_ID):
            raise StartRefused(f"{folder} belongs to another user. Set XDG_DATA_HOME to a folder of your own.")
        if status.st_mode & _OTHERS and status.st_uid == own_id:
            folder.chmod(0o700)
        # Services that start at the same time must not mix the files of two authorities.
        with (folder / LOCK_FILE).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return _read(folder) or _create(folder)
    except OSError as error:
        raise StartRefused(
            f"The certificate authority in {folder} cannot be used: {error.strerror}. Make the folder readable and"
            " writable for this user, or set XDG_DATA_HOME to another one."
        ) from None


def user_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the authority in this user's data folder."""
    usual = "Library/Application Support" if sys.platform == "darwin" else ".local/share"
    return Path(environment.get("XDG_DATA_HOME") or Path.home() / usual) / "paydesk"


def _read(folder: Path) -> Authority | None:
    file, key_file = folder / CERTIFICATE_FILE, folder / KEY_FILE
    try:
        if key_file.stat().st_mode & _OTHERS:
            return None
        certificate = x509.load_pem_x509_certificate(file.read_bytes())
        key = serialization.load_pem_private_key(key_file.read_bytes(), None)
    except (FileNotFoundError, ValueError):
        return None
    expires = certificate.not_valid_after_utc - dt.datetime.now(dt.UTC)
    is_pair = isinstance(key, ec.EllipticCurvePrivateKey) and key.public_key() == certificate.public_key()
    if not is_pair or expires < RENEWED_BEFORE or _constraints(certificate) != _name_constraints():
        return None
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return Authority(file.absolute(), certificate, key)


def _create(folder: Path) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _COMMON_NAME)])
    certificate = (
        _certificate(_COMMON_NAME, name, key, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_name_constraints(), critical=True)
        # The constraints are for hosts only; without this it could sign for e-mail addresses and programs.
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / CERTIFICATE_FILE
    atomic_file.replace(folder / KEY_FILE, _pem(key))
    atomic_file.replace(file, certificate.public_bytes(serialization.Encoding.PEM))
    return Authority(file.absolute(), certificate, key)


def _certificate(
    common_name: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # The clock of a container may be behind.
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=days))
    )


def _name_constraints() -> x509.NameConstraints:
    names = [x509.DNSName(name) for name in (*LOCAL_NAMES, *VENDOR_HOSTS)]
    networks = [x509.IPAddress(ipaddress.ip_network(address)) for address in LOCAL_ADDRESSES]
    return x509.NameConstraints(permitted_subtrees=[*names, *networks], excluded_subtrees=None)


def _constraints(certificate: x509.Certificate) -> x509.NameConstraints | None:
    try:
        return certificate.extensions.get_extension_for_class(x509.NameConstraints).value
    except x509.ExtensionNotFound:
        return None


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
