"""`paydesk env`: variables for shells and programs, from the credentials file."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from command_line import command
from paydesk.commands.application.environment import SHELLS, env
from paydesk.platform.settings import CLIENT_VARIABLES
from paydesk_process import PAYDESK, environment

HOSTILE = 'it\'s "$(touch broken)" `id` \\ $HOME ; & | # ü \N{RIGHT SINGLE QUOTATION MARK}'
DOCUMENT: dict[str, Any] = {
    "base_url": "http://127.0.0.1:9",
    "client_id": "3676047501096810",
    "client_secret": HOSTILE,
    "redirect_uri": "http://127.0.0.1:9/demo/callback",
    "seller": {"user_id": 1160535239},
    "test": {"access_token": "APP_USR-test"},
    "live": {"access_token": "APP_USR-live"},
    "terminals": [{"id": "PAYDESK_VIRTUAL__1", "script": "manual"}, {"id": "PAYDESK_VIRTUAL__2", "script": "approve"}],
    "webhook": {"secret": "whsec_x"},
    "operator": {"token": "PDO-secret"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a credentials file."""
    write(tmp_path, DOCUMENT)
    return tmp_path


def write(folder: Path, document: Any) -> None:
    """Write the credentials file of the folder."""
    (folder / ".paydesk").mkdir(exist_ok=True)
    (folder / ".paydesk" / "credentials.json").write_text(json.dumps(document))


def variables(folder: Path, *options: str) -> dict[str, str]:
    """Return the variables as JSON."""
    ended = command("env", "--json", *options, folder=folder)
    assert (ended.returncode, ended.stderr) == (0, "")
    found: dict[str, str] = json.loads(ended.stdout)
    return found


def test_shell_gets_the_values_unchanged(folder: Path) -> None:
    """Whatever characters they have; no part of a value is executed."""
    expected = variables(folder)
    assert expected["PAYDESK_CLIENT_SECRET"] == HOSTILE
    script = f'eval "$({PAYDESK} env)"; env -0'
    for shell in ("bash", "dash"):
        printed = subprocess.run([shell, "-c", script], cwd=folder, env=environment(), capture_output=True, check=True)
        got = dict(line.split("=", 1) for line in printed.stdout.decode().split("\0") if line.startswith("PAYDESK_"))
        assert got == expected
        assert printed.stderr == b""
    assert not (folder / "broken").exists()


def test_paydesk_alone_is_put_on_the_path_once(folder: Path) -> None:
    """Python and the other programs of its environment are not; a second time adds nothing."""
    script = f'eval "$({PAYDESK} env)"; eval "$(paydesk env)"; command -v paydesk; echo "$PATH"'
    run = subprocess.run(
        ["sh", "-c", script], cwd=folder, env=environment(PATH="/usr/bin:/bin"), capture_output=True, check=True
    )
    bin_folder = folder / ".paydesk" / "bin"
    assert run.stdout.decode().splitlines() == [f"{bin_folder}/paydesk", f"{bin_folder}:/usr/bin:/bin"]
    assert [program.name for program in bin_folder.iterdir()] == ["paydesk"]


def test_a_link_to_another_program_is_replaced(folder: Path) -> None:
    """As after the move of the environment; where the folder cannot be made, the PATH stays, and a message says why."""
    link = folder / ".paydesk" / "bin" / "paydesk"
    link.parent.mkdir()
    link.symlink_to(folder / "gone")
    run = partial(
        subprocess.run, cwd=folder, env=environment(PATH="/usr/bin:/bin"), capture_output=True, check=True, text=True
    )
    run([PAYDESK, "env"])
    assert link.samefile(PAYDESK)
    link.unlink()
    link.parent.rmdir()
    link.parent.write_text("")
    printed = run([PAYDESK, "env"])
    assert "PATH=" not in printed.stdout
    assert f"The PATH is unchanged, because {link.parent} cannot be written" in " ".join(printed.stderr.split())


