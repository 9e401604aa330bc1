"""The acquirers' conformance kit: correct adapters pass every case, and each defect is found by its case."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from broken_acquirers import FOUND_BY, RaisesOnRefund, SecondHost, UnreadableLedger, WithoutLedger
from docs_programs import DOCS, section
from free_port import refusing_port
from paydesk.core.clock import MovableClock
from paydesk.platform.process.node import StartRefused
from paydesk_dev.conformance.acquirers import runner
from paydesk_dev.conformance.acquirers.cases import kills
from paydesk_dev.conformance.acquirers.kit import Kit
from paydesk_dev.conformance.acquirers.target import Target
from paydesk_dev.conformance.case import Outcome
from played_switch import OTHER_SECRET, SECRET, PlayedSwitch, Reply, listening
from switch_process import SwitchProcess, switch
from tables import each

BROKEN = {case: broken for broken, case in FOUND_BY.items()}
OPTIONS = {"needs_confirmation": "--needs-confirmation", "reversal_blocks": "--reversal-blocks"}
PROVISIONAL = {"simulator_confirmations": True}
KILLED = ("killed_at_asked", "killed_at_claimed")


@contextmanager
def behind(folder: Path, **capabilities: Any) -> Iterator[Target]:
    """Yield the example switch with these capabilities as the acquirer under test."""
    folder.mkdir(exist_ok=True)
    options = [OPTIONS[name] for name, value in capabilities.items() if value is True]
    if "can_inquire" in capabilities:
        options.append("--cannot-inquire")
    with switch(folder, *options) as running:
        (folder / "new.key").chmod(0o600)
        yield target_of(running, {"answer_seconds": 2, **capabilities})


def target_of(running: SwitchProcess, capabilities: dict[str, Any]) -> Target:
    """Return the switch as the acquirer under test."""
    url, secret = f"http://127.0.0.1:{running.port}/paydesk", f"file:{running.folder / 'new.key'}"
    table = {"adapter": "http", "url": url, "key_id": "shop-1", "secret": secret, "capabilities": capabilities}
    return Target("main", table)


def opened(target: Target) -> AbstractAsyncContextManager[Kit]:
    """Open the kit of this acquirer."""
    return runner.opened(target, 9_990_002, b"card")


async def play(kit: Kit, only: Collection[str] = ()) -> dict[str, Outcome]:
    """Play the cases; return the outcomes by name."""
    return {outcome.name: outcome async for outcome in runner.play(kit, only)}


def replace_adapter(kit: Kit, adapter: Any) -> None:
    """Have the engine and the kit call this adapter from now on."""
    kit.adapter = kit.recorded.adapter = adapter


def missed(outcomes: dict[str, Outcome]) -> dict[str, str]:
    """Return the reasons of the cases that did not hold."""
    return {name: outcome.reason for name, outcome in outcomes.items() if not outcome.passed}


PLAYED = tuple(name for name in runner.CASES if name not in kills.CASES or name in KILLED)


@pytest.mark.parametrize(
    "capabilities",
    [
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param(
            {"needs_confirmation": True, "reversal_blocks": True, "confirm_before": 3600, "at_deadline": "confirms"},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"needs_confirmation": True, "can_inquire": False, "confirm_before": 3600}, marks=pytest.mark.slow
        ),
    ],
)
async def test_the_example_switch_passes(tmp_path: Path, capabilities: dict[str, Any]) -> None:
    """Behind the adapter of HTTP: every case holds, and so does the ledger."""
    with behind(tmp_path, **capabilities) as target:
        async with opened(target) as kit:
            outcomes = await play(kit, PLAYED)
    assert missed(outcomes) == {}
    assert outcomes["ledger"].status == "held"


@pytest.mark.parametrize("settings", [{}, PROVISIONAL], ids=("final", "provisional"))
async def test_the_simulated_acquirer_passes(settings: dict[str, Any]) -> None:
    """Without a network: nothing can be lost, and those cases do not apply."""
    async with opened(Target("simulator", settings)) as kit:
        outcomes = await play(kit, runner.CASES.keys() - kills.CASES.keys())
    assert missed(outcomes) == {}
    assert {outcomes[name].status for name in ("approve", "reverse_twice", "ledger")} == {"held"}
    assert outcomes["undo_by_silence"].status == ("held" if settings else "not applicable")
    assert "has no `url`" in outcomes["timeout_is_unknown"].reason


@pytest.mark.long("an engine is killed and started again ten times")
async def test_a_killed_engine_loses_nothing() -> None:
    """While a payment is confirmed, refunded or asked for; at the other crash points in a slow test."""
    async with opened(Target("simulator", PROVISIONAL)) as kit:
        outcomes = await play(kit, KILLED)
    assert {name: outcomes[name].status for name in KILLED} == dict.fromkeys(KILLED, "held")


@each(
    "echo, fault",
    [
        (Reply(secret=OTHER_SECRET), "status 200 with a wrong signature: compare the secrets and `key_id`"),
        (
            Reply({"time": "2026-01-31T14:26:43"}),
            "the answer is unreadable: Expected .* a timezone .*time`",
        ),
        (None, "127.0.0.1:[0-9]+ refuses connections"),
    ],
)
async def test_a_switch_that_cannot_be_used_ends_it(
    echo: Reply | None, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one sentence, before anything else: the cases would wait for it."""
    monkeypatch.setenv("SWITCH_KEY", SECRET)
    played = PlayedSwitch()
    async with AsyncExitStack() as stack:
        if echo is None:
            port = stack.enter_context(refusing_port())
        else:
            played.echo, port = echo, await stack.enter_async_context(listening(played))
        url = f"http://127.0.0.1:{port}/paydesk"
        target = Target("main", {"adapter": "http", "url": url, "key_id": "shop-1", "secret": "env:SWITCH_KEY"})
        with pytest.raises(StartRefused, match=f"^The switch cannot be used: {fault}. Nothing else was tested.$"):
            await stack.enter_async_context(opened(target))
    assert played.requests == []


