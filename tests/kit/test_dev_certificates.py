"""The certificates of `paydesk dev --tls`: the hosts that they are valid for, their files, and their replacement."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from conftest import skip_unless_ci
from paydesk.platform.process.node import StartRefused
from paydesk_dev.tls import certificates
from paydesk_dev.tls.certificates import (
    CERTIFICATE_FILE,
    KEY_FILE,
    VENDOR_HOSTS,
    Authority,
    find_or_create,
    user_folder,
)
from tables import each

DAY = dt.timedelta(days=1)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """A new authority."""
    return find_or_create(tmp_path / "user")


def verdict(authority: Authority, context: ssl.SSLContext, name: str) -> str:
    """Return why a client that trusts the authority refuses the certificate for `name`; empty if it accepts it."""
    client_in, server_in = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context(cafile=str(authority.file)).wrap_bio(client_in, server_in, server_hostname=name)
    server = context.wrap_bio(server_in, client_in, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as error:
                return error.verify_message
    assert client.version() == "TLSv1.3"
    return ""


@each("name", ["localhost", "127.0.0.1", "::1", *VENDOR_HOSTS])
def test_the_certificate_is_valid_for_each_name(authority: Authority, tmp_path: Path, name: str) -> None:
    """This machine's names and addresses, and the vendor's hosts."""
    assert verdict(authority, authority.server_context(tmp_path), name) == ""


@each("name", ["example.com", "mercadopago.com", "www.mercadopago.com", "192.168.1.1", "127.0.0.2"])
def test_the_certificate_is_not_valid_for_other_names(authority: Authority, tmp_path: Path, name: str) -> None:
    """The client sees another name than it asked for."""
    assert "mismatch" in verdict(authority, authority.server_context(tmp_path), name)


@pytest.mark.parametrize(
    "name",
    ["example.com", "notlocalhost", "evil-api.mercadopago.com", "mercadopago.com", "127.0.0.2", "10.0.0.1", "::2"],
)
def test_the_authority_cannot_sign_for_other_hosts(authority: Authority, tmp_path: Path, name: str) -> None:
    """Its name constraints make clients refuse such a certificate, also if its key was stolen."""
    context = _context(tmp_path, *_signed(authority, name))
    assert verdict(authority, context, name) == "permitted subtree violation"


def test_the_authority_cannot_sign_another_authority(authority: Authority, tmp_path: Path) -> None:
    """Its path length is 0."""
    key, certificate = _signed(authority, "localhost", is_authority=True)
    below = Authority(authority.file, certificate, key)
    leaf_key, leaf = _signed(below, "localhost")
    assert verdict(authority, _context(tmp_path, leaf_key, leaf, certificate), "localhost") != ""


def test_openssl_accepts_the_authority_and_its_certificate(authority: Authority, tmp_path: Path) -> None:
    """With its strict checks of the fields."""
    if shutil.which("openssl") is None:
        skip_unless_ci("openssl is missing")
    authority.server_context(tmp_path)
    leaf = tmp_path / certificates.SERVER_FILE
    verifying = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", str(authority.file)]
    for options in (["-verify_hostname", "localhost"], ["-verify_ip", "127.0.0.1"], ["-verify_ip", "::1"]):
        verified = subprocess.run([*verifying, *options, leaf], capture_output=True, text=True, check=False)
        assert (verified.returncode, verified.stdout) == (0, f"{leaf}: OK\n"), verified.stderr


@pytest.mark.parametrize("purpose", ["smimesign", "sslclient"])
def test_the_authority_signs_for_servers_only(authority: Authority, tmp_path: Path, purpose: str) -> None:
    """A certificate for e-mail addresses or clients is refused, also if its key was stolen."""
    if shutil.which("openssl") is None:
        skip_unless_ci("openssl is missing")
    leaf = tmp_path / "leaf.pem"
    leaf.write_bytes(_signed(authority, "localhost")[1].public_bytes(serialization.Encoding.PEM))
    verifying = ["openssl", "verify", "-CAfile", str(authority.file), "-purpose"]
    verdicts = [
        subprocess.run([*verifying, one, leaf], capture_output=True, text=True, check=False)
        for one in ("sslserver", purpose)
    ]
    assert [one.returncode == 0 for one in verdicts] == [True, False], [one.stderr for one in verdicts]
    assert "suitable" in verdicts[1].stderr or "unsupported certificate purpose" in verdicts[1].stderr


def test_a_key_that_others_can_read_is_replaced(authority: Authority) -> None:
    """They may have a copy of it."""
    folder = authority.file.parent
    (folder / KEY_FILE).chmod(0o640)
    again = find_or_create(folder)
    assert again.certificate != authority.certificate
    assert (folder / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert find_or_create(folder).certificate == again.certificate


def test_a_folder_that_others_can_write_becomes_private(tmp_path: Path) -> None:
    """Otherwise another user could put an authority there whose key he has."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    find_or_create(folder)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That user could replace the authority at any time. Root may use each user's own."""
    other_id = tmp_path.stat().st_uid + 1
    monkeypatch.setattr(os, "geteuid", lambda: other_id)
    with pytest.raises(StartRefused, match="belongs to another user"):
        find_or_create(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_keys_are_private(authority: Authority, tmp_path: Path) -> None:
    """Only the user reads them, whatever the umask; the certificate has no key."""
    authority.server_context(tmp_path)
    key = authority.file.with_name(KEY_FILE)
    for file in (key, tmp_path / certificates.SERVER_FILE):
        assert file.stat().st_mode & 0o777 == 0o600
        assert b"PRIVATE KEY" in file.read_bytes()
    assert authority.file.parent.stat().st_mode & 0o777 == 0o700
    assert b"PRIVATE" not in authority.file.read_bytes()


def test_the_authority_is_kept_and_the_certificate_is_new(authority: Authority, tmp_path: Path) -> None:
    """A client that trusts the authority trusts each start of each service."""
    again = find_or_create(authority.file.parent)
    assert again.certificate == authority.certificate
    contexts = [one.server_context(tmp_path / name) for one, name in ((authority, _new(tmp_path)), (again, "."))]
    assert [verdict(authority, context, "localhost") for context in contexts] == ["", ""]
    serials = {_serial(tmp_path / name / certificates.SERVER_FILE) for name in ("first", ".")}
    assert len(serials) == 2


def _new(folder: Path) -> str:
    (folder / "first").mkdir()
    return "first"


def _serial(file: Path) -> int:
    return x509.load_pem_x509_certificate(file.read_bytes()).serial_number


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / KEY_FILE).unlink(),
        lambda folder: (folder / CERTIFICATE_FILE).unlink(),
        lambda folder: (folder / KEY_FILE).write_bytes(b""),
        lambda folder: (folder / CERTIFICATE_FILE).write_bytes(b"-----BEGIN CERTIFICATE-----\nAAAA\n"),
        lambda folder: (folder / KEY_FILE).write_bytes(_pem(ec.generate_private_key(ec.SECP256R1()))),
    ],
    ids=["no key", "no certificate", "empty key", "broken certificate", "another key"],
)
def test_an_incomplete_authority_is_replaced(authority: Authority, damage: object) -> None:
    """By one that works."""
    folder = authority.file.parent
    assert callable(damage)
    damage(folder)
    again = find_or_create(folder)
    assert again.certificate != authority.certificate
    assert verdict(again, again.server_context(folder), "localhost") == ""
    assert find_or_create(folder).certificate == again.certificate


