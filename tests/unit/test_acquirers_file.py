"""The acquirers file: what it configures, and the sentence that refuses each fault in it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog

from free_port import refusing_port
from paydesk.core.clock import SystemClock
from paydesk.engine.orders.routing import Routing, Rule
from paydesk.engine.payments.acquirer import NotSent
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.http.adapter import HttpAcquirer
from paydesk.engine.payments.simulator.acquirer import Simulator
from paydesk.platform.operator_events import Reporter
from paydesk.platform.process.node import StartRefused
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Row
from paydesk.service.acquirers import acquirers_of, warn_of_default
from played_switch import CARD, PAYMENT, SECRET, PlayedSwitch, listening
from tables import each
from waiting import until_found

MAIN = '[acquirers.main]\nadapter = "http"\nurl = "https://switch.example"\nkey_id = "a"\nsecret = "env:SWITCH_KEY"\n'

NO_ADAPTER = "no installed package has an adapter `{}` (entry points `paydesk.acquirers`); installed: {}."


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCH_KEY", SECRET)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """An empty database."""
    opened = await open_database(database_url)
    yield opened
    await opened.close()


def configured(
    database: Database, path: Path, text: str, *, reporter: Reporter | None = None, acquirer: str = "main"
) -> Acquirers:
    """Write the file and return the acquirers."""
    path.write_text(text)
    path.chmod(0o600)
    settings = Settings(acquirer=acquirer, acquirers_file=str(path), unknown_after_seconds=30)
    return acquirers_of(settings, database, SystemClock(), reporter=reporter)


async def test_acquirers_and_rules_are_read(database: Database, tmp_path: Path) -> None:
    """The first rule that matches names the acquirer, else the setting does."""
    rules = (
        '[[rules]]\nseller = 7\nacquirer = "other"\n'
        '[[rules]]\nterminal = "N950__*"\ncurrency = "BRL"\nacquirer = "main"\n'
    )
    text = MAIN + MAIN.replace("main", "other") + rules
    acquirers = configured(database, tmp_path / "acquirers.toml", text)
    assert {name: type(one) for name, one in acquirers.live.items()} == {"main": HttpAcquirer, "other": HttpAcquirer}
    assert isinstance(acquirers.test, Simulator)
    assert acquirers.adapters == {"main": "http", "other": "http"}
    assert acquirers.routing == Routing(
        "main", (Rule("other", seller=7), Rule("main", currency="BRL", terminal="N950__*"))
    )
    assert configured(database, tmp_path / "acquirers.toml", text, acquirer="none").routing.default is None


@each(
    "text, sentence",
    [
        ("[acquirers", "acquirers.toml is not TOML: Expected ']'"),
        ("[acquirer.main]\n", "Object contains unknown field `acquirer`"),
        ("", "acquirer is `main`, which is not configured: add [acquirers.main] to "),
        (MAIN.replace("acquirers.main", 'acquirers."Main"'), "Expected `str` matching regex"),
        (MAIN.replace("acquirers.main", "acquirers.simulator"), "`simulator` cannot be the name of an acquirer"),
        (MAIN.replace('"http"', '"ftp"'), f"[acquirers.main]: {NO_ADAPTER.format('ftp', 'http')}"),
        ('[acquirers.main]\nurl = "https://switch.example"\n', "[acquirers.main]: `adapter` is missing."),
        (MAIN.replace("key_id", "key"), "[acquirers.main]: Object contains unknown field `key`: it has ca_file, cap"),
        (MAIN.replace("env:SWITCH_KEY", SECRET), '[acquirers.main]: `secret` must be "file:PATH" or "env:NAME"'),
        (MAIN + "capabilities = { answer_seconds = 21 }", "[acquirers.main]: `answer_seconds` must be from 1 to 20."),
        (MAIN + "capabilities = { needs_confirmation = true }", "`unknown_after_seconds` must be at least 40."),
        (MAIN + '[[rules]]\nacquirer = "other"', "rule 1 names `other`: add [acquirers.other]."),
        (MAIN + '[[rules]]\nacquirer = "main"\ncurrency = "EUR"', "rule 1 has `EUR`: use one of BRL, ARS"),
        (MAIN + '[[rules]]\nacquirer = "main"\nseler = 7', "Object contains unknown field `seler` - at `$.rules[0]`"),
        (MAIN + "[[rules]]\nseller = 7", "Object missing required field `acquirer` - at `$.rules[0]`"),
    ],
)
async def test_a_fault_prevents_the_start(database: Database, tmp_path: Path, text: str, sentence: str) -> None:
    """With a sentence that says where it is and what to change, without a secret."""
    with pytest.raises(StartRefused, match=re.escape(sentence)) as refused:
        configured(database, tmp_path / "acquirers.toml", text)
    assert SECRET not in str(refused.value)


async def test_other_users_must_not_read_or_change_the_file(database: Database, tmp_path: Path) -> None:
    """It names the switch that gets the money."""
    path = tmp_path / "acquirers.toml"
    path.write_text(MAIN)
    path.chmod(0o644)
    settings = Settings(acquirer="main", acquirers_file=str(path))
    with pytest.raises(StartRefused, match=f"can read {path}. Run: chmod 600 {path}"):
        acquirers_of(settings, database, SystemClock())
    path.unlink()
    with pytest.raises(StartRefused, match=f"{path} cannot be read: No such file or directory"):
        acquirers_of(settings, database, SystemClock())


async def test_a_named_acquirer_needs_the_file(database: Database) -> None:
    """The simulator and `none` do not."""
    with pytest.raises(StartRefused, match="acquirer is `main`, which is not configured: set `acquirers_file`"):
        acquirers_of(Settings(acquirer="main"), database, SystemClock())
    assert list(acquirers_of(Settings(acquirer="simulator"), database, SystemClock()).live) == ["simulator"]
    assert acquirers_of(Settings(), database, SystemClock()).live == {}


@each(
    "changes, capabilities, names",
    [
        ({}, "", None),
        ({"inquiry_not_found_seconds": 300}, "", ["main"]),
        ({"inquiry_not_found_seconds": 300}, "capabilities = { not_found_final_seconds = 300 }", None),
    ],
)
async def test_the_setting_in_place_of_a_declaration_is_warned_of(
    database: Database, tmp_path: Path, changes: dict[str, int], capabilities: str, names: list[str] | None
) -> None:
    """With what it risks: one number stands for all hosts."""
    path = tmp_path / "acquirers.toml"
    acquirers = configured(database, path, MAIN + capabilities)
    with structlog.testing.capture_logs() as logged:
        warn_of_default(Settings(acquirer="main", acquirers_file=str(path), **changes), acquirers)
    assert [line["acquirers"] for line in logged] == ([] if names is None else [names])
    assert all("approved after its order has failed" in line["risk"] for line in logged)


OWN = """
from paydesk.engine.payments.acquirer import Acquirer, Unknown

