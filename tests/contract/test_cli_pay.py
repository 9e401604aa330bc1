"""`paydesk pay` beside subscriptions whose receivers do not work: it waits for the demo inbox alone."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import command
from paydesk.commands import pay
from paydesk_process import credentials, dev, request

PAYMENTS = 3
RATIO_MAX, MARGIN_SECONDS = 1.5, 1.0
LINE = r"^(\d\d:\d\d:\d\d\.\d{3}) +webhook order\.created to "


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the folder of a running `paydesk dev`."""
    path = tmp_path_factory.mktemp("pay")
    with dev(path):
        yield path


def operate(folder: Path, method: str, path: str, body: Any = None) -> Any:
    """Send a request as the operator."""
    found = credentials(folder)
    status, document = request(method, f"{found['base_url']}/operator/v1/{path}", found["operator"]["token"], body)
    assert status < 300, document
    return document


@contextlib.contextmanager
def subscribed(folder: Path, url: str) -> Iterator[None]:
    """Have a subscription to this URL beside the demo's, for the orders of this block."""
    body = {"client_id": int(credentials(folder)["client_id"]), "url": url, "live_mode": False}
    operate(folder, "POST", "subscriptions", body)
    try:
        yield
    finally:
        # The others of the module would see it.
        moved = command("subscriptions", "list", "--json", folder=folder)
        for one in json.loads(moved.stdout):
            if one["url"] == url:
                found = credentials(folder)
                request(
                    "DELETE", f"{found['base_url']}/operator/v1/subscriptions/{one['id']}", found["operator"]["token"]
                )


def paid(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Make a payment that must succeed."""
    ended = command("pay", "24.90", *options, folder=folder)
    assert ended.returncode == 0, ended.stderr
    return ended


def seconds(folder: Path) -> float:
    """Return the median duration of a payment."""
    durations = []
    for _ in range(PAYMENTS):
        started = time.monotonic()
        paid(folder)
        durations.append(time.monotonic() - started)
    return statistics.median(durations)


def test_dead_and_silent_receivers_do_not_lengthen_a_payment(folder: Path) -> None:
    """One refuses connections, one accepts them and never answers."""
    paid(folder)
    alone = seconds(folder)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/hook"
        with subscribed(folder, "http://127.0.0.1:9/hook"), subscribed(folder, address):
            beside = seconds(folder)
    assert beside <= alone * RATIO_MAX + MARGIN_SECONDS, (alone, beside)


def test_failure_of_another_receiver_is_one_line(folder: Path) -> None:
    """Its address without the query, the time of the attempt, and the error; the webhooks to the inbox follow."""
    with subscribed(folder, "http://127.0.0.1:9/hook?token=s3cret"):
        shown = paid(folder).stdout
    lines = re.findall(f"{LINE}(.*)$", shown, re.MULTILINE)
    assert len(lines) == 1, shown
    moment, line = lines[0]
    assert line.startswith("http://127.0.0.1:9/hook failed, attempt 1: Cannot connect to host"), line
    assert "s3cret" not in shown
    times = [line[:12] for line in shown.splitlines()[1:]]
    assert times[0] <= moment <= times[-1], "the time of the attempt, not of the next one"
    assert re.search(r"webhook order\.processed delivered$", shown, re.MULTILINE)


def test_answer_of_a_failing_receiver_is_printed(folder: Path) -> None:
    """Its status: the demo callback takes no POST."""
    with subscribed(folder, f"{credentials(folder)['base_url']}/demo/callback"):
        shown = paid(folder).stdout
    assert re.search(rf"{LINE}http\S+/demo/callback failed, attempt 1: the receiver answered 405$", shown, re.MULTILINE)


def test_without_a_webhook_in_the_credentials_none_is_awaited(folder: Path, tmp_path: Path) -> None:
    """As with a file that someone wrote."""
    document = credentials(folder)
    del document["webhook"]
    file = tmp_path / "credentials.json"
    file.write_text(json.dumps(document))
    with subscribed(folder, "http://127.0.0.1:9/hook"):
        started = time.monotonic()
        ended = paid(folder, "--credentials", str(file))
    assert time.monotonic() - started < pay.INBOX_SECONDS_MAX
    assert ended.stderr == ""


def test_wait_for_the_inbox_is_bounded(folder: Path, tmp_path: Path) -> None:
    """If it does not answer, the command says so, and what to do; the payment was made."""
    document = credentials(folder)
    document["webhook"]["url"] = "http://127.0.0.1:9/inbox"
    file = tmp_path / "credentials.json"
    file.write_text(json.dumps(document))
    with subscribed(folder, "http://127.0.0.1:9/inbox"):
        started = time.monotonic()
        ended = paid(folder, "--credentials", str(file))
    assert pay.INBOX_SECONDS_MAX < time.monotonic() - started < 4 * pay.INBOX_SECONDS_MAX
    assert "The demo inbox has not received 3 of the webhooks within 5 s" in ended.stderr
    assert "paydesk deliveries list --order ORD" in ended.stderr


def test_json_is_the_final_order_alone(folder: Path) -> None:
    """With its events and deliveries, and the reference that was given."""
    order = json.loads(paid(folder, "--json", "--reference", "sale-0042").stdout)
    assert (order["status"], order["external_reference"]) == ("processed", "sale-0042")
    assert [event["status"] for event in order["events"]] == ["created", "at_terminal", "processed"]
    assert {delivery["status"] for delivery in order["deliveries"]} == {"delivered"}


def test_declined_payment_is_on_a_terminal_of_its_own(folder: Path) -> None:
    """Which is deleted afterwards."""
    before = command("terminals", "list", "--json", folder=folder).stdout
    ended = command("pay", "5", "--decline", "insufficient_amount", "--json", folder=folder)
    assert ended.returncode == 1
    assert ended.stderr == "The order ended as failed: insufficient_amount.\n"
    order = json.loads(ended.stdout)
    assert order["config"]["point"]["terminal_id"] not in before
    after = command("terminals", "list", "--json", folder=folder).stdout
    assert [one["id"] for one in json.loads(after)] == [one["id"] for one in json.loads(before)]


def test_payment_by_a_script(folder: Path) -> None:
    """Any of the virtual terminal."""
    paid(folder, "--script", "approve:0.1s")


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--decline", "nothing_like_it"), 1, "decline:<detail>"),
        (("--script", "dance"), 1, "must be one of approve"),
        (("--script", "approve", "--decline", "high_risk"), 2, "Give only one of --terminal, --script and --decline."),
        (("--terminal", "T", "--script", "approve"), 2, "Give only one of --terminal, --script and --decline."),
        (("--reference", "x" * 200), 1, "external_reference"),
    ],
)
def test_invalid_options_make_no_payment(folder: Path, options: tuple[str, ...], code: int, message: str) -> None:
    """Nor leave a terminal behind."""
    before = command("terminals", "list", "--json", folder=folder).stdout
    refused = command("pay", "5", *options, folder=folder)
    assert (refused.returncode, message in refused.stderr) == (code, True), refused.stderr
    assert refused.stdout == ""
    after = command("terminals", "list", "--json", folder=folder).stdout
    assert [one["id"] for one in json.loads(after)] == [one["id"] for one in json.loads(before)]
