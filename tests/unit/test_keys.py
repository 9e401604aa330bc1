"""The file of server keys: permissions, invalid content, and that no key is lost or shown."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from paydesk.core import keys
from paydesk.core.keys import KeyMissing, Keys, KeysError
from tables import each


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with one key."""
    path = tmp_path / "etc" / "keys.json"
    assert keys.add(path, activate=False) == 1
    return path


def test_the_first_key_is_active_until_another_is_activated(file: Path) -> None:
    """A version is there on all nodes before anything is made with it."""
    assert keys.add(file, activate=False) == 2
    assert (keys.read(file).active, keys.read(file).versions) == (1, [1, 2])
    keys.activate(file, 2)
    assert keys.read(file).active == 2
    assert keys.add(file, activate=True) == 3
    assert keys.read(file).active == 3


def test_adding_and_activating_keys_changes_no_existing_key(file: Path) -> None:
    """Adding and activating changes nothing of the keys that are there."""
    before = keys.read(file).derive(1, "a", "part")
    keys.add(file, activate=True)
    assert keys.read(file).derive(1, "a", "part") == before
    assert keys.read(file).derive(2, "a", "part") != before


def test_a_key_file_readable_by_others_is_refused(file: Path) -> None:
    """A file readable by others is refused with what to do; a left-over draft with mode 0666 is replaced."""
    draft = file.with_name(f".{file.name}.new")
    draft.write_text("left behind")
    draft.chmod(0o666)
    keys.add(file, activate=False)
    assert file.stat().st_mode & 0o777 == 0o600
    assert not draft.exists()
    for mode in (0o640, 0o604, 0o660):
        file.chmod(mode)
        with pytest.raises(KeysError, match=f"chmod 600 {file}"):
            keys.read(file)
        with pytest.raises(KeysError, match="chmod 600"):
            keys.add(file, activate=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_file_keeps_its_owner_when_root_changes_it(file: Path) -> None:
    """The service that could read it can read it still."""
    os.chown(file, 12345, 12346)
    keys.activate(file, keys.add(file, activate=False))
    assert (file.stat().st_uid, file.stat().st_gid) == (12345, 12346)


@each(
    "document",
    [
        "",
        "[]",
        "{}",
        '{"active": 1}',
        '{"active": 2, "keys": {"1": "%s"}}' % ("ab" * 32),
        '{"active": "1", "keys": {"1": "%s"}}' % ("ab" * 32),
        '{"active": 1, "keys": {"1": ""}}',
        '{"active": 1, "keys": {"1": "%s"}}' % ("ab" * 31),
        '{"active": 1, "keys": {"1": "not hex"}}',
        '{"active": 0, "keys": {"0": "%s"}}' % ("ab" * 32),
    ],
)
def test_a_broken_file_is_refused_and_left_alone(file: Path, document: str) -> None:
    """A short key is invalid, and no command overwrites the file."""
    file.write_text(document)
    for use in (lambda: keys.read(file), lambda: keys.add(file, activate=True), lambda: keys.activate(file, 1)):
        with pytest.raises(KeysError, match=r"is not a key file that Paydesk wrote|bytes instead of 32"):
            use()
    assert file.read_text() == document


def test_keys_are_not_in_repr_or_fingerprint(file: Path) -> None:
    """Neither `repr` nor the fingerprint, which distinguishes keys, shows a key."""
    keys.add(file, activate=False)
    found, secrets = keys.read(file), json.loads(file.read_text())["keys"].values()
    shown = f"{found!r} {found.fingerprint(1)} {found.fingerprint(2)}"
    assert not any(secret in shown or secret[:8] in shown for secret in secrets)
    assert found.fingerprint(1) == keys.read(file).fingerprint(1) != found.fingerprint(2)
    with pytest.raises(KeyMissing, match="no server key of version 7"):
        found.fingerprint(7)


def test_a_missing_version_is_logged_once_a_minute() -> None:
    """Of each version for itself."""
    now = [100.0]
    held = Keys(1, {1: b"k" * 32}, lambda: now[0])
    assert [held.should_log_missing(2), held.should_log_missing(2), held.should_log_missing(3)] == [True, False, True]
    now[0] += 59.9
    assert not held.should_log_missing(2)
    now[0] += 0.1
    assert held.should_log_missing(2)


RANDOM = bytes.fromhex("6f1d0c2b9ae47f53d8811e60b7c3a9455e02f6d4133c8b7a90efd2517648ab0f")


@each(
    "weak",
    [
        bytes(32),
        b"\xaa" * 32,
        RANDOM[:8] * 4,
        RANDOM[:16] * 2,
        bytes(range(32)),
        bytes(range(255, 223, -1)),
        b"correct horse battery staple: 01",
    ],
    ids=["zeros", "one byte", "four times the same", "twice the same", "counting", "counting down", "text"],
)
def test_a_key_that_is_not_random_is_refused(file: Path, weak: bytes) -> None:
    """The version is named, and what to do; the key is not shown."""
    _write(file, RANDOM, weak)
    with pytest.raises(KeysError, match="version 2 is not random") as refused:
        keys.check(file, keys.read(file))
    assert "paydesk keys add" in str(refused.value)
    assert weak.hex() not in str(refused.value)


def test_the_same_key_under_two_versions_is_refused(file: Path) -> None:
    """Both versions are named."""
    _write(file, RANDOM, RANDOM[::-1], RANDOM)
    with pytest.raises(KeysError, match="versions 1 and 3 are the same"):
        keys.check(file, keys.read(file))


def test_a_key_that_is_too_short_is_refused(file: Path) -> None:
    """Its length is in the message."""
    _write(file, RANDOM, RANDOM[:16])
    with pytest.raises(KeysError, match="version 2 has 16 bytes instead of 32"):
        keys.read(file)


def test_keys_that_paydesk_wrote_are_accepted(file: Path) -> None:
    """Random keys are never taken for weak ones, however many there are."""
    for _ in range(300):
        keys.add(file, activate=False)
    keys.check(file, keys.read(file))


def _write(file: Path, *values: bytes) -> None:
    document = {"active": 1, "keys": {str(number): key.hex() for number, key in enumerate(values, 1)}}
    file.write_text(json.dumps(document))
