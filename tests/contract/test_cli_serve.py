"""`paydesk serve`: clients and operators on listeners of their own, and nothing that is for development."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import command
from paydesk.core.version import version
from paydesk_process import request
from serve_process import ServeProcess
from waiting import wait_until


@pytest.mark.on_postgres
def test_listeners(database_url: str, tmp_path: Path) -> None:
    """Operators' paths are on their listener alone, and clients' on theirs; development has no path at all."""
    serve = ServeProcess(database_url, tmp_path)
    made = command("operators", "create", "--name", "ana", "--json", folder=tmp_path, **serve.variables)
    token = json.loads(made.stdout)["token"]
    process = serve.start()
    try:
        serve.wait_for("listening", 1)
        _is_private(process.pid)
        first = serve.lines()[0]
        assert (first["event"], first["version"]) == ("starting", version())
        clients, operators = serve.clients, serve.operators
        assert request("GET", f"{operators}/operator/v1/sellers", token)[0] == 200
        assert request("GET", f"{clients}/operator/v1/sellers", token)[0] == 404
        assert request("GET", f"{clients}/terminals/v1/list")[0] == 401
        assert request("GET", f"{operators}/terminals/v1/list")[0] == 404
        for address in (clients, operators):
            assert request("GET", f"{address}/livez")[0] == 200
            wait_until(lambda url=f"{address}/readyz": request("GET", url)[0] == 200)  # type: ignore[misc]
            for path in ("/dev/clock", "/demo/inbox", "/demo/callback"):
                assert request("GET", address + path, token)[0] == 404
            assert request("POST", f"{address}/operator/v1/codes", token, {})[0] == 404
        listed = command("apps", "list", folder=tmp_path, PAYDESK_BASE_URL=operators, PAYDESK_OPERATOR_TOKEN=token)
        wrong = command("apps", "list", folder=tmp_path, PAYDESK_BASE_URL=clients, PAYDESK_OPERATOR_TOKEN=token)
        assert (wrong.returncode, "must be the one for operators (`operator_listen`)" in wrong.stderr) == (1, True)
        assert listed.returncode == 0, listed.stderr
        serve.end(process)
        assert not serve.lines("requests_aborted")
    finally:
        serve.close()


def _is_private(pid: int) -> None:
    """Core dumps are off, and new files are private."""
    status, limits = (Path(f"/proc/{pid}/{name}").read_text() for name in ("status", "limits"))
    assert re.search(r"^Umask:\s0077$", status, re.MULTILINE)
    assert re.search(r"^Max core file size +0 +0 ", limits, re.MULTILINE)


def test_memory_of_a_private_process_cannot_be_dumped() -> None:
    """Also where a handler of core dumps ignores their limit: the process is not dumpable."""
    program = (
        "import ctypes; from paydesk.platform.process import node; node.keep_private();"
        " print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "0"


def test_one_listener_for_clients_and_operators_is_refused(tmp_path: Path) -> None:
    """Two at port 0 are not the same, see above."""
    address = "127.0.0.1:8080"
    variables = {"PAYDESK_PUBLIC_URL": f"http://{address}", "PAYDESK_DATABASE_URL": f"sqlite:{tmp_path / 'p.db'}"}
    listeners = {"PAYDESK_LISTEN": address, "PAYDESK_OPERATOR_LISTEN": address}
    refused = command("serve", folder=tmp_path, **variables, **listeners)
    assert (refused.returncode, "operators need a separate listener" in refused.stderr) == (1, True), refused.stderr