class Own(Acquirer):
    def __init__(self, name, options): self.name, self.options = name, options
    async def authorize(self, payment, card, *, blob=b""): return Unknown("no host")
    async def inquire(self, payment): return Unknown("no host")
    async def refund(self, payment, *, key, amount_minor, reference_id=""): return Unknown("no host")
    async def reverse(self, payment, *, key, amount_minor, reference_id="", chip_data=b""): return Unknown("no host")

def create(name, options, context):
    if options["host"] == "none":
        raise ValueError("`host` must be an address")
    return Own(name, dict(options))
"""


async def test_an_installed_package_adds_an_adapter(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an entry point in the group `paydesk.acquirers`. Its options are its own."""
    packages = tmp_path / "packages"
    (packages / "own-1.0.dist-info").mkdir(parents=True)
    (packages / "own-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
    entries = "[paydesk.acquirers]\nown = own_adapter:create\nbroken = own_adapter:nothing\n"
    (packages / "own-1.0.dist-info" / "entry_points.txt").write_text(entries)
    (packages / "own_adapter.py").write_text(OWN)
    monkeypatch.syspath_prepend(packages)
    path, table = tmp_path / "acquirers.toml", '[acquirers.main]\nadapter = "own"\n'
    own = configured(database, path, f'{table}host = "10.20.0.7"\n').live["main"]
    assert vars(own) == {"name": "main", "options": {"host": "10.20.0.7"}}
    for text, sentence in (
        (table, "[acquirers.main]: `host` is missing."),
        (f'{table}host = "none"\n', "[acquirers.main]: `host` must be an address."),
        (table.replace("own", "broken"), "the adapter `broken` cannot be loaded: module 'own_adapter' has no"),
        (table.replace("own", "third"), NO_ADAPTER.format("third", "broken, http, own")),
    ):
        with pytest.raises(StartRefused, match=re.escape(sentence)):
            configured(database, path, text)
    del sys.modules["own_adapter"]


@pytest.mark.on_postgres
async def test_operators_hear_of_each_change_of_an_outage(database: Database, tmp_path: Path) -> None:
    """As an event with the reason, also twice in an hour; once over all nodes, and of one that ends in a restart."""
    unreachable, reachable = "acquirer_unreachable", "acquirer_reachable"

    async def events(number: int) -> list[Row]:
        """Return the events, once there are so many."""
        sql = "SELECT kind, subject, body FROM operator_events ORDER BY event_id"
        await until_found(lambda: database.read(lambda tx: tx.all(f"{sql} LIMIT 1 OFFSET {number - 1}")))
        return [tuple(row) for row in await database.read(lambda tx: tx.all(sql))]

    def acquirers(port: int) -> Acquirers:
        text = MAIN.replace("https://switch.example", f"http://127.0.0.1:{port}")
        return configured(database, tmp_path / "acquirers.toml", text, reporter=reporter)

    async with Reporter(database) as reporter:
        with refusing_port() as port:
            for node in [acquirers(port).live["main"] for _ in range(2)]:
                assert isinstance(await node.authorize(PAYMENT, CARD), NotSent)
                [(kind, subject, body)] = await events(1)
                await node.close()
            assert (kind, subject) == (unreachable, "main")
            assert f"127.0.0.1:{port}" in json.loads(body)["reason"]
        async with listening(PlayedSwitch()) as port:
            restarted = acquirers(port)
            async with restarted.running():
                assert (await events(2))[1:] == [(reachable, "main", "{}")]
                acquirer = restarted.live["main"]
                assert isinstance(acquirer, HttpAcquirer)
                acquirer._breaker.trip("a wrong signature")
                assert (await events(3))[2:] == [(unreachable, "main", '{"reason":"a wrong signature"}')]
                assert (await acquirer.echo()).fault is None
                assert (await events(4))[3:] == [(reachable, "main", "{}")]
