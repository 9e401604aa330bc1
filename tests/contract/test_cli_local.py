"""Commands without a running service: their output, exit codes and error messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import command
from paydesk.commands.cli import tree
from paydesk.commands.local.local import described_database
from paydesk.core.version import version
from paydesk.platform.settings import Settings
from tables import each

WITHOUT_JSON = {"dev", "serve", "openapi"}


def commands(group: Any, line: str = "") -> Iterator[str]:
    """Yield all commands of `paydesk`, but those that only name their successor."""
    for name, one in group.commands.items():
        if not one.hidden:
            yield from commands(one, f"{line}{name} ") if hasattr(one, "commands") else (f"{line}{name}",)


@each("line", commands(tree()))
def test_help_of_every_command_has_examples(line: str, tmp_path: Path) -> None:
    """And the option --json, and --credentials where a token of a seller is used."""
    printed = command(*line.split(), "--help", folder=tmp_path)
    assert printed.returncode == 0
    assert "Usage: paydesk" in printed.stdout
    assert f"paydesk {line}" in printed.stdout.partition("Examples")[2]
    assert ("--json" in printed.stdout) == (line not in WITHOUT_JSON)
    assert "--credentials" in printed.stdout or not re.fullmatch("orders (create|watch|cancel|refund|simulate)", line)


def test_help_names_the_program(tmp_path: Path) -> None:
    """Without a command."""
    printed = command("--help", folder=tmp_path)
    assert (printed.returncode, "Usage: paydesk" in printed.stdout) == (0, True)


@each(
    "arguments, message",
    [
        (("nonsense",), "No such command"),
        (("apps", "create"), "Missing option"),
        (("terminals", "create"), "Add --virtual"),
        (("operators", "create", "--name", "ana", "--role", "boss"), "There is no role boss"),
        (("dev", "--port", "70000"), "--port"),
        (("serve", "--settings", "missing.toml"), "missing.toml cannot be read"),
    ],
)
def test_wrong_usage_exits_2(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    """The reason is on standard error."""
    ended = command(*arguments, folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr


@each(
    "variables, message",
    [
        ({"PAYDESK_LISTEM": "1"}, "did you mean listen?"),
        ({"PAYDESK_GRANT_SECONDS": "soon"}, "PAYDESK_GRANT_SECONDS"),
        ({"PAYDESK_DATABASE_URL": "mysql:x"}, "`sqlite:FILE`, or `postgresql://"),
        ({"PAYDESK_GRANT_SECONDS": "9" * 23}, "less than or equal to"),
        ({"PAYDESK_ORDER_EXPIRATION_DEFAULT": "P1Y"}, "must be a duration from PT30S to PT3H"),
        ({"PAYDESK_CLOCK_DIFFERENCE_SECONDS_MAX": "0"}, "PAYDESK_CLOCK_DIFFERENCE_SECONDS_MAX"),
        ({"PAYDESK_CLOCK_DIFFERENCE_SECONDS_MAX": "301"}, "less than or equal to 300"),
        ({"PAYDESK_TRUSTED_PROXIES": "10.0.0.1/8"}, "must be an IP address, or a network such as 10.0.0.0/8"),
        ({"PAYDESK_WEBHOOK_PRIVATE_NETWORKS": "10.20.0.1/16"}, "must be a network such as 10.20.0.0/16"),
    ],
)
def test_invalid_setting_exits_2(variables: dict[str, str], message: str, tmp_path: Path) -> None:
    """The message names the setting and the expected value."""
    for arguments in (("migrate",), ("dev",), ("serve",)):
        ended = command(*arguments, folder=tmp_path, **variables)
        assert ended.returncode == 2
        assert message in ended.stderr


def test_unreachable_service_exits_3(tmp_path: Path) -> None:
    """The message has the command that starts one."""
    for arguments in (("apps", "list"), ("pay", "24.90"), ("clock", "freeze"), ("code",)):
        unknown = command(*arguments, folder=tmp_path)
        assert unknown.returncode == 3
        assert "paydesk dev" in unknown.stderr
    away = command("apps", "list", folder=tmp_path, PAYDESK_BASE_URL="http://127.0.0.1:9")
    assert away.returncode == 3
    assert "Cannot connect to http://127.0.0.1:9" in away.stderr


def test_token_of_a_file_is_sent_only_to_its_service(tmp_path: Path) -> None:
    """A token of the environment is sent to any service."""
    (tmp_path / ".paydesk").mkdir()
    credentials = {"base_url": "http://127.0.0.1:9", "operator": {"token": "PDO-mine"}, "client_id": "7"}
    (tmp_path / ".paydesk" / "credentials.json").write_text(json.dumps(credentials))
    for other_url in ("http://127.0.0.1:10", "https://127.0.0.1:9", "http://localhost:9"):
        for arguments in (("apps", "list"), ("pay", "24.90"), ("operators", "create", "--name", "ana")):
            refused = command(*arguments, folder=tmp_path, PAYDESK_BASE_URL=other_url)
            assert refused.returncode == 2
            assert f"is for http://127.0.0.1:9: its token is not sent to {other_url}" in refused.stderr
        variables = {"PAYDESK_BASE_URL": other_url, "PAYDESK_OPERATOR_TOKEN": "PDO-theirs"}
        assert command("apps", "list", folder=tmp_path, **variables).returncode == 3
        # The client_id of the file is not used for another service either.
        unknown = command("authorize-url", "--redirect-uri", "https://a.example/", folder=tmp_path, **variables)
        assert (unknown.returncode, "--client-id" in unknown.stderr) == (2, True)
    assert command("apps", "list", folder=tmp_path, PAYDESK_BASE_URL="HTTP://127.0.0.1:9/").returncode == 3


def test_invalid_address_exits_2(tmp_path: Path) -> None:
    """Whatever part of the address is invalid."""
    for address in ("service", "ftp://service", "http://", "http://service:port", "http://[::1"):
        ended = command("apps", "list", folder=tmp_path, PAYDESK_BASE_URL=address)
        assert (ended.returncode, "is not the URL of a service" in ended.stderr) == (2, True), address


def test_argument_that_is_not_utf_8_exits_2(tmp_path: Path) -> None:
    """Such bytes are refused before a request is sent."""
    variables = {"PAYDESK_BASE_URL": "http://127.0.0.1:9", "PAYDESK_OPERATOR_TOKEN": "x"}
    for arguments in (
        ("apps", "show", "\udce9"),
        ("orders", "list", "--terminal", "\udce9"),
        ("authorize-url", "--client-id", "7", "--redirect-uri", "https://a.example/\udce9"),
    ):
        ended = command(*arguments, folder=tmp_path, **variables)
        assert (ended.returncode, ended.stdout) == (2, ""), arguments
        assert "not valid UTF-8" in ended.stderr or "CLIENT_ID is malformed" in ended.stderr


def test_invalid_credentials_file_exits_2(tmp_path: Path) -> None:
    """A missing file exits 3."""
    (tmp_path / "file.json").write_text("[]")
    assert command("apps", "list", "--credentials", "file.json", folder=tmp_path).returncode == 2
    assert command("apps", "list", "--credentials", "lost.json", folder=tmp_path).returncode == 3


def test_keys_are_added_and_activated(tmp_path: Path) -> None:
    """Only the owner can read the file, and the keys are never printed."""
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


def test_migrated_database_has_no_findings(database_url: str, tmp_path: Path) -> None:
    """There is no pending migration and no violation."""
    variables = {"PAYDESK_DATABASE_URL": database_url}
    migrated = command("migrate", "--json", folder=tmp_path, **variables)
    assert json.loads(migrated.stdout) == {"applied": [], "pending": [], "newer": []}
    checked = command("doctor", "--invariants", "--json", folder=tmp_path, **variables)
    assert checked.returncode == 0, checked.stderr
    assert json.loads(checked.stdout) == {"findings": []}


def test_operator_token_is_not_stored(database_url: str, tmp_path: Path) -> None:
    """The database has only its digest."""
    made = command("operators", "create", "--name", "ana", "--json", folder=tmp_path, PAYDESK_DATABASE_URL=database_url)
    assert made.returncode == 0, made.stderr
    token = json.loads(made.stdout)["token"]
    assert token.startswith("PDO-")
    assert len(token) == 44
    for file in tmp_path.glob("paydesk.db*"):
        assert token.encode() not in file.read_bytes()


@each(
    "url, described",
    [
        ("sqlite:/var/lib/paydesk.db", "the database /var/lib/paydesk.db"),
        ("postgresql://ana:s3cret@db:5433/shop?sslmode=require", "the database shop of PostgreSQL at db:5433"),
        ("postgresql://ana:s3cret@first,second/shop", "the database shop of PostgreSQL at first,second"),
        ("postgresql://ana:s3cret@/shop?host=/run/postgresql", "the database shop of PostgreSQL at /run/postgresql"),
    ],
)
def test_a_database_is_described_without_its_password(url: str, described: str) -> None:
    """A message says which one it is, and is no secret."""
    assert described_database(Settings(database_url=url)) == described


def test_missing_tables_exit_1(tmp_path: Path) -> None:
    """The message has the command to run."""
    (tmp_path / "paydesk.db").touch()
    for arguments in (("operators", "create", "--name", "ana"), ("doctor", "--invariants")):
        ended = command(*arguments, folder=tmp_path)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert "paydesk migrate" in ended.stderr
        assert "Traceback" not in ended.stderr


def test_missing_database_exits_1(tmp_path: Path) -> None:
    """The message names the setting of the database."""
    missing = command("doctor", folder=tmp_path)
    assert missing.returncode == 1
    assert ".paydesk/paydesk.db does not exist, nor does paydesk.db in this folder" in missing.stderr
    assert "set PAYDESK_DATABASE_URL" in missing.stderr
    folder = command("migrate", folder=tmp_path, PAYDESK_DATABASE_URL="sqlite:/")
    assert folder.returncode == 1
    assert "/ is a folder" in folder.stderr


def test_doctor_finds_the_database_of_dev(tmp_path: Path) -> None:
    """In .paydesk, in --data, or beside the file of PAYDESK_CREDENTIALS; settings take precedence."""
    data = tmp_path / ".paydesk"
    data.mkdir()
    url = f"sqlite:{data / 'paydesk.db'}"
    assert command("migrate", folder=tmp_path, PAYDESK_DATABASE_URL=url).returncode == 0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for folder, options, variables in (
        (tmp_path, (), {}),
        (elsewhere, ("--data", "../.paydesk"), {}),
        (elsewhere, (), {"PAYDESK_CREDENTIALS": str(data / "credentials.json")}),
    ):
        checked = command("doctor", *options, folder=folder, **variables)
        assert (checked.returncode, checked.stdout) == (0, "No problems found.\n"), checked.stderr
        assert "The database is " in checked.stderr
    both = command("doctor", "--data", ".paydesk", folder=tmp_path, PAYDESK_DATABASE_URL=url)
    assert (both.returncode, "Give either --data or" in both.stderr) == (2, True)
    lost = command("doctor", folder=tmp_path, PAYDESK_DATABASE_URL="sqlite:lost.db")
    assert (lost.returncode, "lost.db does not exist" in lost.stderr) == (1, True)
    none = command("doctor", "--data", "lost", folder=tmp_path)
    assert (none.returncode, "There is no database: lost/paydesk.db does not exist." in none.stderr) == (1, True)
    assert "Traceback" not in command("doctor", "--data", "x" * 5000, folder=tmp_path).stderr


def test_settings_file_that_is_not_text_exits_2(tmp_path: Path) -> None:
    """There is no traceback."""
    (tmp_path / "paydesk.toml").write_bytes(b"\xff\xfe")
    ended = command("migrate", "--settings", "paydesk.toml", folder=tmp_path)
    assert ended.returncode == 2
    assert "is not TOML" in ended.stderr


def test_version_is_printed(tmp_path: Path) -> None:
    """With its commit; nothing else is printed."""
    printed = command("--version", folder=tmp_path)
    assert (printed.returncode, printed.stdout, printed.stderr) == (0, f"paydesk {version()}\n", "")


def test_help_has_complete_script_names(tmp_path: Path) -> None:
    """The markup of the help keeps the placeholder of a script."""
    assert "decline:<detail>" in command("terminals", "create", "--help", folder=tmp_path).stdout


def test_openapi_document_is_printed(tmp_path: Path) -> None:
    """Standard output has only the document."""
    printed = command("openapi", folder=tmp_path)
    assert printed.returncode == 0, printed.stderr
    assert json.loads(printed.stdout)["openapi"].startswith("3.1")
    assert printed.stdout.count("\n") == 1
    of_terminals = command("openapi", "terminals", "--pretty", folder=tmp_path)
    assert of_terminals.stdout.startswith('{\n  "openapi"')
    assert "/device/v1/next" in json.loads(of_terminals.stdout)["paths"]


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "public_url is not set"),
        ({"PAYDESK_PUBLIC_URL": "https://pay.example", "PAYDESK_ACQUIRER": "simulator"}, "no money would be charged"),
        ({"PAYDESK_PUBLIC_URL": "https://pay.example"}, "there are no server keys"),
        ({"PAYDESK_PUBLIC_URL": "https://pay.example", "PAYDESK_OPERATOR_LISTEN": "127.0.0.1:8377"}, "the same"),
    ],
)
def test_serve_refuses_incomplete_or_development_settings(
    variables: dict[str, str], message: str, tmp_path: Path
) -> None:
    """The message names the setting to change."""
    ended = command("serve", folder=tmp_path, **variables)
    assert ended.returncode == 1
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr


def test_serve_refuses_an_old_database(tmp_path: Path) -> None:
    """`serve` does not migrate; the message has the command to run."""
    assert command("keys", "add", folder=tmp_path).returncode == 0
    ended = command("serve", folder=tmp_path, PAYDESK_PUBLIC_URL="https://pay.example")
    assert ended.returncode == 1
    assert "paydesk migrate" in ended.stderr
