"""The programs of "Get a token", run unchanged against `paydesk dev`, while a seller signs in and agrees."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import node_clients
from docs_programs import DOCS, blocks, section
from paydesk.engine.oauth.errors import OAUTH_ERRORS
from paydesk_process import credentials
from seller import Seller

PAGE = (DOCS / "get-a-token.md").read_text()
EXAMPLES = DOCS.parent / "examples" / "oauth"
PROGRAM_SECONDS_MAX = 60


def programs(heading: str, language: str) -> list[str]:
    """Return the programs of a section and its subsections, in order."""
    return blocks(section(PAGE, heading), language)


@pytest.fixture
def node(folder: Path) -> None:
    """Node, with the official client linked into the folder."""
    node_clients.require()
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(node_clients.FOLDER / "node_modules")


def output(folder: Path, program: str, *command: str) -> str:
    """Run the program and return its output.

    A seller opens the address that it prints, and the redirect is written to its input.
    """
    with subprocess.Popen(
        [*command, program],
        cwd=folder,
        env={**os.environ, "NO_PROXY": "127.0.0.1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        known, printed = credentials(folder), ""
        for line in running.stdout:
            printed += line
            if line.startswith(f"{known['base_url']}/authorization?"):
                seller = Seller(known["seller"]["email"], known["seller"]["password"])
                running.stdin.write(seller.agree(line.strip()) + "\n")
                running.stdin.flush()
        errors = running.stderr.read() if running.stderr is not None else ""
        assert running.wait(PROGRAM_SECONDS_MAX) == 0, errors
    return printed


def save(folder: Path, name: str, program: str) -> str:
    """Write the program to a file; return its name."""
    (folder / name).write_text(program)
    return name


def first_terminal(folder: Path) -> str:
    """Return the last line that the programs print."""
    return f"The first terminal is {credentials(folder)['terminals'][0]['id']}."


def test_curl_programs(folder: Path) -> None:
    """Exchange, refresh and a call; then introspection and revocation."""
    program = "".join(programs("## With curl", "sh") + programs("## Revoke and introspect tokens", "sh"))
    printed = output(folder, save(folder, "token.sh", program), "sh", "-eu")
    assert first_terminal(folder) in printed
    introspected: dict[str, Any] = json.JSONDecoder().raw_decode(printed[printed.index('{"active"') :])[0]
    assert introspected["active"] is True
    assert introspected["live_mode"] is False


@pytest.mark.parametrize("which", ["authlib_client.py", "requests_oauthlib_client.py"])
def test_python_programs(folder: Path, which: str) -> None:
    """Each library's program ends with a call with a refreshed token."""
    program = (EXAMPLES / which).read_text()
    assert first_terminal(folder) in output(folder, save(folder, which, program), sys.executable)


@pytest.mark.usefixtures("node")
def test_node_program(folder: Path) -> None:
    """The program without packages ends with a call with a refreshed token."""
    program = (EXAMPLES / "token.mjs").read_text()
    assert first_terminal(folder) in output(folder, save(folder, "token.mjs", program), "node")


@pytest.mark.usefixtures("node")
def test_program_of_a_client_without_the_field(folder: Path) -> None:
    """It exchanges a code of the second application for a test token."""
    program = (EXAMPLES / "test_application.mjs").read_text()
    printed = output(folder, save(folder, "typed.mjs", program), "node", "--preserve-symlinks")
    assert printed.endswith("The token is for test orders.\n")


def test_program_for_several_processes_keeps_a_newer_token(folder: Path) -> None:
    """It stores the answer with mode 0600, unless another process has stored a newer one."""
    first = credentials(folder)["live"]["refresh_token"]
    (folder / "refresh-token").write_text(first)
    program = (EXAMPLES / "refresh.py").read_text()
    output(folder, save(folder, "refresh.py", f"{program}\n\nrefresh()\n"), sys.executable)
    second = (folder / "refresh-token").read_text()
    assert second != first
    assert (folder / "refresh-token").stat().st_mode & 0o777 == 0o600
    late = f"{program}\n\ndef post(*args, **options):\n    store('newer')\n    return ask(*args, **options)\n\n"
    late += "\nask, requests.post = requests.post, post\nrefresh()\n"
    output(folder, save(folder, "late.py", late), sys.executable)
    assert (folder / "refresh-token").read_text() == "newer"


def test_every_token_error_has_advice() -> None:
    """Each code of the token endpoint is in the table."""
    table = PAGE.partition("\n## Errors and what to do\n")[2]
    assert all(f"| `{kind.code}`" in table for kind in OAUTH_ERRORS)
