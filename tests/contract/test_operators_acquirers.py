"""`/operator/v1/acquirers` and `paydesk acquirers`: which orders each takes, and whether it can be reached."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from command_line import command
from console_scene import console
from free_port import refusing_port
from operator_calls import Operator, audited, operator
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.capabilities import Capabilities
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from played_switch import OTHER_SECRET, SECRET, PlayedSwitch, Reply, listening
from service import Service, running
from waiting import until_found

FILE = """
[acquirers.main]
adapter = "http"
url = "http://127.0.0.1:{port}/paydesk"
key_id = "shop-1"
secret = "env:SWITCH_KEY"
capabilities = {{ needs_confirmation = true, confirm_before = {{ time = "00:00", zone = "America/Sao_Paulo" }} }}

[acquirers.other]
adapter = "http"
url = "http://127.0.0.1:{refusing}"
key_id = "shop-2"
secret = "env:SWITCH_KEY"
capabilities = {{ currencies = ["BRL", "ARS"], not_found_final_seconds = 90, reverse_until = 3600 }}

[[rules]]
acquirer = "other"
seller = 7
currency = "ARS"

[[rules]]
acquirer = "other"
terminal = "N950__*"
"""


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCH_KEY", SECRET)


def settings(folder: Path, port: int, refusing: int) -> Settings:
    """Write the acquirers file and return the settings that name it."""
    path = folder / "acquirers.toml"
    path.write_text(FILE.format(port=port, refusing=refusing))
    path.chmod(0o600)
    return Settings(acquirer="main", acquirers_file=str(path))


async def settled(desk: Operator, address: str = "127.0.0.1") -> Any:
    """Return the attention items about acquirers, once the first echoes of all are answered, or not."""

    async def found() -> Any:
        breakers = [one["breaker"] for one in (await listed(desk))["data"]]
        items = [one for one in (await desk.did("GET", "attention"))["data"] if one["kind"] == "acquirer_unreachable"]
        return "untested" not in breakers and len(items) == breakers.count("open") and [items]

    (items,) = await until_found(found)
    assert all(address in item["message"] for item in items)
    return items


@asynccontextmanager
async def started(database: Database, settings: Settings) -> AsyncIterator[Service]:
    """A service that has sent its first echoes."""
    async with running(database, settings=settings) as service:
        await asyncio.gather(*(one.echo() for one in service.shared.objects[Acquirers].live.values()))
        yield service


async def listed(desk: Operator, query: str = "") -> Any:
    """Return the list."""
    return await desk.did("GET", f"acquirers{query}")


async def paydesk(service: Service, desk: Operator, folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Return exit code, output and errors of a command of the operator."""
    variables = {"PAYDESK_BASE_URL": service.base_url, "PAYDESK_OPERATOR_TOKEN": desk.token}
    ended = await asyncio.to_thread(command, *arguments, folder=folder, **variables)
    return ended.returncode, ended.stdout, ended.stderr


async def test_the_list_says_which_orders_an_acquirer_takes_and_what_it_can_do(
    database: Database, tmp_path: Path
) -> None:
    """By name, with the state of the node that answers, and without secrets."""
    with refusing_port() as refusing:
        async with started(database, settings(tmp_path, 9, refusing)) as service:
            desk = await operator(service, "viewer")
            unreachable = await settled(desk)
            assert [item["subject"] for item in unreachable] == ["main", "other"]
            assert unreachable[1]["do"] == "Check the switch; an echo is tried once a minute."
            page = await listed(desk)
            main, other = page["data"]
            node, next_echo = main.pop("node"), main.pop("next_echo_date")
            assert unreachable[0]["message"] == (
                f"A node sends no sale to it since {unreachable[0]['since_date']}: {main.pop('reason')}."
            )
            assert node == other.pop("node")
            capabilities = main.pop("capabilities")
            assert capabilities["confirm_before"] == {"time": "00:00:00", "zone": "America/Sao_Paulo"}
            assert capabilities["idempotent"] == ["authorize", "confirm", "refund", "reverse"]
            assert set(capabilities) == {field.name for field in fields(Capabilities)}
            assert main == {
                "name": "main",
                "adapter": "http",
                "address": "http://127.0.0.1:9/paydesk",
                "key_id": "shop-1",
                "default": True,
                "rules": [],
                "breaker": "open",
            }
            assert (other["default"], other["key_id"]) == (False, "shop-2")
            assert other["rules"] == [{"seller": 7, "currency": "ARS"}, {"terminal": "N950__*"}]
            capabilities = other["capabilities"]
            assert (capabilities["not_found_final_seconds"], capabilities["reverse_until"]) == (90, 3600)
            assert capabilities["currencies"] == ["ARS", "BRL"]
            other = (await listed(desk, "?after=main"))["data"][0]
            assert other["breaker"] == "open"
            assert other["reason"].endswith("refuses connections")
            shown = (await (await console(service, "viewer")).open("/console/acquirers")).text
            assert "of live orders, as the node that answers has them" in shown
            assert f"Unreachable {other['reason']}" in " ".join(shown.split())
            assert "Next echo" in shown
            assert next_echo > unreachable[0]["since_date"]
            assert "Acquirer unreachable" in (await (await console(service, "viewer")).open("/console")).text
            first = await listed(desk, "?limit=1")
            assert [one["name"] for one in first["data"]] == ["main"]
            assert first["next"] == "main"
            assert SECRET not in json.dumps(page)


