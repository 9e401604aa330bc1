"""The acquirers' conformance kit: correct adapters pass every case, and each defect is found by its case."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from broken_acquirers import (
    FOUND_BY,
    BelievesProxies,
    Broken,
    BrokenTarget,
    RaisesOnRefund,
    SecondHost,
    UnreadableLedger,
    WithoutLedger,
)
from paydesk_dev.conformance.acquirers import runner
from paydesk_dev.conformance.acquirers.cases import kills
from paydesk_dev.conformance.acquirers.target import Target
from paydesk_dev.conformance.case import Outcome
from switch_process import SwitchProcess, switch

SOUND = ("approve", "refund_whole")
"""A broken adapter does these right."""
OPTIONS = {"needs_confirmation": "--needs-confirmation", "reversal_blocks": "--reversal-blocks"}
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


async def play(target: Target, only: Collection[str] = ()) -> dict[str, Outcome]:
    """Play the cases; return the outcomes by name."""
    async with runner.opened(target, 9_990_002, b"card") as kit:
        return {outcome.name: outcome async for outcome in runner.play(kit, only)}


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
        outcomes = await play(target, PLAYED)
    assert missed(outcomes) == {}
    assert outcomes["ledger"].status == "held"


@pytest.mark.parametrize("settings", [{}, {"simulator_confirmations": True}], ids=("final", "provisional"))
async def test_the_simulated_acquirer_passes(settings: dict[str, Any]) -> None:
    """Without a network: nothing can be lost, and those cases do not apply."""
    outcomes = await play(Target("simulator", settings), PLAYED)
    assert missed(outcomes) == {}
    assert {outcomes[name].status for name in ("approve", "reverse_twice", "ledger", *KILLED)} == {"held"}
    assert outcomes["undo_by_silence"].status == ("held" if settings else "not applicable")
    assert "has no `url`" in outcomes["timeout_is_unknown"].reason


async def test_an_adapter_without_a_ledger_is_not_compared(tmp_path: Path) -> None:
    """The report says so; the adapter's own answers are judged."""
    with behind(tmp_path) as target:
        outcomes = await play(BrokenTarget(target.name, target.table, WithoutLedger), SOUND)
    assert missed(outcomes) == {}
    assert outcomes["ledger"].status == "not applicable"
    assert "has no ledger" in outcomes["ledger"].reason


async def test_a_ledger_that_differs_is_found(tmp_path: Path) -> None:
    """Also where the case itself has failed: the host has charged what the order says was declined."""
    with behind(tmp_path) as target:
        outcomes = await play(BrokenTarget(target.name, target.table, BelievesProxies), ("foreign_answer_is_unknown",))
    assert "is 0 BRL in minor units in Paydesk and 1234 in the ledger" in outcomes["foreign_answer_is_unknown"].reason
    assert outcomes["ledger"].status == "failed"


async def test_an_adapter_that_raises_is_found(tmp_path: Path) -> None:
    """The case says what was raised, and the next one is played."""
    with behind(tmp_path) as target:
        outcomes = await play(
            BrokenTarget(target.name, target.table, RaisesOnRefund), ("refund_of_too_much", "approve")
        )
    assert missed(outcomes) == {"refund_of_too_much": "RuntimeError: no refunds."}


async def test_a_ledger_that_cannot_be_read_is_found(tmp_path: Path) -> None:
    """No case holds then, and each is played."""
    with behind(tmp_path) as target:
        outcomes = await play(BrokenTarget(target.name, target.table, UnreadableLedger), SOUND)
    assert set(missed(outcomes)) == {*SOUND, "ledger"}
    assert "RuntimeError: no entries since" in outcomes["approve"].reason


def test_the_page_has_every_case() -> None:
    """In the order in which they are played; the kills are one row."""
    listed = [one for name, one in runner.CASES.items() if name not in kills.CASES]
    rows = [f"| `{one.name}` | {one.must[0].lower()}{one.must[1:].rstrip('.')} |" for one in listed]
    page = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text().splitlines()
    begin = page.index("| Case | The acquirer |") + 2
    assert page[begin : begin + len(rows)] == rows
    assert page[begin + len(rows)].startswith("| `killed_at_…` |")


def test_every_case_says_what_to_repair() -> None:
    """In its second paragraph."""
    assert all(one.must.endswith(".") and one.repair.endswith(".") for one in runner.CASES.values())


@pytest.mark.slow
async def test_an_engine_killed_at_each_crash_point_loses_nothing(tmp_path: Path) -> None:
    """It is started again, and the ledger has what the orders say."""
    with behind(tmp_path, needs_confirmation=True) as target:
        assert missed(await play(target, tuple(kills.CASES))) == {}


@pytest.mark.long("what a timeout means is seen after real timeouts")
@pytest.mark.parametrize("broken", FOUND_BY, ids=lambda broken: broken.__name__)
async def test_a_broken_adapter_is_found(tmp_path: Path, broken: type[Broken]) -> None:
    """By its case; a sale and a refund hold, so the adapter is otherwise sound."""
    case = FOUND_BY[broken]
    with behind(tmp_path / "one", needs_confirmation=True) as target, behind(tmp_path / "two") as second:
        outcomes = await play(_broken(target, broken, second), (case, *SOUND))
    assert set(missed(outcomes)) - {"ledger"} == {case}
    assert outcomes[case].repair


def _broken(target: Target, broken: type[Broken], second: Target) -> BrokenTarget:
    def break_adapter(adapter: Any) -> Broken:
        one = broken(adapter)
        if isinstance(one, SecondHost):
            one.second = second.create(None, None)  # type: ignore[arg-type]  # of no use to the adapter of HTTP
        return one

    return BrokenTarget(target.name, target.table, break_adapter)
