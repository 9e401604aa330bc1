"""The programs of "Get a token", run as they stand against `paydesk dev`, while a seller signs in and agrees."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import node_clients
from conftest import skip_unless_ci
from paydesk.oauth.errors import OAUTH_ERRORS
from paydesk_process import credentials, dev
from seller import Seller

PAGE = (Path(__file__).parents[2] / "docs" / "get-a-token.md").read_text()
PROGRAM_SECONDS_MAX = 60


def programs(heading: str, language: str) -> list[str]:
    """The programs of a section and its subsections, in their order."""
    _, _, section = PAGE.partition(f"\n{heading}\n")
    section = re.split(rf"^#{{2,{heading.count('#')}}} ", section, maxsplit=1, flags=re.MULTILINE)[0]
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which `paydesk dev` runs, as a reader's clone is after `make run`."""
    folder = tmp_path_factory.mktemp("clone")
    with dev(folder):
        yield folder


@pytest.fixture
def node(folder: Path) -> None:
    """Node, and the official client as if it had been installed in the folder."""
    try:
        node_clients.install()
    except node_clients.NodeMissing as missing:
        skip_unless_ci(str(missing))
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(node_clients.FOLDER / "node_modules")


def told(folder: Path, program: str, *command: str) -> str:
    """What the program says; a seller opens the address that it prints, and the one they come back to is pasted."""
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
        known, said = credentials(folder), ""
        for line in running.stdout:
            said += line
            if line.startswith(f"{known['base_url']}/authorization?"):
                seller = Seller(known["seller"]["email"], known["seller"]["password"])
                running.stdin.write(seller.agree(line.strip()) + "\n")
                running.stdin.flush()
        errors = running.stderr.read() if running.stderr is not None else ""
        assert running.wait(PROGRAM_SECONDS_MAX) == 0, errors
    return said


def kept(folder: Path, name: str, program: str) -> str:
    """The program in a file of its own, as a reader keeps it."""
    (folder / name).write_text(program)
    return name


def first_terminal(folder: Path) -> str:
    """What the programs say at their end."""
    return f"The first terminal is {credentials(folder)['terminals'][0]['id']}."


def test_with_curl(folder: Path) -> None:
    """The exchange, the refresh and a call, then the token is asked about and ended."""
    program = "".join(programs("## With curl", "sh") + programs("## Revoke and introspect tokens", "sh"))
    said = told(folder, kept(folder, "token.sh", program), "sh", "-eu")
    assert first_terminal(folder) in said
    introspected: dict[str, Any] = json.JSONDecoder().raw_decode(said[said.index('{"active"') :])[0]
    assert introspected["active"] is True
    assert introspected["live_mode"] is False


@pytest.mark.parametrize("which", [0, 1], ids=["authlib", "requests-oauthlib"])
def test_with_python(folder: Path, which: int) -> None:
    """Each library's program ends with a call by a refreshed token."""
    program = programs("## With Python", "python")[which]
    assert first_terminal(folder) in told(folder, kept(folder, f"token_{which}.py", program), sys.executable)


@pytest.mark.usefixtures("node")
def test_with_node(folder: Path) -> None:
    """The program without a package ends with a call by a refreshed token."""
    program = programs("## With Node", "js")[0]
    assert first_terminal(folder) in told(folder, kept(folder, "token.mjs", program), "node")


@pytest.mark.usefixtures("node")
def test_with_the_official_node_client(folder: Path) -> None:
    """It refreshes the token of the credentials file."""
    program = programs("## With Node", "js")[1]
    assert told(folder, kept(folder, "official.mjs", program), "node", "--preserve-symlinks") == "Good for 180 days.\n"


def test_what_several_processes_run(folder: Path) -> None:
    """It stores what it was answered, keeps it to itself, and leaves alone what another has stored meanwhile."""
    first = credentials(folder)["live"]["refresh_token"]
    (folder / "refresh-token").write_text(first)
    program = programs("### Several processes", "python")[0]
    told(folder, kept(folder, "refresh.py", f"{program}\n\nrefresh()\n"), sys.executable)
    second = (folder / "refresh-token").read_text()
    assert second != first
    assert (folder / "refresh-token").stat().st_mode & 0o777 == 0o600
    late = f"{program}\n\ndef post(*args, **options):\n    store('newer')\n    return ask(*args, **options)\n\n"
    late += "\nask, requests.post = requests.post, post\nrefresh()\n"
    told(folder, kept(folder, "late.py", late), sys.executable)
    assert (folder / "refresh-token").read_text() == "newer"


def test_every_error_has_its_advice() -> None:
    """Each code of the token endpoint is in the table of what to do."""
    table = PAGE.partition("\n## Errors and what to do\n")[2]
    assert all(f"| `{kind.code}`" in table for kind in OAUTH_ERRORS)