async def test_an_echo_tests_an_acquirer(database: Database, tmp_path: Path) -> None:
    """Whatever its breaker's state is. The audit trail records it; a viewer may not."""
    switch = PlayedSwitch()
    switch.echo = Reply(seconds_off=200)
    with refusing_port() as refusing:
        async with listening(switch) as port, started(database, settings(tmp_path, port, refusing)) as service:
            desk = await operator(service, "support")
            tested = await desk.did("POST", "acquirers/main/test")
            assert abs(tested.pop("clock_difference_seconds") - 200) <= 60
            assert tested.pop("node")
            assert tested == {"name": "main", "reachable": True, "key_id": "shop-1"}
            tested = await desk.did("POST", "acquirers/other/test")
            assert tested["reason"].endswith("refuses connections")
            assert not tested["reachable"]
            assert await desk.refused("POST", "acquirers/third/test") == (404, "acquirer_not_found")
            code, out, err = await paydesk(service, desk, tmp_path, "acquirers", "test", "third")
            assert (code, out) == (1, "")
            assert err.startswith("No acquirer `third`; there is: main, other.")
            code, out, err = await paydesk(service, desk, tmp_path, "acquirers", "test", "main")
            assert (code, "reachable" in out) == (0, True)
            assert re.search(r"The clocks differ by \d{3} s; at 300 s every request is refused\.", err)
            assert await (await operator(service, "viewer")).refused("POST", "acquirers/main/test") == (
                403,
                "forbidden",
            )
            entries = [(one.action, one.subject, one.after) for one in await audited(service)]
            assert entries == [
                ("acquirers.test", "main", {"reachable": True}),
                ("acquirers.test", "other", {"reachable": False}),
                ("acquirers.test", "main", {"reachable": True}),
            ]
        assert switch.requests == []


async def test_the_commands_list_and_test(database: Database, tmp_path: Path) -> None:
    """A test that fails exits 1 and says why."""
    switch = PlayedSwitch()
    with refusing_port() as refusing:
        async with listening(switch) as port, started(database, settings(tmp_path, port, refusing)) as service:
            desk = await operator(service)
            await settled(desk)
            code, out, _ = await paydesk(service, desk, tmp_path, "acquirers", "list")
            rows = [line.split("\t")[:5] for line in out.splitlines()]
            assert code == 0
            assert rows == [
                ["main", "reachable", "orders that no rule routes", f"http://127.0.0.1:{port}/paydesk", "http"],
                [
                    "other",
                    f"unreachable (next echo {(await listed(desk))['data'][1]['next_echo_date'][11:19]})",
                    "seller 7, currency ARS; terminal N950__*",
                    f"http://127.0.0.1:{refusing}",
                    "http",
                ],
            ]
            code, out, _ = await paydesk(service, desk, tmp_path, "acquirers", "test", "main", "--json")
            assert code == 0
            assert json.loads(out)["reachable"]
            code, out, err = await paydesk(service, desk, tmp_path, "acquirers", "test", "other")
            assert code == 1
            assert "shop-2" in out
            assert err.startswith("other did not answer as it must: 127.0.0.1:")


async def test_without_acquirers_the_list_is_empty(service: Service) -> None:
    """Only test orders have one then."""
    assert await listed(await operator(service)) == {"data": []}


@pytest.mark.on_postgres
async def test_a_good_test_ends_an_outage(database: Database, tmp_path: Path) -> None:
    """The breaker is closed, and no person is needed any longer."""
    switch = PlayedSwitch()
    switch.echo = Reply(secret=OTHER_SECRET)
    async with listening(switch) as port, started(database, settings(tmp_path, port, port)) as service:
        desk = await operator(service)
        (item,) = await settled(desk, "wrong signature")
        assert item["subject"] == "main"
        switch.echo = Reply()
        assert (await desk.did("POST", "acquirers/main/test"))["reachable"]
        assert (await listed(desk))["data"][0]["breaker"] == "closed"
        assert await settled(desk) == []
