"""Commands that need no running service: their output, their exit codes, and what they say when they can't."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import command
from paydesk import __version__

pytestmark = pytest.mark.sqlite_alone


@pytest.mark.parametrize(
    "arguments",
    [(), ("dev",), ("serve",), ("pay",), ("apps", "create"), ("terminals", "create"), ("keys", "add"), ("doctor",)],
    ids=" ".join,
)
def test_help_has_examples(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """Every command explains itself, with an example."""
    shown = command(*arguments, "--help", folder=tmp_path)
    assert shown.returncode == 0
    assert "Usage: paydesk" in shown.stdout
    assert not arguments or f"paydesk {' '.join(arguments)}" in shown.stdout.partition("Examples")[2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nonsense",), "No such command"),
        (("apps", "create"), "Missing option"),
        (("terminals", "create"), "say --virtual"),
        (("operators", "create", "--name", "ana", "--role", "boss"), "There is no role boss"),
        (("dev", "--port", "70000"), "--port"),
        (("serve", "--settings", "missing.toml"), "missing.toml: cannot be read"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    """Wrong usage is exit code 2 and says on standard error what is wrong."""
    ended = command(*arguments, folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"PAYDESK_LISTEM": "1"}, "did you mean listen?"),
        ({"PAYDESK_GRANT_SECONDS": "soon"}, "PAYDESK_GRANT_SECONDS"),
        ({"PAYDESK_DATABASE_URL": "mysql:x"}, "`sqlite:FILE`, or `postgresql://"),
        ({"PAYDESK_GRANT_SECONDS": "9" * 23}, "less than or equal to"),
        ({"PAYDESK_ORDER_EXPIRATION_DEFAULT": "P1Y"}, "must be a duration from PT30S to PT3H"),
        ({"PAYDESK_CLOCK_DIFFERENCE_SECONDS_MAX": "0"}, "PAYDESK_CLOCK_DIFFERENCE_SECONDS_MAX"),
        ({"PAYDESK_CLOCK_DIFFERENCE_SECONDS_MAX": "301"}, "less than or equal to 300"),
        ({"PAYDESK_TRUSTED_PROXIES": "10.0.0.0/8"}, "must be an IP address"),
    ],
)
def test_wrong_settings(variables: dict[str, str], said: str, tmp_path: Path) -> None:
    """A wrong setting is named, with what was expected."""
    for arguments in (("migrate",), ("dev",), ("serve",)):
        ended = command(*arguments, folder=tmp_path, **variables)
        assert ended.returncode == 2
        assert said in ended.stderr


def test_not_reachable(tmp_path: Path) -> None:
    """Without a service the exit code is 3, and it is said how to start one."""
    for arguments in (("apps", "list"), ("pay", "24.90"), ("clock", "freeze"), ("code",)):
        unknown = command(*arguments, folder=tmp_path)
        assert unknown.returncode == 3
        assert "paydesk dev" in unknown.stderr
    away = command("apps", "list", folder=tmp_path, PAYDESK_BASE_URL="http://127.0.0.1:9")
    assert away.returncode == 3
    assert "Nobody answers at http://127.0.0.1:9" in away.stderr


def test_a_token_stays_with_its_service(tmp_path: Path) -> None:
    """The token of a credentials file goes to no other service than the file names; one of the environment does."""
    (tmp_path / ".paydesk").mkdir()
    credentials = {"base_url": "http://127.0.0.1:9", "operator": {"token": "PDO-mine"}, "client_id": "7"}
    (tmp_path / ".paydesk" / "credentials.json").write_text(json.dumps(credentials))
    for elsewhere in ("http://127.0.0.1:10", "https://127.0.0.1:9", "http://localhost:9"):
        for arguments in (("apps", "list"), ("pay", "24.90"), ("operators", "create", "--name", "ana")):
            refused = command(*arguments, folder=tmp_path, PAYDESK_BASE_URL=elsewhere)
            assert refused.returncode == 2
            assert f"is for http://127.0.0.1:9: its token is not sent to {elsewhere}" in refused.stderr
        known = {"PAYDESK_BASE_URL": elsewhere, "PAYDESK_OPERATOR_TOKEN": "PDO-theirs"}
        assert command("apps", "list", folder=tmp_path, **known).returncode == 3
        # Its application is not one of that service either.
        unknown = command("authorize-url", "--redirect-uri", "https://a.example/", folder=tmp_path, **known)
        assert (unknown.returncode, "--client-id" in unknown.stderr) == (2, True)
    assert command("apps", "list", folder=tmp_path, PAYDESK_BASE_URL="HTTP://127.0.0.1:9/").returncode == 3


def test_no_address(tmp_path: Path) -> None:
    """What is no address of a service is wrong usage, whatever is wrong with it."""
    for address in ("service", "ftp://service", "http://", "http://service:port", "http://[::1"):
        ended = command("apps", "list", folder=tmp_path, PAYDESK_BASE_URL=address)
        assert (ended.returncode, "is not the address of a service" in ended.stderr) == (2, True), address


def test_what_is_not_utf_8(tmp_path: Path) -> None:
    """Bytes that are no text, as a person may type them, are wrong usage."""
    known = {"PAYDESK_BASE_URL": "http://127.0.0.1:9", "PAYDESK_OPERATOR_TOKEN": "x"}
    for arguments in (
        ("apps", "show", "\udce9"),
        ("orders", "list", "--terminal", "\udce9"),
        ("authorize-url", "--client-id", "7", "--redirect-uri", "https://a.example/\udce9"),
    ):
        ended = command(*arguments, folder=tmp_path, **known)
        assert (ended.returncode, ended.stdout) == (2, ""), arguments
        assert "not UTF-8" in ended.stderr


def test_broken_credentials(tmp_path: Path) -> None:
    """A credentials file that is none is wrong usage."""
    (tmp_path / "file.json").write_text("[]")
    assert command("apps", "list", "--credentials", "file.json", folder=tmp_path).returncode == 2
    assert command("apps", "list", "--credentials", "lost.json", folder=tmp_path).returncode == 3


def test_keys(tmp_path: Path) -> None:
    """Keys are added and activated in a file that its owner alone reads; the keys themselves are never shown."""
    missing = command("keys", "list", folder=tmp_path)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "paydesk keys add" in missing.stderr
    lost = command("keys", "activate", "1", folder=tmp_path)
    assert (lost.returncode, lost.stderr) == (1, missing.stderr)
    assert command("keys", "add", folder=tmp_path).returncode == 0
    second = command("keys", "add", folder=tmp_path)
    assert (second.returncode, "to every node" in second.stderr) == (0, True)
    assert command("keys", "activate", "9", folder=tmp_path).returncode == 1
    activated = command("keys", "activate", "2", folder=tmp_path)
    assert (activated.returncode, "restart or reload" in activated.stderr) == (0, True)
    listed = command("keys", "list", "--json", folder=tmp_path)
    rows = json.loads(listed.stdout)
    assert [(row["version"], row["active"]) for row in rows] == [(1, False), (2, True)]
    assert rows[0]["fingerprint"] != rows[1]["fingerprint"]
    file = tmp_path / "paydesk.keys.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert not any(key in listed.stdout + listed.stderr for key in json.loads(file.read_text())["keys"].values())


def test_migrate_and_doctor(database_url: str, tmp_path: Path) -> None:
    """A migrated database has nothing pending and nothing wrong."""
    variables = {"PAYDESK_DATABASE_URL": database_url}
    migrated = command("migrate", "--json", folder=tmp_path, **variables)
    assert json.loads(migrated.stdout) == {"applied": []}
    checked = command("doctor", "--invariants", "--json", folder=tmp_path, **variables)
    assert checked.returncode == 0, checked.stderr
    assert json.loads(checked.stdout) == {"findings": []}


def test_operator(database_url: str, tmp_path: Path) -> None:
    """A new operator's token is in the answer alone; the database has its digest."""
    made = command("operators", "create", "--name", "ana", "--json", folder=tmp_path, PAYDESK_DATABASE_URL=database_url)
    assert made.returncode == 0, made.stderr
    token = json.loads(made.stdout)["token"]
    assert token.startswith("PDO-")
    assert len(token) == 44
    for file in tmp_path.glob("paydesk.db*"):
        assert token.encode() not in file.read_bytes()