def test_values_are_those_of_the_file(folder: Path) -> None:
    """The test token by default, a terminal that needs no person, and no token of the operator."""
    found = variables(folder)
    assert found["PAYDESK_CREDENTIALS"] == str(folder / ".paydesk" / "credentials.json")
    assert found["PAYDESK_BASE_URL"] == "http://127.0.0.1:9"
    assert found["PAYDESK_ACCESS_TOKEN"] == "APP_USR-test"
    assert found["PAYDESK_USER_ID"] == "1160535239"
    assert found["PAYDESK_TERMINAL_ID"] == "PAYDESK_VIRTUAL__2"
    assert variables(folder, "--live")["PAYDESK_ACCESS_TOKEN"] == "APP_USR-live"
    assert "PDO-secret" not in command("env", folder=folder).stdout


def test_tls_address_and_ca_file_are_printed_if_the_file_has_them(folder: Path) -> None:
    """Another terminal's script may be manual: then it is the only one."""
    assert "PAYDESK_TLS_BASE_URL" not in variables(folder)
    write(
        folder,
        {
            **DOCUMENT,
            "tls_base_url": "https://localhost:8378",
            "ca_file": "/home/ana/ca.pem",
            "terminals": DOCUMENT["terminals"][:1],
        },
    )
    found = variables(folder)
    assert (found["PAYDESK_TLS_BASE_URL"], found["PAYDESK_CA_FILE"]) == ("https://localhost:8378", "/home/ana/ca.pem")
    assert found["PAYDESK_TERMINAL_ID"] == "PAYDESK_VIRTUAL__1"


def test_exported_variables_do_not_break_other_commands(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """None is taken for a setting; commands in any folder use the file."""
    exported = variables(folder)
    assert exported.keys() <= CLIENT_VARIABLES
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    migrated = command("migrate", folder=elsewhere, PAYDESK_DATABASE_URL="sqlite:a.db", **exported)
    assert migrated.returncode == 0, migrated.stderr
    away = command("apps", "list", folder=elsewhere, **exported)
    assert (away.returncode, "Cannot connect to http://127.0.0.1:9" in away.stderr) == (3, True)


def test_restart_at_another_address_is_seen(folder: Path) -> None:
    """Earlier exported variables do not change what `paydesk env` prints."""
    exported = variables(folder)
    write(folder, {**DOCUMENT, "base_url": "http://127.0.0.1:10"})
    again = command("env", folder=folder, **exported)
    assert again.returncode == 0
    assert "export PAYDESK_BASE_URL=http://127.0.0.1:10\n" in again.stdout


def test_lines_of_other_shells_are_quoted() -> None:
    """By the rules of fish and PowerShell."""
    assert SHELLS["fish"]("A", "it's \\ $x") == "set -gx A 'it\\'s \\\\ $x'"
    assert SHELLS["powershell"]("A", "it's ’ $x") == "$env:A = 'it''s ’’ $x'"  # noqa: RUF001 - PowerShell ends a text with it
    assert shlex.split(SHELLS["sh"]("A", HOSTILE)) == ["export", f"A={HOSTILE}"]


@pytest.mark.parametrize(
    ("document", "code", "message"),
    [
        (None, 3, "does not exist"),
        ({**DOCUMENT, "test": {}}, 2, "has no `test.access_token`"),
        ({**DOCUMENT, "base_url": None}, 2, "has no `base_url`"),
        ({**DOCUMENT, "client_secret": "a\nb"}, 2, "`client_secret` has characters that cannot be printed"),
        ({**DOCUMENT, "seller": {"user_id": "x"}}, 2, "`seller.user_id` must be a whole number"),
        ({**DOCUMENT, "seller": {"user_id": True}}, 2, "`seller.user_id` must be a whole number"),
        ([], 2, "is not a credentials file"),
    ],
)
def test_unusable_file_is_refused(document: Any, code: int, message: str, tmp_path: Path) -> None:
    """With what to do, and without the secrets."""
    if document is not None:
        write(tmp_path, document)
    ended = command("env", folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert message in ended.stderr
    assert "paydesk dev" in ended.stderr
    assert "APP_USR" not in ended.stderr


def test_secrets_on_a_terminal_come_with_a_remark(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On standard error."""
    monkeypatch.chdir(folder)
    out, err = Terminal(), io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    env(credentials=Path(".paydesk/credentials.json"))
    assert "These are secrets." in err.getvalue()
    assert "export PAYDESK_BASE_URL" in out.getvalue()


class Terminal(io.StringIO):
    """An output that says it is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True
