"""A command imports what it needs alone, because every module that is imported delays it."""

from __future__ import annotations

import re
import socket
import subprocess
import sys

from paydesk.commands import cli
from paydesk.commands.client.options import top
from paydesk_process import environment
from tables import each

PROGRAM = """
import sys
from paydesk.commands import cli
try:
    cli.main()
except SystemExit:
    sys.stderr.writelines(f"{name}\\n" for name in sys.modules)
"""
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


def test_a_help_imports_its_group_alone() -> None:
    """Without the client's HTTP; the list of all commands imports none of them, as little as its completion."""
    helped = imported("orders", "list", "--help")
    assert {"orders", "order_changes"} <= commands(helped)
    assert helped & (SLOW | {"http.client", "paydesk.commands.nouns.sellers"}) == set()
    listed = imported("--help")
    completed = imported(COMP_WORDS="paydesk or", COMP_CWORD="1", _PAYDESK_COMPLETE="complete_bash")
    assert commands(listed) == commands(completed) == {"failure", "options"}
    assert listed & SLOW == set()


@each("name", cli.COMMANDS)
def test_the_table_has_the_help_of_the_command(name: str) -> None:
    """Its first paragraph."""
    first, _, _ = cli.loaded(name).help.partition("\n\n")
    assert (cli.COMMANDS[name][0], cli.loaded(name).name) == (" ".join(first.split()), name)


def test_the_table_has_every_command() -> None:
    """Of those in no group; what is not in the table cannot be run."""
    groups = {name for name, one in cli.tree().commands.items() if hasattr(one, "commands")}
    assert {one.name for one in top.registered_commands} == cli.COMMANDS.keys() - groups
