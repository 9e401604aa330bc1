"""`paydesk pay` beside subscriptions whose receivers do not work: it waits for the demo inbox alone."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from pathlib import Path

import pytest

import dev_thread
from command_line import command
from forwarded import Got, hook, wait_until
from paydesk.commands.application import progress
from paydesk.engine.orders.status import FAILED_DETAILS
from paydesk_dev.virtual.scripts.scripts import AVAILABLE
from paydesk_process import credentials, request
from tables import each

QUICK = ("--script", "approve:0.1s")
HANG_SECONDS = 20.0
"""Less than the service's limit for an answer, after which a waiting command would go on."""


def subscribe(folder: Path, url: str) -> None:
    """Add a subscription to this URL beside the demo's."""
    found = credentials(folder)
    body = {"client_id": int(found["client_id"]), "url": url, "live_mode": False}
    status, document = request(
        "POST", f"{found['base_url']}/operator/v1/subscriptions", found["operator"]["token"], body
    )
    assert status == 201, document


def paid(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Make a payment that must succeed."""
    ended = command("pay", "24.90", *options, folder=folder)
    assert ended.returncode == 0, ended.stderr
    return ended


def failures(shown: str, address: str) -> list[tuple[str, str]]:
    """Return the times and the answers of the failed first attempts that a payment printed; `address` is a regexp."""
    line = rf"^(\d\d:\d\d:\d\d\.\d{{3}}) +webhook order\.created to {address} failed, attempt 1: (.*)$"
    return re.findall(line, shown, re.MULTILINE)


def test_dead_and_silent_receivers_are_not_awaited(tmp_path: Path) -> None:
    """One refuses connections, one answers only after the command has ended: their webhooks are pending at the end."""
    has_ended, was_too_early = threading.Event(), []

    def answer(_: Got) -> tuple[int, bytes]:
        # The deadline is there for a command that waits for this answer.
        was_too_early.append(not has_ended.wait(HANG_SECONDS))
        return 200, b""

    with dev_thread.dev(tmp_path), hook(answer) as receiving:
        dead, mute = "http://127.0.0.1:9/hook", receiving.url
        subscribe(tmp_path, dead)
        subscribe(tmp_path, mute)
        ended = paid(tmp_path, "--json", *QUICK)
        has_ended.set()
        wait_until(lambda: bool(was_too_early), lambda: "the receiver got nothing")
    assert not any(was_too_early)
    deliveries = json.loads(ended.stdout)["deliveries"]
    for url in (dead, mute):
        assert [one["status"] for one in deliveries if one["url"] == url] == ["pending"] * 3
    assert "has not received" not in ended.stderr


def test_failure_of_another_receiver_is_one_line(folder: Path) -> None:
    """Its address without the query, the time of the attempt, and the error; the webhooks to the inbox follow."""
    subscribe(folder, "http://127.0.0.1:9/hook?token=s3cret")
    shown = paid(folder, *QUICK).stdout
    ((moment, answer),) = failures(shown, "http://127.0.0.1:9/hook")
    assert answer.startswith("Cannot connect to host"), answer
    assert "s3cret" not in shown
    times = [line[:12] for line in shown.splitlines()[1:]]
    assert times[0] <= moment <= times[-1], "the time of the attempt, not of the next one"
    assert re.search(r"webhook order\.processed delivered$", shown, re.MULTILINE)


def test_answer_of_a_failing_receiver_is_printed(folder: Path) -> None:
    """Its status: the demo callback takes no POST."""
    subscribe(folder, f"{credentials(folder)['base_url']}/demo/callback")
    shown = paid(folder, *QUICK).stdout
    assert [answer for _, answer in failures(shown, "http://[^ ]+/demo/callback")] == ["the receiver answered 405"]


def test_without_a_webhook_in_the_credentials_none_is_awaited(folder: Path, tmp_path: Path) -> None:
    """As with a file that was written by hand."""
    document = credentials(folder)
    del document["webhook"]
    file = tmp_path / "credentials.json"
    file.write_text(json.dumps(document))
    subscribe(folder, "http://127.0.0.1:9/hook")
    ended = paid(folder, "--credentials", str(file), *QUICK)
    assert ended.stderr == ""


def test_wait_for_the_inbox_is_bounded(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it does not answer, the command says so, and what to do; the payment was made."""
    document = credentials(folder)
    document["webhook"]["url"] = "http://127.0.0.1:9/inbox"
    file = tmp_path / "credentials.json"
    file.write_text(json.dumps(document))
    subscribe(folder, "http://127.0.0.1:9/inbox")
    # Of the wait alone; the message has the real one.
    monkeypatch.setattr(progress, "INBOX_SECONDS_MAX", 0.2)
    ended = paid(folder, "--credentials", str(file), *QUICK)
    assert "The demo inbox has not received 3 of the webhooks within 5 s" in ended.stderr
    assert "paydesk deliveries list --order ORD" in ended.stderr


def test_json_is_the_final_order_alone(folder: Path) -> None:
    """With its events and deliveries, and the reference that was given."""
    order = json.loads(paid(folder, "--json", "--reference", "sale-0042").stdout)
    assert (order["status"], order["external_reference"]) == ("processed", "sale-0042")
    assert [event["status"] for event in order["events"]] == ["created", "at_terminal", "processed"]
    inbox = credentials(folder)["webhook"]["url"]
    delivered = [delivery["status"] for delivery in order["deliveries"] if delivery["url"] == inbox]
    assert delivered == ["delivered"] * 3


def test_declined_payment_is_on_a_terminal_of_its_own(folder: Path) -> None:
    """Which is deleted afterwards."""
    before = command("terminals", "list", "--json", folder=folder).stdout
    ended = command("pay", "5", "--decline", "insufficient_amount:0.1s", "--json", folder=folder)
    assert ended.returncode == 1
    assert ended.stderr == "The order ended as failed: insufficient_amount.\n"
    order = json.loads(ended.stdout)
    assert order["config"]["point"]["terminal_id"] not in before
    after = command("terminals", "list", "--json", folder=folder).stdout
    assert [one["id"] for one in json.loads(after)] == [one["id"] for one in json.loads(before)]


def test_json_script_and_reference_together(folder: Path) -> None:
    """And a decline by a script: the final order alone is on standard output."""
    order = json.loads(paid(folder, "--json", *QUICK, "--reference", "sale-0044").stdout)
    assert (order["status"], order["external_reference"]) == ("processed", "sale-0044")
    declined = command("pay", "5", "--json", "--decline", "high_risk:0.1s", "--reference", "sale-0045", folder=folder)
    assert declined.returncode == 1
    order = json.loads(declined.stdout)
    assert (order["status"], order["external_reference"]) == ("failed", "sale-0045")


def test_quiet_prints_the_id_and_the_status(folder: Path) -> None:
    """On one line, also of a payment that was declined."""
    ended = paid(folder, "--quiet", *QUICK)
    assert re.fullmatch(r"ORD[0-9A-Z]{26} processed\n", ended.stdout)
    declined = command("pay", "5", "--quiet", "--decline", "high_risk:0.1s", folder=folder)
    assert re.fullmatch(r"ORD[0-9A-Z]{26} failed\n", declined.stdout)
    assert (declined.returncode, declined.stderr) == (1, "The order ended as failed: high_risk.\n")


def test_payment_by_a_script(folder: Path) -> None:
    """Any of the virtual terminal, also a list."""
    paid(folder, *QUICK)
    paid(folder, "--script", "approve:0.1s*2,decline:high_risk")


@each(
    "options, code, message",
    [
        (("--decline", "nothing_like_it"), 2, f"valid details: {', '.join(FAILED_DETAILS)}"),
        (("--script", "dance"), 2, f"valid scripts: {AVAILABLE}"),
        (("--script", "approve", "--decline", "high_risk"), 2, "Give only one of --terminal, --script and --decline."),
        (("--terminal", "T", "--script", "approve"), 2, "Give only one of --terminal, --script and --decline."),
        (("--decline", ""), 2, "valid details: "),
        (("--terminal", ""), 2, "must not be empty"),
        (("--quiet", "--json"), 2, "Give only one of --quiet and --json."),
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