async def test_a_run_ends_whatever_an_adapter_lacks_or_raises() -> None:
    """The report says that there is no ledger, that it cannot be read, or what was raised; each case is played."""
    names = ("approve", "refund_of_too_much")
    async with opened(Target("simulator")) as kit:
        sound = kit.adapter
        replace_adapter(kit, WithoutLedger(sound))
        without = await play(kit, names)
        replace_adapter(kit, RaisesOnRefund(sound))
        raising = await play(kit, names)
        replace_adapter(kit, UnreadableLedger(sound))
        unreadable = await play(kit, names)
    assert missed(without) == {}
    assert without["ledger"].status == "not tested"
    assert "has no ledger" in without["ledger"].reason
    assert missed(raising) == {"refund_of_too_much": "RuntimeError: no refunds."}
    assert set(missed(unreadable)) == {*names, "ledger"}
    assert "RuntimeError: no entries since" in unreadable["approve"].reason


def test_the_page_has_every_case() -> None:
    """In the order in which they are played; the kills are one."""
    page = (DOCS / "conformance.md").read_text()
    named = section(page, "### Cases of acquirers").partition("nothing to confirm.")[2].partition("`killed_at_…`")[0]
    assert re.findall(r"`(\w+)`", named) == [*(name for name in runner.CASES if name not in kills.CASES), "ledger"]


def test_every_case_says_what_to_repair() -> None:
    """In its second paragraph."""
    assert all(one.must.endswith(".") and one.repair.endswith(".") for one in runner.CASES.values())


@pytest.mark.slow
async def test_an_engine_killed_at_each_crash_point_loses_nothing(tmp_path: Path) -> None:
    """It is started again, and the ledger has what the orders say."""
    with behind(tmp_path, needs_confirmation=True) as target:
        async with opened(target) as kit:
            assert missed(await play(kit, tuple(kills.CASES))) == {}


@pytest.mark.long("what a timeout means is seen after real timeouts, and each broken adapter has its case")
async def test_each_broken_adapter_is_found_by_its_case(tmp_path: Path) -> None:
    """A sale holds, so the adapter is otherwise sound. The ledger differs where the host has charged a declined one."""
    with behind(tmp_path / "one", needs_confirmation=True) as target, behind(tmp_path / "two") as other:
        async with opened(target) as kit:
            sound, second = kit.adapter, other.create(kit.database, MovableClock())
            SecondHost.second = second
            outcomes = {}
            for case, broken in BROKEN.items():
                replace_adapter(kit, broken(sound))
                outcomes[case] = await play(kit, ("approve", case))
            replace_adapter(kit, sound)
            await second.close()
    assert {case: set(missed(one)) - {"ledger"} for case, one in outcomes.items()} == {case: {case} for case in BROKEN}
    assert all(one[case].repair for case, one in outcomes.items())
    believes_proxies = outcomes["foreign_answer_is_unknown"]
    differs = "is 0 BRL in minor units in Paydesk and 1234 in the ledger"
    assert differs in believes_proxies["foreign_answer_is_unknown"].reason
    assert believes_proxies["ledger"].status == "failed"
