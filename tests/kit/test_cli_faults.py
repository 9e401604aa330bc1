"""`paydesk webhooks fault` against a running `paydesk dev`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from command_line import command
from docs_programs import DOCS, blocks
from paydesk_dev.faults.kinds import KINDS, Fault
from paydesk_process import credentials
from tables import each

UNKNOWN = "0b5cf9b0-6c6e-4ff4-9b0e-0f3a3f3c6a51"


def fault(*arguments: str, folder: Path) -> Any:
    """Return what `paydesk webhooks fault …` prints with `--json`."""
    ended = command("webhooks", "fault", *arguments, "--json", folder=folder)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def refused(*arguments: str, folder: Path) -> tuple[int, str]:
    """Return the exit code and standard error of a command that must print no answer."""
    ended = command("webhooks", "fault", *arguments, folder=folder)
    assert ended.stdout == ""
    return ended.returncode, ended.stderr


def demo(folder: Path) -> str:
    """Return the subscription of the demo application to the demo inbox."""
    known = credentials(folder)
    wanted = known["client_id"], known["webhook"]["url"]
    listed = json.loads(command("subscriptions", "list", "--json", folder=folder).stdout)
    return str(next(one["id"] for one in listed if (one["client_id"], one["url"]) == wanted))


@each("kind", KINDS)
def test_each_kind_is_a_command(folder: Path, kind: str) -> None:
    """For the subscription of the demo inbox, with the defaults of the API; its help has an example."""
    delay = {"delay_seconds": 10} if kind in ("late", "out_of_order") else {}
    assert fault(kind, folder=folder) == {"subscription_id": demo(folder), "kind": kind, "every": 1, **delay}
    (listed,) = fault("list", folder=folder)
    url = credentials(folder)["webhook"]["url"]
    assert listed == {"id": demo(folder), "url": url, "kind": kind, "every": 1, **delay}
    assert f"paydesk webhooks fault {kind}" in command("webhooks", "fault", kind, "--help", folder=folder).stdout


def test_options_are_sent(folder: Path) -> None:
    """The delay is typed as a duration."""
    sent = fault("late", "--delay", "30s", "--every", "3", "--seed", "7", folder=folder)
    assert sent == {"subscription_id": demo(folder), "kind": "late", "every": 3, "delay_seconds": 30, "seed": 7}
    assert fault("out_of_order", "--delay", "2m", folder=folder)["delay_seconds"] == 120
    assert fault("drop", "--seed", "-1", folder=folder)["seed"] == -1


def test_a_fault_of_another_subscription_is_set_listed_and_cleared(folder: Path) -> None:
    """The note names the command that clears it. Without a fault the list is empty; clearing again is fine."""
    made = command("subscriptions", "create", "--url", "http://127.0.0.1:9/hooks", "--json", folder=folder)
    other = json.loads(made.stdout)["id"]
    fault("clear", folder=folder)
    ended = command("webhooks", "fault", "twice", "--subscription", other, folder=folder)
    assert (ended.returncode, "kind" in ended.stdout) == (0, True)
    assert f"`paydesk webhooks fault clear --subscription {other}`" in ended.stderr
    row = command("webhooks", "fault", "list", folder=folder).stdout
    assert row == f"{other}\ttwice\t1\t\t\thttp://127.0.0.1:9/hooks\n"
    for _ in range(2):
        assert fault("clear", "--subscription", other, folder=folder) == {"subscription_id": other, "cleared": True}
    assert fault("list", folder=folder) == []


def test_wrong_usage_changes_nothing(folder: Path) -> None:
    """Unknown kinds and options exit with 2, what the service refuses with 1; the messages say what to do."""
    fault("clear", folder=folder)
    code, message = refused("late", "--delay", "soon", folder=folder)
    assert (code, message) == (2, "--delay soon is not a duration. Use one such as 30s or 2m.\n")
    code, message = refused("late", "--delay", "11m", folder=folder)
    assert (code, "delay_seconds" in message, "600" in message) == (1, True, True)
    for arguments in (["upside_down"], ["drop", "--delay", "3s"], ["drop", "--every", "0"], ["drop", "--seed", "x"]):
        assert refused(*arguments, folder=folder)[0] == 2, arguments
    code, message = refused("drop", "--subscription", UNKNOWN, folder=folder)
    assert (code, "subscription_not_found" in message) == (1, True)
    for name in ("drop", "clear"):
        assert refused(name, "--subscription", "", folder=folder) == (2, "An id must not be empty.\n")
    assert fault("list", folder=folder) == []


def test_without_a_demo_subscription_one_must_be_named(folder: Path, tmp_path: Path) -> None:
    """As with the credentials of an operator only."""
    known = credentials(folder)
    variables = {"PAYDESK_BASE_URL": known["base_url"], "PAYDESK_OPERATOR_TOKEN": known["operator"]["token"]}
    ended = command("webhooks", "fault", "drop", folder=tmp_path, **variables)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("No subscription leads to the demo inbox. Name one with --subscription ID,")


def test_the_commands_of_the_documentation_work(folder: Path) -> None:
    """Each, in the order of the page, which names every kind and the notifications that its seed affects."""
    page = (DOCS / "webhook-faults.md").read_text()
    lines = "".join(blocks(page, "sh")).splitlines()
    commands = [line.removeprefix("paydesk ") for line in lines if line]
    assert len(commands) == 4
    for line in commands:
        assert command(*line.split(), folder=folder).returncode == 0, line
    assert fault("list", folder=folder) == []
    assert [kind for kind in KINDS if f"| `{kind}` |" not in page] == []
    assert [one for one in range(1, 13) if Fault("drop", 3, seed=7).affects(one)] == [3, 6, 7, 10]
