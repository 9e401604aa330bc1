"""`paydesk terminals simulate` as a process, with a running `paydesk dev` and `paydesk serve`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dev_thread
from command_line import command as run_here
from oauth_scene import make_scene
from paydesk.core.clock import SystemClock
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.migrate import migrate
from paydesk_process import PAYDESK, command, credentials, environment, request, start
from serve_process import ServeProcess
from service import access_token
from waiting import HANGS_SECONDS, wait_until


class Simulation:
    """A running `paydesk terminals simulate`."""

    def __init__(self, folder: Path, *options: str, **variables: str) -> None:
        name = f"simulate-{uuid.uuid4().hex}"
        self._out, self._errors = folder / f"{name}.out", folder / f"{name}.err"
        arguments = ("terminals", "simulate", "--json", *options)
        self._process = start(arguments, variables, folder, self._out, self._errors)

    def said(self) -> str:
        """Return its standard error so far."""
        return self._errors.read_text()

    def wait_for(self, text: str) -> None:
        """Wait until it has printed the text."""

        def is_there() -> bool:
            has_ended = self._process.poll() is not None
            found = text in self.said()
            assert found or not has_ended, self.said()
            return found

        wait_until(is_there, self.said)

    def end(self) -> dict[str, int]:
        """Send SIGINT, as Ctrl-C does; return the totals."""
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(HANGS_SECONDS) == 0, self.said()
        totals: dict[str, int] = json.loads(self._out.read_text())
        return totals

    def close(self) -> None:
        """Kill it if it runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(HANGS_SECONDS)


