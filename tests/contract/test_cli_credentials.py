"""Credentials files of other databases, of earlier versions, and broken ones: a sentence that says what to do."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import command
from paydesk_process import Dev
from tables import each

AWAY = "http://127.0.0.1:9"
SAMPLE: dict[str, Any] = {
    "base_url": AWAY,
    "client_id": "3676047501096810",
    "client_secret": "secret",
    "redirect_uri": f"{AWAY}/demo/callback",
    "seller": {"user_id": 1160535239, "email": "ana@shop.example", "password": "password"},
    "test": {"access_token": "APP_USR-test", "refresh_token": "TG-test"},
    "live": {"access_token": "APP_USR-live", "refresh_token": "TG-live"},
    "terminals": [{"id": "PAYDESK_VIRTUAL__1", "operating_mode": "PDV", "script": "approve", "page_url": AWAY}],
    "webhook": {"url": f"{AWAY}/demo/inbox", "secret": "whsec_c2VjcmV0", "inbox_url": f"{AWAY}/demo/inbox"},
    "operator": {"token": "PDO-token"},
}
COMMANDS = (
    ("apps", "list"),
    ("authorize-url",),
    ("clock", "advance", "--to-next"),
    ("code",),
    ("deliveries", "list"),
    ("env",),
    ("env", "--live"),
    ("faults", "list"),
    ("operators", "create", "--name", "ana", "--credentials", ".paydesk/credentials.json"),
    ("orders", "list"),
    ("pay", "24.90"),
    ("pay", "24.90", "--decline", "insufficient_amount"),
    ("reset", "--yes"),
    ("sellers", "list", "--json"),
    ("subscriptions", "create", "--url", "http://127.0.0.1:9/"),
    ("terminals", "queue", "x"),
    ("terminals", "simulate", "--count", "1"),
    ("wait", "webhook", "order.processed"),
    ("webhooks", "fault", "drop"),
    ("webhooks", "listen"),
    ("webhooks", "listen", "--forward-to", "http://127.0.0.1:9/"),
    ("webhooks", "trigger", "order.processed", "--to", "http://127.0.0.1:9/"),
    ("webhooks", "verify", "request.txt"),
)
WRONG: tuple[Any, ...] = (None, True, 0, -1.5, "", "\n", "\ud800", "é", [], [None], {}, {"id": 7}, [[]], "x" * 100_000)


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every value within a document."""
    if place:
        yield place
    for name, one in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(one, (*place, name))