def test_no_tables(tmp_path: Path) -> None:
    """Before the tables are there, it is said what to run."""
    for arguments in (("operators", "create", "--name", "ana"), ("doctor", "--invariants")):
        ended = command(*arguments, folder=tmp_path)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert "paydesk migrate" in ended.stderr
        assert "Traceback" not in ended.stderr


def test_no_database(tmp_path: Path) -> None:
    """A database that isn't there, or can't be one, is named with the setting that says where it is."""
    missing = command("doctor", folder=tmp_path)
    assert missing.returncode == 1
    assert "paydesk.db does not exist; PAYDESK_DATABASE_URL" in missing.stderr
    folder = command("migrate", folder=tmp_path, PAYDESK_DATABASE_URL="sqlite:/")
    assert folder.returncode == 1
    assert "/ is a folder" in folder.stderr


def test_settings_that_are_no_text(tmp_path: Path) -> None:
    """A settings file that is no text is wrong usage, not a traceback."""
    (tmp_path / "paydesk.toml").write_bytes(b"\xff\xfe")
    ended = command("migrate", "--settings", "paydesk.toml", folder=tmp_path)
    assert ended.returncode == 2
    assert "is not TOML" in ended.stderr


def test_version(tmp_path: Path) -> None:
    """The version is printed, and nothing else is asked for."""
    shown = command("--version", folder=tmp_path)
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, f"paydesk {__version__}\n", "")


def test_scripts_are_named_in_full(tmp_path: Path) -> None:
    """The help's markup leaves no part of a script's name out."""
    assert "decline:<detail>" in command("terminals", "create", "--help", folder=tmp_path).stdout


def test_openapi(tmp_path: Path) -> None:
    """The document of the interface is printed, alone on standard output."""
    printed = command("openapi", folder=tmp_path)
    assert printed.returncode == 0, printed.stderr
    assert json.loads(printed.stdout)["openapi"].startswith("3.1")


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "public_url is not set"),
        ({"PAYDESK_PUBLIC_URL": "https://pay.example", "PAYDESK_ACQUIRER": "simulator"}, "play money"),
        ({"PAYDESK_PUBLIC_URL": "https://pay.example"}, "there are no server keys"),
        ({"PAYDESK_PUBLIC_URL": "https://pay.example", "PAYDESK_OPERATOR_LISTEN": "127.0.0.1:8377"}, "the same"),
    ],
)
def test_serve_refuses(variables: dict[str, str], said: str, tmp_path: Path) -> None:
    """`serve` does not start half set up or with what is for development, and says what to change."""
    ended = command("serve", folder=tmp_path, **variables)
    assert ended.returncode == 1
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


def test_serve_refuses_an_old_database(tmp_path: Path) -> None:
    """`serve` does not migrate by itself: it says what to run."""
    assert command("keys", "add", folder=tmp_path).returncode == 0
    ended = command("serve", folder=tmp_path, PAYDESK_PUBLIC_URL="https://pay.example")
    assert ended.returncode == 1
    assert "paydesk migrate" in ended.stderr
