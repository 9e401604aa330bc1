"""Each proxy of `deploy/proxy` in front of two nodes: no request fails while they restart one after the other."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from command_line import command
from paydesk.commands.local.address_check import CA_FILE, TOKEN, findings
from proxies.configured import HOST, NAMES, Proxy, configured
from proxies.load import Load
from proxies.nodes import TERMINALS, VARIABLES, addresses, cast, has_orders, orders
from serve_process import ServeProcess
from upgrade import kept
from waiting import until

pytestmark = pytest.mark.slow

ROUNDS = 2


def _node(url: str, folder: Path) -> ServeProcess:
    folder.mkdir()
    kept.write_keys(folder)
    return ServeProcess(url, folder, shared=True, **VARIABLES)


@asynccontextmanager
async def _nodes(url: str, folder: Path) -> AsyncIterator[list[ServeProcess]]:
    nodes = [_node(url, folder / f"node-{number}") for number in (1, 2)]
    try:
        for one in nodes:
            one.start()
        for one in nodes:
            await asyncio.to_thread(one.wait_for, "listening", 1)
        yield nodes
    finally:
        for one in nodes:
            one.close()


async def _restart(node: ServeProcess, number: int) -> None:
    """Restart a node, and wait until the proxy sends it orders again."""
    assert node.process is not None
    ended = node.process
    await asyncio.to_thread(node.end, ended)
    asked = orders(node)
    node.start()
    await asyncio.to_thread(node.wait_for, "listening", number)
    await has_orders(node, asked)


@pytest.mark.usefixtures("people_key")
@pytest.mark.parametrize("name", NAMES)
async def test_no_request_fails_while_nodes_restart(
    name: str, postgres_url: str, tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    """Nor is one repeated by its client; the log of the nodes has the client's address."""
    people = await cast(postgres_url)
    async with _nodes(postgres_url, tmp_path) as nodes:
        proxy = configured(name, tmp_path, certificate, addresses(nodes))
        with proxy.running():
            load = Load(proxy.url, host=HOST, trust=proxy.trust, pause_seconds=0.2)
            running = asyncio.create_task(load.run(people.terminals))
            await until(lambda: load.sold > TERMINALS or running.done(), lambda: load)
            for number in range(2, ROUNDS + 2):
                for one in nodes:
                    await _restart(one, number)
            load.stop.set()
            await running
        print(f"{name}: {load.sold} orders, {dict(load.answers)}, errors {load.errors}")  # noqa: T201 - the figures
        assert load.errors == []
        for one in nodes:
            assert one.process is not None
            await asyncio.to_thread(one.end, one.process)
            assert not [line for line in one.lines() if line["level"] == "error"]
            assert {line["address"] for line in one.lines("request") if line["path"].startswith("/v1/")} == {
                "127.0.0.1"
            }
    checked = await asyncio.to_thread(
        command, "doctor", "--invariants", folder=tmp_path, PAYDESK_DATABASE_URL=postgres_url
    )
    assert checked.returncode == 0, checked.stdout


SHORT: dict[str, Callable[[str], str]] = {
    "haproxy": lambda text: re.sub(r"timeout server \d+s", "timeout server 2s", text),
    "nginx": lambda text: re.sub(r"proxy_read_timeout \d+s", "proxy_read_timeout 2s", text),
    "caddy": lambda text: re.sub(r"response_header_timeout \d+s", "response_header_timeout 2s", text),
}


@pytest.mark.usefixtures("people_key")
@pytest.mark.parametrize("name", NAMES)
async def test_doctor_finds_what_a_proxy_breaks(
    name: str, postgres_url: str, tmp_path: Path, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing behind the example; a timeout that is too short; behind nginx also a lost Host."""
    people = await cast(postgres_url)
    monkeypatch.setenv(TOKEN, people.terminals[0].access_token)
    monkeypatch.setenv(CA_FILE, str(certificate[0]))
    async with _nodes(postgres_url, tmp_path) as nodes:

        def found(wait_seconds: int, folder: str, change: Callable[[str], str] = lambda text: text) -> list[str]:
            (tmp_path / folder).mkdir()
            proxy: Proxy = configured(name, tmp_path / folder, certificate, addresses(nodes), change)
            with proxy.running():
                return findings(f"https://localhost:{proxy.port}", wait_seconds)

        (short,) = await asyncio.to_thread(found, 5, "short", SHORT[name])
        # nginx and Caddy repeat it first.
        assert re.match(r"A poll ended after [246] s: 50[24] .* must wait for at least 75 s", short), short
        if name == "nginx":
            lost = await asyncio.to_thread(found, 1, "lost", lambda text: re.sub(r".*Host \$http_host.*\n", "", text))
            assert "does not get the host localhost" in lost[0]
        assert await asyncio.to_thread(found, 55, "good") == []
