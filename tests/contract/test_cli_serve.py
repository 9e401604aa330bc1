"""`paydesk serve`: clients and operators on listeners of their own, and nothing that is for development."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paydesk_process import PAYDESK, command, environment, request


@pytest.fixture
def serving(database_url: str, tmp_path: Path) -> Iterator[tuple[str, str, str, subprocess.Popen[str]]]:
    """The clients' address, the operators' address, an operator's token, and the process."""
    variables = {
        "PAYDESK_DATABASE_URL": database_url,
        "PAYDESK_PUBLIC_URL": "http://127.0.0.1:1",
        "PAYDESK_LISTEN": "127.0.0.1:0",
        "PAYDESK_OPERATOR_LISTEN": "127.0.0.1:0",
        "PAYDESK_LOG_FORMAT": "json",
    }
    assert command("keys", "add", folder=tmp_path).returncode == 0
    made = command("operators", "create", "--name", "ana", "--json", folder=tmp_path, **variables)
    process = subprocess.Popen(
        [PAYDESK, "serve"], cwd=tmp_path, env=environment(**variables), stderr=subprocess.PIPE, text=True
    )
    try:
        found = listening(process)
        yield f"http://{found['clients']}", f"http://{found['operators']}", json.loads(made.stdout)["token"], process
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def listening(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the line of the log that names both listeners, once there is one."""
    assert process.stderr is not None
    log = []
    for line in process.stderr:
        log.append(line)
        if '"event":"listening"' in line:
            found: dict[str, Any] = json.loads(line)
            return found
    raise AssertionError("".join(log))


@pytest.mark.on_postgres
def test_listeners(serving: tuple[str, str, str, subprocess.Popen[str]], tmp_path: Path) -> None:
    """Operators' paths are on their listener alone, and clients' on theirs; development has no path at all."""
    clients, operators, token, process = serving
    assert request("GET", f"{operators}/operator/v1/sellers", token)[0] == 200
    assert request("GET", f"{clients}/operator/v1/sellers", token)[0] == 404
    assert request("GET", f"{clients}/terminals/v1/list")[0] == 401
    assert request("GET", f"{operators}/terminals/v1/list")[0] == 404
    for address in (clients, operators):
        assert request("GET", f"{address}/livez")[0] == 200
        assert request("GET", f"{address}/readyz")[0] == 200
        for path in ("/dev/clock", "/demo/inbox", "/demo/callback"):
            assert request("GET", address + path, token)[0] == 404
        assert request("POST", f"{address}/operator/v1/codes", token, {})[0] == 404
    listed = command("apps", "list", folder=tmp_path, PAYDESK_BASE_URL=operators, PAYDESK_OPERATOR_TOKEN=token)
    wrong = command("apps", "list", folder=tmp_path, PAYDESK_BASE_URL=clients, PAYDESK_OPERATOR_TOKEN=token)
    assert (wrong.returncode, "must be the one for operators (`operator_listen`)" in wrong.stderr) == (1, True)
    assert listed.returncode == 0, listed.stderr
    process.terminate()
    _, errors = process.communicate()
    assert process.returncode == 0
    events = [json.loads(line)["event"] for line in errors.splitlines()]
    assert "requests_aborted" not in events


def test_one_listener_for_clients_and_operators_is_refused(tmp_path: Path) -> None:
    """Two at port 0 are not the same, see above."""
    address = "127.0.0.1:8080"
    variables = {"PAYDESK_PUBLIC_URL": f"http://{address}", "PAYDESK_DATABASE_URL": f"sqlite:{tmp_path / 'p.db'}"}
    listeners = {"PAYDESK_LISTEN": address, "PAYDESK_OPERATOR_LISTEN": address}
    refused = command("serve", folder=tmp_path, **variables, **listeners)
    assert (refused.returncode, "operators need a separate listener" in refused.stderr) == (1, True), refused.stderr