@contextlib.contextmanager
def simulation(folder: Path, *options: str, **variables: str) -> Iterator[Simulation]:
    """Run a simulation until its terminals are ready."""
    running = Simulation(folder, *options, **variables)
    try:
        running.wait_for("are ready")
        yield running
    finally:
        running.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the folder of a running `paydesk dev`, shared by the tests of this module."""
    path = tmp_path_factory.mktemp("dev")
    with dev_thread.dev(path):
        yield path


class Shop:
    """An application and an operator of a service."""

    def __init__(self, clients: str, operators: str, operator_token: str, access_token: str) -> None:
        self.clients, self.operators = clients, operators
        self._operator_token, self._access_token = operator_token, access_token

    @classmethod
    def of(cls, folder: Path) -> Shop:
        """Return those of the credentials file."""
        found = credentials(folder)
        return cls(found["base_url"], found["base_url"], found["operator"]["token"], found["test"]["access_token"])

    def simulated(self) -> list[dict[str, Any]]:
        """Return the terminals in the stores of simulations."""
        stores = {store["store_id"] for store in self._listed("stores") if store["name"] == "Simulated terminals"}
        return [terminal for terminal in self._listed("terminals") if terminal["store_id"] in stores]

    def remains(self) -> list[Any]:
        """Return what simulations have left: terminals, and stores."""
        stores = [store for store in self._listed("stores") if store["name"] == "Simulated terminals"]
        return [
            *self.simulated(),
            *stores,
            *(pos for pos in self._listed("pos") if "DEMO" not in pos["external_pos_id"]),
        ]

    def pay(self, terminal_id: str) -> str:
        """Create an order, wait until it has ended, and return its status."""
        body = {
            "type": "point",
            "transactions": {"payments": [{"amount": "24.90"}]},
            "config": {"point": {"terminal_id": terminal_id, "print_on_terminal": "no_ticket"}},
        }
        path, headers = f"{self.clients}/v1/orders", {"X-Idempotency-Key": str(uuid.uuid4())}
        status, order = request("POST", path, self._access_token, body, headers)
        assert status == 201, order

        def state() -> str:
            return str(request("GET", f"{path}/{order['id']}", self._access_token)[1]["status"])

        wait_until(lambda: state() not in ("created", "at_terminal"))
        return state()

    def _listed(self, what: str) -> list[dict[str, Any]]:
        status, answer = request("GET", f"{self.operators}/operator/v1/{what}?limit=200", self._operator_token)
        assert status == 200, answer
        rows: list[dict[str, Any]] = answer["data"]
        return rows


def test_terminals_are_paired_pay_and_are_removed(folder: Path) -> None:
    """Each has a point of sale of its own; at the end nothing of them is left but their orders."""
    shop = Shop.of(folder)
    with simulation(folder, "--count", "3", "--script", "approve:0s*2,decline:0s") as running:
        terminals = shop.simulated()
        assert [(one["operating_mode"], one["live_mode"]) for one in terminals] == [("PDV", False)] * 3
        assert all(one["id"].startswith("PAYDESK_VIRTUAL__") for one in terminals)
        assert len({one["pos_id"] for one in terminals}) == 3
        assert [shop.pay(terminals[0]["id"]) for _ in range(3)] == ["processed", "processed", "failed"]
        assert shop.pay(terminals[1]["id"]) == "processed"
        running.wait_for("3 connected, 0 paying, 3 waiting, 3 approved, 1 declined")
        assert running.end() == {"terminals": 3, "approved": 3, "declined": 1, "canceled": 0, "unknown": 0}
    assert shop.remains() == []


def test_terminal_with_an_order_is_released_and_removed(folder: Path) -> None:
    """The order is canceled: no terminal has it any more."""
    shop = Shop.of(folder)
    with simulation(folder, "--count", "1", "--script", "ignore") as running:
        (terminal,) = shop.simulated()
        body = {
            "type": "point",
            "transactions": {"payments": [{"amount": "24.90"}]},
            "config": {"point": {"terminal_id": terminal["id"]}},
        }
        token, headers = credentials(folder)["test"]["access_token"], {"X-Idempotency-Key": str(uuid.uuid4())}
        status, order = request("POST", f"{shop.clients}/v1/orders", token, body, headers)
        assert status == 201
        running.end()
    assert request("GET", f"{shop.clients}/v1/orders/{order['id']}", token)[1]["status"] == "canceled"
    assert shop.remains() == []


@pytest.mark.slow
def test_script_file_flaky_and_kept_journals(folder: Path, tmp_path: Path) -> None:
    """A later run continues the terminals that were kept, with the orders that they have had."""
    shop, file = Shop.of(folder), tmp_path / "shop.toml"
    file.write_text('[[lunch]]\nscript = "approve:0s"\n[[lunch]]\nscript = "cancel:0s"\n')
    options = ("--count", "2", "--script-file", str(file), "--journals", str(tmp_path / "journals"))
    with simulation(folder, *options, "--keep") as running:
        (first, second) = shop.simulated()
        assert shop.pay(first["id"]) == "processed"
        running.end()
    assert [one["id"] for one in shop.simulated()] == [first["id"], second["id"]]
    with simulation(folder, *options, "--script", "flaky:0.15:lunch", "--seed", "1") as running:
        assert "2 terminals continue from their journals" in running.said()
        assert [shop.pay(first["id"]) for _ in range(4)] == ["canceled", "processed", "canceled", "processed"]
        totals = running.end()
    assert sum(totals[fault] for fault in ("answer_lost", "reset", "twice", "late", "out_of_order")) > 0
    for terminal in (first, second):
        assert command("terminals", "delete", terminal["id"], folder=folder).returncode == 0


def test_interrupted_pairing_removes_what_was_paired(tmp_path: Path) -> None:
    """Also while the service accepts no more pairings."""
    with dev_thread.dev(tmp_path, PAYDESK_PAIRINGS_PER_MINUTE_ADDRESS="3"):
        running = Simulation(tmp_path, "--count", "30")
        try:
            running.wait_for("raise its setting pairings_per_minute_address")
            assert 0 < running.end()["terminals"] < 30
        finally:
            running.close()
        assert Shop.of(tmp_path).remains() == []


@pytest.mark.long("starts `paydesk serve` and a simulation")
def test_terminals_of_kind_service_pay_under_serve(tmp_path: Path) -> None:
    """The service has no simulated acquirer for terminals: it asks its own."""
    url = f"sqlite:{tmp_path}/paydesk.db"
    serving = ServeProcess(url, tmp_path)
    token = asyncio.run(_seeded(url))
    made = command("operators", "create", "--name", "ana", "--json", folder=tmp_path, **serving.variables)
    operator_token = json.loads(made.stdout)["token"]
    serving.start()
    try:
        serving.wait_for("listening", 1)
        shop = Shop(serving.clients, serving.operators, operator_token, token)
        variables = {"PAYDESK_BASE_URL": serving.operators, "PAYDESK_OPERATOR_TOKEN": operator_token}
        refused = command("terminals", "simulate", folder=tmp_path, **variables)
        assert refused.returncode == 1
        assert "--device-url" in refused.stderr
        options = ("--device-url", serving.clients, "--count", "2", "--script", "approve:0s*2,decline:high_risk:0s")
        with simulation(tmp_path, *options, **variables) as running:
            terminals = shop.simulated()
            assert [shop.pay(terminals[0]["id"]) for _ in range(3)] == ["processed", "processed", "failed"]
            totals = running.end()
        # The service ends these orders itself: of the last one the terminal's report may be under way.
        assert totals["approved"] == 2
        assert totals["declined"] <= 1
        assert shop.remains() == []
    finally:
        serving.close()


async def _seeded(url: str) -> str:
    """Return an access token of a new seller."""
    database = await open_database(url)
    try:
        now_ms = SystemClock().now_ms()
        await migrate(database, now_ms)
        return await access_token(await make_scene(database), now_ms, live=False)
    finally:
        await database.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--script", "aprove"), "unknown script 'aprove'"),
        (("--script", "approve,manual"), "simulated terminals have no page"),
        (("--script", "flaky:2"), "probability"),
        (("--script-file", "none.toml"), "none.toml cannot be read"),
        (("--count", "0"), "--count"),
        (("--poll-seconds", "56"), "--poll-seconds"),
    ],
)
def test_wrong_usage_is_refused(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    """Before any request."""
    ended = run_here("terminals", "simulate", *options, folder=tmp_path, PAYDESK_BASE_URL="http://127.0.0.1:1")
    assert ended.returncode == 2
    assert message in ended.stderr


def test_unreachable_service_is_named(tmp_path: Path) -> None:
    """With exit code 3."""
    ended = run_here("terminals", "simulate", folder=tmp_path, PAYDESK_BASE_URL="http://127.0.0.1:1")
    assert ended.returncode == 3
    assert "Cannot connect to http://127.0.0.1:1" in ended.stderr


def test_too_few_open_files_are_refused(tmp_path: Path) -> None:
    """The message says how many are possible."""
    ended = subprocess.run(
        [PAYDESK, "terminals", "simulate", "--count", "2000"],
        cwd=tmp_path,
        env=environment(PAYDESK_BASE_URL="http://127.0.0.1:1"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 1024)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "the hard limit of this process is 1024" in ended.stderr
    assert "--count 308" in ended.stderr


def test_soft_limit_of_open_files_is_raised(folder: Path) -> None:
    """As far as the terminals need."""
    limited = ["sh", "-c", f"ulimit -Sn 64 && exec {PAYDESK} terminals simulate --count 30 --json"]
    process = subprocess.Popen(limited, cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "30 connected" in line:
                break
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=HANGS_SECONDS)
        assert process.returncode == 0, lines
    finally:
        process.kill()
        process.communicate()
