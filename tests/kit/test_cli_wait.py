"""`paydesk wait` against a running `paydesk dev`, in place of sleeps in scripts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
import yaml

from command_line import command
from docs_programs import DOCS, blocks, run, section
from paydesk_process import PAYDESK, credentials, dev, start
from tables import each
from waiting import HANGS_SECONDS

UNKNOWN = "ORD01J67CQQH5904WDBVZEM4JMEP3"
AWAY = "http://127.0.0.1:9"


def wait(folder: Path, *arguments: str, code: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `paydesk wait …`, which must exit with `code`."""
    ended = command("wait", *arguments, folder=folder, **variables)
    assert ended.returncode == code, (arguments, ended.stdout, ended.stderr)
    return ended


def pay(folder: Path, *options: str) -> str:
    """Return an order that is being paid on a virtual terminal."""
    ended = command("orders", "create", "24.90", *options, "--json", folder=folder)
    assert ended.returncode == 0, ended.stderr
    order_id: str = json.loads(ended.stdout)["id"]
    return order_id


def test_an_order_and_its_webhooks_are_waited_for(folder: Path) -> None:
    """They are printed; those that came before count."""
    order_id = pay(folder)
    ended = wait(folder, "order", order_id, "processed", "--detail", "accredited")
    assert ended.stdout == f"{order_id} is processed (accredited).\n"
    assert json.loads(wait(folder, "order", order_id.lower(), "processed", "--json").stdout)["id"] == order_id
    received = json.loads(wait(folder, "webhook", "order.processed", "--order", order_id, "--json").stdout)
    assert [(one["action"], one["order_id"]) for one in received] == [("order.processed", order_id)]
    other = pay(folder)
    lines = wait(folder, "webhook", "order.processed", "--count", "2").stdout.splitlines()
    assert {line.split("\t")[2] for line in lines} == {order_id, other}


def test_what_does_not_come_in_time_exits_1_and_says_what_came(folder: Path) -> None:
    """At once if the status can no longer come; a webhook, an order and a service with the time."""
    order_id = pay(folder)
    wait(folder, "order", order_id, "processed")
    ended = wait(folder, "order", order_id, "processed", "--detail", "partially_refunded", "--seconds", "0", code=1)
    expected = f"{order_id} is processed (accredited). It did not become processed partially_refunded within 0 s."
    assert expected in " ".join(ended.stderr.split())
    for wanted in (("failed",), ("at_terminal",), ("processed", "--detail", "high_risk")):
        ended = wait(folder, "order", order_id, *wanted, "--seconds", "3600", code=1)
        assert f"{order_id} is processed (accredited). It can no longer become {wanted[0]}" in ended.stderr
    assert command("orders", "refund", order_id, folder=folder).returncode == 0
    ended = wait(folder, "order", order_id, "processed", "--seconds", "3600", code=1)
    assert f"{order_id} is refunded (refunded). It can no longer become processed." in ended.stderr
    wait(folder, "webhook", "order.refunded", "--order", order_id)
    arguments = ("webhook", "order.processed", "--order", order_id, "--count", "2", "--seconds", "0")
    ended = wait(folder, *arguments, code=1)
    assert f"received order.processed about {order_id} 1 of 2 times within 0 s." in ended.stderr
    assert "order.processed, order.refunded." in ended.stderr
    ended = wait(folder, "ready", "--url", AWAY, "--seconds", "0", code=1)
    assert f"Not ready within 0 s. Cannot connect to {AWAY}" in ended.stderr


@each(
    "arguments, code, message",
    [
        (("ready", "--url", "localhost"), 2, "is not the URL of a service"),
        (("ready", "--seconds", "-1"), 2, "'--seconds': Input should be greater than or equal to 0"),
        (("order", UNKNOWN, "paid"), 2, "No order is 'paid'. The statuses are created, at_terminal"),
        (("order", "ORD1", "processed"), 2, "is not the id of an order"),
        (("order", UNKNOWN, "processed"), 1, "(order_not_found)"),
        (("webhook", "order.paid"), 2, "No webhook has the action 'order.paid'. The actions are order.created"),
        (("webhook", "order.processed", "--order", "ORD1"), 2, "is not the id of an order"),
        (("webhook", "order.processed", "--count", "0"), 2, "'--count': Input should be greater than or equal to 1"),
    ],
)
def test_wrong_usage_exits_2(folder: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    """With what to write; an order that does not exist is a refusal."""
    ended = command("wait", *arguments, folder=folder)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert message in " ".join(ended.stderr.replace("│", " ").split())


@pytest.mark.long("a service starts as a process")
def test_a_service_that_is_being_started_becomes_ready(tmp_path: Path) -> None:
    """Its credentials file appears meanwhile."""
    waiting = start(("wait", "ready"), {}, tmp_path, tmp_path / "out")
    with dev(tmp_path):
        assert waiting.wait(HANGS_SECONDS) == 0
        assert (tmp_path / "out").read_text() == f"{credentials(tmp_path)['base_url']} is ready.\n"
        assert json.loads(wait(tmp_path, "ready", "--json").stdout)["status"] == "ready"


class _NotReady(BaseHTTPRequestHandler):
    answers: ClassVar = [
        (503, b'{"errors": [{"code": "not_ready", "message": "This node is not ready.", "details": ["no keys"]}]}'),
        (200, b"hello"),
    ]

    def do_GET(self) -> None:
        """Answer as a service that is not ready, then as another program."""
        status, body = self.answers.pop(0)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_what_is_not_ready_says_why(tmp_path: Path) -> None:
    """In the words of the service; another program is none, and without credentials there is no service yet."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _NotReady)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        ended = wait(tmp_path, "ready", "--url", url, "--seconds", "0", code=1)
        assert "Not ready within 0 s. This node is not ready. (not_ready)" in ended.stderr
        assert "no keys" in ended.stderr
        assert "not from Paydesk" in wait(tmp_path, "ready", "--url", url, "--seconds", "0", code=1).stderr
    finally:
        server.shutdown()
        server.server_close()
    assert "No service is configured" in wait(tmp_path, "ready", "--seconds", "0", code=1).stderr


@pytest.mark.long("a service starts as a process")
def test_the_page_on_ci_runs(tmp_path: Path) -> None:
    """Its script from start to end; its jobs install and run the same as its first lines."""
    page = (DOCS / "ci.md").read_text()
    (script,) = blocks(section(page, "## Without pytest"), "sh")
    output = run(tmp_path, f"set -e\n{script}wait $!\n", "sh", PATH=f"{Path(PAYDESK).parent}:{os.environ['PATH']}")
    assert re.search(r"is ready\.\nORD\w+ is processed \(accredited\)\.\n.*\torder.processed\tORD", output), output
    (github,), (gitlab,) = (blocks(section(page, heading), "yaml") for heading in ("## GitHub", "## GitLab"))
    steps = [step["run"] for step in yaml.safe_load(github)["jobs"]["till"]["steps"] if "run" in step]
    assert steps == yaml.safe_load(gitlab)["till"]["script"]
    assert [step.split()[0] for step in steps] == ["pip", "pytest"]
