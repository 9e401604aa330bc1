"""A command imports what it needs alone, because every module that is imported delays it."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from installed import make_environment, packages_of
from paydesk.commands import cli
from paydesk.commands.client.options import top
from paydesk_process import environment
from tables import each

RUN = """
import sys
sys.argv[0] = "paydesk"
from paydesk.commands import cli
cli.main()
"""
PROGRAM = f"""
try: {textwrap.indent(RUN, "    ")}
except SystemExit:
    sys.stderr.writelines(f"{{name}}\\n" for name in sys.modules)
"""
ADDED = """
from paydesk.commands import cli

def names(table):
    for name, entry in table.items():
        yield name
        yield from (f"{name} {verb}" for verb in getattr(cli.loaded(name, *entry), "commands", ()))

own = set(names(cli.COMMANDS))
print(*(name for name in names(cli.extended()) if name not in own), sep="\\n")
"""
VERB = re.compile(r"^│ ([a-z][a-z-]*) ", re.MULTILINE)
"""A command in a help."""
SLOW = {"asyncio", "jinja2", "msgspec", "pydantic", "structlog", "paydesk.platform.settings"}


def imported(*arguments: str, **variables: str) -> set[str]:
    """Return the modules that the command has imported when it ends."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=True,
    )
    return set(ended.stderr.splitlines())


def commands(modules: set[str]) -> set[str]:
    """Return the names of those below `paydesk.commands`, without their packages."""
    return {name.rpartition(".")[2] for name in modules if re.match(r"paydesk\.commands\.\w+\.", name)}


def test_a_request_imports_no_slow_module() -> None:
    """And no module of another group, even if its option has a default or a text."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = {"PAYDESK_BASE_URL": f"http://127.0.0.1:{bound.getsockname()[1]}", "PAYDESK_OPERATOR_TOKEN": "PDO-1"}
        shown = imported("clock", "show", **address)
        listed = imported("subscriptions", "list", "--sort", "urgency", **address)
    assert {"http.client", "paydesk_dev.commands.development"} <= shown
    assert {"http.client", "paydesk.commands.nouns.subscriptions"} <= listed
    assert (shown | listed) & (SLOW | {"rich", "paydesk.commands.nouns.orders"}) == set()
    assert listed & {"importlib.metadata", "paydesk_dev"} == set()


def test_a_help_imports_its_group_alone() -> None:
    """Without the client's HTTP; the list of all commands imports none of them, as little as its completion."""
    helped = imported("orders", "list", "--help")
    assert {"orders", "order_changes"} <= commands(helped)
    assert helped & (SLOW | {"http.client", "paydesk.commands.nouns.sellers", "paydesk_dev"}) == set()
    listed = imported("--help")
    completed = imported(COMP_WORDS="paydesk or", COMP_CWORD="1", _PAYDESK_COMPLETE="complete_bash")
    assert commands(listed) == commands(completed) == {"failure", "options"}
    assert listed & SLOW == set()


@each("name", cli.extended())
def test_the_table_has_the_help_of_the_command(name: str) -> None:
    """Its first paragraph."""
    entry = cli.extended()[name]
    command = cli.loaded(name, *entry)
    first, _, _ = command.help.partition("\n\n")
    assert (entry[0], command.name) == (" ".join(first.split()), name)


def test_the_table_has_every_command() -> None:
    """Of those in no group; what is not in the table cannot be run."""
    groups = {name for name, one in cli.tree().commands.items() if hasattr(one, "commands")}
    assert {one.name for one in top.registered_commands} == cli.extended().keys() - groups


def test_the_commands_of_the_kit_are_known_without_it() -> None:
    """Those that its table adds to a process that has only the others."""
    ended = subprocess.run([sys.executable, "-c", ADDED], capture_output=True, text=True, check=True)
    added = set(ended.stdout.splitlines())
    verbs_of_new_groups = {name for name in added if name.partition(" ")[0] in added - {name}}
    assert added - verbs_of_new_groups == cli.KIT


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment that has `paydesk` without the development kit."""
    folder = tmp_path_factory.mktemp("environment")
    programs = make_environment(folder, "requirements.lock")
    packages_of(folder).joinpath("paydesk").symlink_to(Path(cli.__file__).parents[1])
    return programs / "python"


def run(python: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `paydesk …` with this Python."""
    return subprocess.run(
        [python, "-c", RUN, *arguments],
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )


@each("lacking", ["dev", "clock", "terminals simulate"])
def test_a_command_of_the_kit_says_how_to_install_it(python: Path, lacking: str) -> None:
    """In one sentence, whatever its arguments are."""
    ended = run(python, *lacking.split(), "--help")
    sentence = f"The development kit, which has `paydesk {lacking}`, is not installed: pip install 'paydesk[dev]'\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", sentence)


def test_help_and_completion_without_the_kit(python: Path) -> None:
    """They list what can be run, and a name that nothing has is answered as usual."""
    listed = run(python, "--help").stdout
    assert VERB.findall(listed) == list(cli.COMMANDS)
    assert "pip install 'paydesk[dev]'" in listed
    verbs = set(VERB.findall(run(python, "terminals", "--help").stdout))
    assert {"list", "queue"} <= verbs
    assert "simulate" not in verbs
    completing = {"COMP_CWORD": "2", "_PAYDESK_COMPLETE": "complete_bash"}
    completed = run(python, COMP_WORDS="paydesk pay --scr", **completing)
    assert (completed.stdout.strip(), completed.stderr) == ("", "")
    assert "No such command 'paid'" in run(python, "paid").stderr
