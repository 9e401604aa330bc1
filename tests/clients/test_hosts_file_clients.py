"""The official Node client, unmodified and unconfigured, makes a payment by a hosts file and `dev --tls`.

Service and client run in a namespace of their own, with its own hosts file and port 443, for which no right is needed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import node_clients
from conftest import skip_unless_ci
from paydesk_dev.tls.certificates import VENDOR_HOSTS
from paydesk_process import PAYDESK, credentials, environment
from waiting import HANGS_SECONDS, wait_until

PROGRAM = str(Path(__file__).with_name("hosts_file_dev.py"))
NAMESPACE = ["unshare", "--map-root-user", "--mount", "--net"]
HOSTS = f"127.0.0.1 localhost {' '.join(VENDOR_HOSTS)}\n"


@dataclass(frozen=True)
class Isolated:
    """A running `paydesk dev` in a namespace."""

    folder: Path
    pid: int
    variables: dict[str, str]

    def run(self, *program: str, cwd: Path, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program in the namespace."""
        enter = ["nsenter", "--target", str(self.pid), "--user", "--mount", "--net", "--preserve-credentials"]
        return subprocess.run(
            [*enter, f"--wd={cwd}", *program],
            env={**self.variables, **variables},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=HANGS_SECONDS,
            check=False,
        )


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Isolated]:
    """The service, whose http port is free in its namespace too."""
    missing = next((one for one in ("unshare", "nsenter", "mount") if shutil.which(one) is None), None)
    if missing is not None or subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode:
        skip_unless_ci(f"{missing or 'a namespace'} is missing: Linux with util-linux lets every user make one")
    folder = tmp_path_factory.mktemp("dev")
    (folder / "hosts").write_text(HOSTS)
    out, errors = folder / "out", folder / "errors"
    variables = environment(XDG_DATA_HOME=str(folder / "home"))
    with out.open("wb") as written, errors.open("wb") as said:
        running = subprocess.Popen(
            [*NAMESPACE, sys.executable, PROGRAM, PAYDESK, str(folder / "hosts")],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=said,
        )
    try:
        wait_until(lambda: "paydesk ready " in out.read_text() or running.poll() is not None, errors.read_text)
        assert running.poll() is None, errors.read_text()
        yield Isolated(folder, running.pid, variables)
    finally:
        running.kill()
        running.wait(HANGS_SECONDS)


@pytest.fixture(scope="module")
def given(service: Isolated) -> dict[str, Any]:
    """What the program is given on standard input: the application, a code, and a terminal that approves."""
    code = service.run(PAYDESK, "code", cwd=service.folder)
    assert code.returncode == 0, code.stderr
    document = credentials(service.folder)
    terminal = next(one["id"] for one in document["terminals"] if one["script"] == "approve")
    application = {name: document[name] for name in ("client_id", "client_secret", "redirect_uri")}
    return {**application, "code": code.stdout.strip(), "terminal_id": terminal}


def test_node_client_makes_a_payment_without_a_changed_line(service: Isolated, given: dict[str, Any]) -> None:
    """It calls the vendor's address; only the hosts file and the trusted certificate are set, and no proxy."""
    node_clients.require()
    found = credentials(service.folder)
    assert found["tls_base_url"] == "https://localhost:443"
    program = [shutil.which("node") or "node", "payment.mjs"]
    made = service.run(
        *program, cwd=node_clients.FOLDER, stdin=json.dumps(given), NODE_EXTRA_CA_CERTS=found["ca_file"], HTTPS_PROXY=""
    )
    assert made.returncode == 0, made.stderr
    answers = json.loads(made.stdout)
    assert answers["token"]["live_mode"] is False
    assert given["terminal_id"] in json.dumps(answers["terminals"])
    assert (answers["paid"]["status"], answers["refunded"]["status"]) == ("processed", "refunded")