def changed(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    """Return a copy with another value at the place."""
    copied = copy.deepcopy(document)
    within = copied
    for name in place[:-1]:
        within = within[name]
    within[place[-1]] = value
    return copied


def write(folder: Path, document: Any) -> None:
    """Write the credentials file of the folder."""
    (folder / ".paydesk").mkdir(exist_ok=True)
    (folder / ".paydesk" / "credentials.json").write_text(
        document if isinstance(document, str) else json.dumps(document)
    )


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_every_command_takes_any_file(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """A value of another type ends in a sentence and exit code 2, never in a traceback."""
    (tmp_path / "request.txt").write_text("POST /hook HTTP/1.1\r\nHost: a\r\n\r\n{}")
    for number, (place, wrong) in enumerate((place, wrong) for place in places(SAMPLE) for wrong in WRONG):
        # The commands share the combinations.
        if (number + COMMANDS.index(arguments)) % len(COMMANDS):
            continue
        write(tmp_path, changed(SAMPLE, place, wrong))
        ended = command(*arguments, folder=tmp_path)
        assert ended.returncode in (0, 1, 2, 3), (place, wrong)
        assert "Traceback" not in ended.stderr, (place, wrong)
        assert ended.returncode == 0 or ended.stderr.strip(), (place, wrong)


@each("text", ["", "{", "null", "7", '"x"', "[]", "[" * 100_000, '{"seller": {"user_id": ' + "9" * 5000 + "}}", "\0"])
def test_file_that_is_no_object_exits_2(text: str, tmp_path: Path) -> None:
    """The message names the file and what to do."""
    write(tmp_path, text)
    for arguments in (("apps", "list"), ("pay", "1"), ("env",), ("webhooks", "listen")):
        ended = command(*arguments, folder=tmp_path)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ".paydesk/credentials.json is not a credentials file" in ended.stderr
        assert "Name the right file: --credentials FILE" in ended.stderr


def test_unreadable_file_exits_2(tmp_path: Path) -> None:
    """As a folder, or bytes that are not UTF-8."""
    folder = tmp_path / ".paydesk"
    (folder / "credentials.json").mkdir(parents=True)
    ended = command("apps", "list", folder=tmp_path)
    assert (ended.returncode, "cannot be read" in ended.stderr) == (2, True)
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe{}")
    ended = command("apps", "list", "--credentials", "bytes.json", folder=tmp_path)
    assert (ended.returncode, "is not a credentials file" in ended.stderr) == (2, True)
    ended = command("apps", "list", "--credentials", "x" * 5000, folder=tmp_path)
    assert (ended.returncode, "cannot be read" in ended.stderr) == (2, True)


@each(
    "missing, arguments, message",
    [
        ("operator", ("apps", "list"), "has no operator's token"),
        ("test", ("pay", "24.90"), "have no test token"),
        ("live", ("webhooks", "listen", "--live"), "have no live token"),
        ("test", ("env",), "has no `test.access_token`"),
        ("terminals", ("pay", "24.90"), "name no terminal"),
        ("seller", ("code",), "name no application and seller"),
        ("client_id", ("authorize-url",), "name no application"),
        ("redirect_uri", ("authorize-url",), "redirect URI is missing"),
    ],
)
def test_missing_member_exits_2(missing: str, arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    """As in a file of an earlier version; null is missing too."""
    for document in ({name: SAMPLE[name] for name in SAMPLE if name != missing}, {**SAMPLE, missing: None}):
        write(tmp_path, document)
        ended = command(*arguments, folder=tmp_path)
        assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
        assert message in ended.stderr


def test_message_has_no_value_of_the_file(tmp_path: Path) -> None:
    """It may be a secret at a wrong place."""
    write(tmp_path, {**SAMPLE, "operator": {"token": ["PDO-misplaced"]}})
    ended = command("apps", "list", folder=tmp_path)
    assert "`operator.token` must be a text" in ended.stderr
    assert "misplaced" not in ended.stderr


@pytest.mark.parametrize("token", ["a b", "é", "a\nX-Other: b", "\N{SNOWMAN}"])
def test_token_that_no_header_can_carry_exits_2(token: str, tmp_path: Path) -> None:
    """From the environment as well."""
    ended = command("apps", "list", folder=tmp_path, PAYDESK_BASE_URL=AWAY, PAYDESK_OPERATOR_TOKEN=token)
    assert (ended.returncode, "has characters that no token has" in ended.stderr) == (2, True)


def test_file_of_another_database_says_what_to_do(tmp_path: Path) -> None:
    """After the database was removed the tokens are invalid; a restart renews the file."""
    service = Dev(tmp_path, "--port", "0")
    try:
        base_url = service.wait_until_ready()
        file = tmp_path / ".paydesk" / "credentials.json"
        good = json.loads(file.read_text())
        seller = good["seller"]["user_id"]
        stale = {
            **good,
            "operator": {"token": f"PDO-{'0' * 40}"},
            "test": {**good["test"], "access_token": f"APP_USR-1-010100-{'0' * 32}-{seller}"},
        }
        file.write_text(json.dumps(stale))
        for arguments in (("apps", "list"), ("pay", "24.90"), ("clock", "show")):
            ended = command(*arguments, folder=tmp_path)
            assert (ended.returncode, ended.stdout) == (1, "")
            assert f"The tokens in .paydesk/credentials.json are not valid at {base_url}" in ended.stderr
            assert "`paydesk dev` renews its own when it starts again" in ended.stderr
        # A token of the environment is not in the file.
        ended = command("apps", "list", folder=tmp_path, PAYDESK_OPERATOR_TOKEN=f"PDO-{'1' * 40}")
        assert (ended.returncode, "PAYDESK_OPERATOR_TOKEN" in ended.stderr) == (1, True)
        assert "The tokens in" not in ended.stderr
        found = command("doctor", folder=tmp_path)
        assert (found.returncode, found.stdout) == (0, "No problems found.\n")
    finally:
        service.end()
    service = Dev(tmp_path, "--port", "0")
    try:
        service.wait_until_ready()
        assert command("apps", "list", folder=tmp_path).returncode == 0
        nothing = command("clock", "advance", "--to-next", folder=tmp_path)
        assert (nothing.returncode, nothing.stdout) == (1, "")
        assert "Nothing is due" in nothing.stderr
    finally:
        service.end()
