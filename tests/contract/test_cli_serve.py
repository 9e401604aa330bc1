"""`paydesk serve`: clients and operators on listeners of their own, and nothing that is for development."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from free_port import free_port
from paydesk_process import PAYDESK, command, environment, request

READY_SECONDS_MAX = 30.0


@pytest.fixture
def serving(database_url: str, tmp_path: Path) -> Iterator[tuple[str, str, str, subprocess.Popen[str]]]:
    """The clients' address, the operators' address, an operator's token, and the process."""
    clients, operators = (f"127.0.0.1:{free_port()}" for _ in range(2))
    variables = {
        "PAYDESK_DATABASE_URL": database_url,
        "PAYDESK_PUBLIC_URL": f"http://{clients}",
        "PAYDESK_LISTEN": clients,
        "PAYDESK_OPERATOR_LISTEN": operators,
    }
    assert command("keys", "add", folder=tmp_path).returncode == 0
    made = command("operators", "create", "--name", "ana", "--json", folder=tmp_path, **variables)
    process = subprocess.Popen(
        [PAYDESK, "serve"], cwd=tmp_path, env=environment(**variables), stderr=subprocess.PIPE, text=True
    )
    try:
        wait_until_listening(operators)
        wait_until_listening(clients)
        yield f"http://{clients}", f"http://{operators}", json.loads(made.stdout)["token"], process
    finally:
        process.kill()
        process.communicate()


def wait_until_listening(address: str) -> None:
    """Wait until a server accepts connections there."""
    host, _, port = address.partition(":")
    until = time.monotonic() + READY_SECONDS_MAX
    while True:
        try:
            socket.create_connection((host, int(port)), 1).close()
        except OSError:
            assert time.monotonic() < until, "no listener"
            time.sleep(0.05)
        else:
            return


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
    started = time.monotonic()
    process.terminate()
    assert process.wait(20) == 0
    assert time.monotonic() - started < 5
