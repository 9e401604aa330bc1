"""`paydesk deliveries` and `paydesk webhooks resend` and `replay` against a running `paydesk dev`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command_line import command
from waiting import HANGS_SECONDS

UNKNOWN = "5f0c3ad1-8f1e-4f0b-9d5c-2b7a90c1e4d6"


@pytest.fixture(scope="module")
def delivery(folder: Path) -> dict[str, Any]:
    """Return a delivery of a payment to the demo inbox."""
    assert command("pay", "12.50", folder=folder).returncode == 0
    delivered = until(lambda: answer("deliveries", "list", "--status", "delivered", folder=folder))
    found: dict[str, Any] = delivered[0]
    return found


def until(find: Callable[[], Any]) -> Any:
    """Return what `find` finds."""
    end = time.monotonic() + HANGS_SECONDS
    while not (found := find()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return found


def answer(*arguments: str, folder: Path) -> Any:
    """Return what a command prints with `--json`."""
    ended = command(*arguments, "--json", folder=folder)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_list_filters(folder: Path, delivery: dict[str, Any]) -> None:
    """Options become filters."""
    subscription_id = delivery["subscription_id"]
    listed = answer("deliveries", "list", "--subscription", subscription_id, "--since", "2020-01-31", folder=folder)
    assert delivery["id"] in {one["id"] for one in listed}
    assert answer("deliveries", "list", "--subscription", UNKNOWN, folder=folder) == []
    assert answer("deliveries", "list", "--since", "2999-01-01", folder=folder) == []
    ended = command("deliveries", "list", "--since", "soon", folder=folder)
    assert (ended.returncode, "'since' - must be" in ended.stderr) == (1, True)


def test_show_has_notification_and_attempts(folder: Path, delivery: dict[str, Any]) -> None:
    """For people a table of attempts below the body; with --json everything."""
    shown = command("deliveries", "show", delivery["id"], folder=folder)
    assert shown.returncode == 0, shown.stderr
    _, body, attempts = shown.stdout.split("\n\n")
    assert json.loads(body)["data"]["id"] == delivery["order_id"]
    assert attempts.split("\t")[0] == "1"
    (attempt,) = answer("deliveries", "show", delivery["id"], folder=folder)["history"]
    assert attempt["request"]["headers"]["X-Retry"] == "0"


def test_resend_makes_another_attempt(folder: Path, delivery: dict[str, Any]) -> None:
    """The command says how to see it."""
    ended = command("webhooks", "resend", delivery["id"], folder=folder)
    assert ended.returncode == 0
    assert f"paydesk deliveries show {delivery['id']}" in ended.stderr

    def attempts() -> list[Any]:
        history: list[Any] = answer("deliveries", "show", delivery["id"], folder=folder)["history"]
        return history if len(history) > 1 else []

    assert [one.get("resend", False) for one in until(attempts)] == [False, True]


def test_replay_prints_the_count(folder: Path, delivery: dict[str, Any]) -> None:
    """Of a subscription or an order, and only of one of them."""
    assert answer("webhooks", "replay", "--subscription", delivery["subscription_id"], folder=folder) == {"count": 0}
    order = ("--order", delivery["order_id"])
    ended = command("webhooks", "replay", *order, folder=folder)
    assert "so nothing is sent again." in ended.stderr
    assert answer("webhooks", "replay", *order, "--since", "2020-01-31", folder=folder) == {"count": 0}
    for options in ((), (*order, "--subscription", UNKNOWN)):
        ended = command("webhooks", "replay", *options, folder=folder)
        assert (ended.returncode, "exactly one of subscription_id and order" in ended.stderr) == (1, True)


def test_unknown_ids_exit_1(folder: Path) -> None:
    """With the message of the service."""
    for arguments, code in (
        (("deliveries", "show", f"{UNKNOWN}.{UNKNOWN}"), "delivery_not_found"),
        (("deliveries", "show", "x"), "invalid_path_param"),
        (("webhooks", "resend", f"{UNKNOWN}.{UNKNOWN}"), "delivery_not_found"),
        (("webhooks", "replay", "--subscription", UNKNOWN), "subscription_not_found"),
    ):
        ended = command(*arguments, folder=folder)
        assert (ended.returncode, ended.stdout, code in ended.stderr) == (1, "", True), (arguments, ended.stderr)