@pytest.mark.parametrize(
    ("days", "is_kept"), [(certificates.SERVER_DAYS + 2, True), (certificates.SERVER_DAYS - 1, False)]
)
def test_an_authority_that_expires_before_a_new_certificate_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int, *, is_kept: bool
) -> None:
    """So each certificate stays valid until its own end."""
    monkeypatch.setattr(certificates, "AUTHORITY_DAYS", days)
    first = find_or_create(tmp_path)
    monkeypatch.undo()
    assert (find_or_create(tmp_path).certificate == first.certificate) is is_kept


def test_an_authority_for_other_hosts_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version of Paydesk with more hosts could not sign for them with it."""
    monkeypatch.setattr(certificates, "VENDOR_HOSTS", VENDOR_HOSTS[:-1])
    first = find_or_create(tmp_path)
    monkeypatch.undo()
    assert find_or_create(tmp_path).certificate != first.certificate


FOUR_AT_ONCE = """
import os, sys
from pathlib import Path
from paydesk_dev.tls.certificates import find_or_create

for _ in range(4):
    if not os.fork():
        os.write(1, b"%d\\n" % find_or_create(Path(sys.argv[1])).certificate.serial_number)
        os._exit(0)
for _ in range(4):
    os.wait()
"""
"""Four processes, none of which is far ahead of the others. Each writes a whole line at once: they share the output."""


def test_services_that_start_together_make_one_authority(tmp_path: Path) -> None:
    """Each process gets the same one."""
    command = [sys.executable, "-c", FOUR_AT_ONCE, str(tmp_path / "user")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert printed == [str(find_or_create(tmp_path / "user").certificate.serial_number)] * 4


def test_a_folder_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    """The message names the folder and the way out."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StartRefused, match="XDG_DATA_HOME") as refused:
        find_or_create(tmp_path / "file" / "paydesk")
    assert str(tmp_path / "file") in str(refused.value)


def test_a_data_folder_that_cannot_be_written_is_refused(authority: Authority, tmp_path: Path) -> None:
    """The message names the option."""
    with pytest.raises(StartRefused, match="--data"):
        authority.server_context(tmp_path / "missing")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({"XDG_DATA_HOME": "/var/tmp/data"}, "/var/tmp/data/paydesk"), ({"XDG_DATA_HOME": ""}, None), ({}, None)],  # noqa: S108
)
def test_the_authority_is_in_the_data_folder_of_the_user(environment: dict[str, str], expected: str | None) -> None:
    """That of XDG_DATA_HOME, or else the usual one of the system."""
    home = Path.home()
    usual = home / ("Library/Application Support" if sys.platform == "darwin" else ".local/share") / "paydesk"
    assert user_folder(environment) == (Path(expected) if expected else usual)


def _signed(
    authority: Authority, name: str, *, is_authority: bool = False
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """Return a key and a certificate for `name` that the authority signed, as a thief of its key could."""
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    try:
        subject: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        subject = x509.DNSName(name)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "thief")]))
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + DAY)
        .add_extension(x509.SubjectAlternativeName([subject]), critical=False)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .sign(authority.key, hashes.SHA256())
    )
    return key, certificate


def _context(folder: Path, key: ec.EllipticCurvePrivateKey, *chain: x509.Certificate) -> ssl.SSLContext:
    file = folder / "other.pem"
    file.write_bytes(_pem(key) + b"".join(one.public_bytes(serialization.Encoding.PEM) for one in chain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
