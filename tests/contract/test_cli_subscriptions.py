"""`paydesk subscriptions` against a running `paydesk dev`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import command
from paydesk_process import credentials, request
from tables import each
from waiting import wait_until

URL = "http://127.0.0.1:9/hook"
"""Nothing listens there."""


@pytest.fixture
def made(folder: Path) -> Iterator[Any]:
    """Yield a new subscription, which is deleted at the end unless the test did."""
    created = answer("create", "--url", URL, folder=folder)
    yield created
    command("subscriptions", "delete", created["id"], folder=folder)


def answer(*arguments: str, folder: Path) -> Any:
    """Return what `paydesk subscriptions …` prints with `--json`."""
    ended = command("subscriptions", *arguments, "--json", folder=folder)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_a_subscription_is_changed_paused_and_resumed(folder: Path, made: Any) -> None:
    """Omitted fields stay; what to do next is on standard error."""
    secret, name = made.pop("secret"), made["id"]
    assert answer("show", name, folder=folder) == made
    changed = answer("change", name, "--action", "order.failed", "--action", "order.processed", folder=folder)
    assert changed == {**made, "actions": ["order.processed", "order.failed"]}
    assert answer("change", name, "--all-actions", "--url", f"{URL}/2", folder=folder) == {**made, "url": f"{URL}/2"}
    paused = command("subscriptions", "pause", name, folder=folder)
    assert (paused.returncode, f"paydesk subscriptions resume {name}" in paused.stderr) == (0, True)
    assert "paused_by" in paused.stdout
    listed = command("subscriptions", "list", folder=folder)
    assert f"{name}\tpaused\t" in listed.stdout
    assert secret not in listed.stdout + paused.stdout
    assert answer("resume", name, folder=folder)["status"] == "active"


def test_the_list_is_filtered_by_application(folder: Path, made: Any) -> None:
    """The demo application has the demo inbox and the new one; an unknown one has none."""
    mine = answer("list", "--client-id", made["client_id"], folder=folder)
    assert {made["id"]} < {one["id"] for one in mine}
    assert answer("list", "--client-id", "1", folder=folder) == []


def test_a_secret_is_rotated_in_three_steps(folder: Path, made: Any) -> None:
    """`rotate` prints the secret once, and the next two commands."""
    name = made["id"]
    begun = command("subscriptions", "rotate", name, folder=folder)
    assert begun.returncode == 0, begun.stderr
    assert begun.stdout.count("whsec_") == 1
    assert "whsec_" not in begun.stderr
    for step in (f"paydesk subscriptions promote {name} 2", f"paydesk subscriptions drop {name} SECRET_ID"):
        assert f"`{step}`" in begun.stderr
    third = command("subscriptions", "rotate", name, "--json", folder=folder)
    assert (third.returncode, third.stdout) == (1, "")
    assert "The subscription already has 2 valid secrets. (too_many_secrets)" in third.stderr
    early = command("subscriptions", "drop", name, "1", folder=folder)
    assert (early.returncode, "promote 2 first" in early.stderr) == (1, True)
    promoted = command("subscriptions", "promote", name, "2", folder=folder)
    assert (promoted.returncode, f"`paydesk subscriptions drop {name} SECRET_ID`" in promoted.stderr) == (0, True)
    dropped = answer("drop", name, "1", folder=folder)
    assert [(one["id"], one["is_primary"]) for one in dropped["secrets"]] == [("2", True)]
    again = command("subscriptions", "promote", name, "2", folder=folder)
    assert (again.returncode, "only valid secret" in again.stderr) == (0, True)


@each(
    "arguments, code, message",
    [
        (("change", "ID"), 2, "Nothing to change"),
        (("change", "ID", "--all-actions", "--action", "order.failed"), 2, "either --action or --all-actions"),
        (("change", "ID", "--url", "http://10.0.0.1/"), 1, "must resolve to public addresses only"),
        (("change", "ID", "--action", "order.sold"), 1, "'$.actions[0]' - must be one of order.created"),
        (("show", "0b5cf9b0-6c6e-4ff4-9b0e-0f3a3f3c6a51"), 1, "There is no such subscription."),
        (("show", "x"), 2, "SUBSCRIPTION_ID is malformed: give an id as the lists show it."),
        (("show", ""), 2, "SUBSCRIPTION_ID is malformed: give an id as the lists show it."),
        (("drop", "ID", "7"), 1, "The subscription has no such valid secret."),
        (("promote", "ID"), 2, "SECRET_ID"),
    ],
)
def test_a_wrong_command_says_why(folder: Path, made: Any, arguments: tuple[str, ...], code: int, message: str) -> None:
    """On standard error, with nothing on standard output."""
    given = [made["id"] if one == "ID" else one for one in arguments]
    ended = command("subscriptions", *given, folder=folder)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert message in ended.stderr


def test_pay_has_nothing_to_wait_for_after_a_dead_subscription_is_deleted(folder: Path, made: Any) -> None:
    """Its pending deliveries end at once as `withdrawn`, and later orders have none to it."""
    found = credentials(folder)
    base_url, token = found["base_url"], found["operator"]["token"]

    def delivered() -> dict[str, list[str]]:
        _, page = request("GET", f"{base_url}/operator/v1/deliveries", token)
        statuses: dict[str, list[str]] = {}
        for one in page["data"]:
            if one["id"].endswith(made["id"]):
                statuses.setdefault(one["order_id"], []).append(one["status"])
        return statuses

    body = {
        "type": "point",
        "transactions": {"payments": [{"amount": "24.90"}]},
        "config": {"point": {"terminal_id": found["terminals"][1]["id"]}},
    }
    status, order = request(
        "POST", f"{base_url}/v1/orders", found["test"]["access_token"], body=body, headers={"X-Idempotency-Key": "dead"}
    )
    assert status == 201, order
    ended = command("subscriptions", "delete", made["id"], folder=folder)
    assert (ended.returncode, "withdrawn" in ended.stderr) == (0, True)
    assert json.loads(command("subscriptions", "list", "--json", folder=folder).stdout)
    wait_until(lambda: not any("pending" in one for one in delivered().values()), delivered)
    assert set(delivered()) == {order["id"]}
    paid = command("pay", "10", "--script", "approve:0.1s", folder=folder)
    assert (paid.returncode, paid.stderr) == (0, ""), paid.stdout + paid.stderr
    assert URL not in paid.stdout
    assert set(delivered()) == {order["id"]}
    assert command("subscriptions", "delete", made["id"], folder=folder).returncode == 1
