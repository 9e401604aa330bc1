"""`paydesk acquirers conformance`: plays every case of a payment with an acquirer, and compares its ledger."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paydesk.commands.client.failure import WrongUsage
from paydesk.commands.client.options import AsJson, examples, show_list
from paydesk.commands.local.local import SettingsFile, load_settings, run
from paydesk.commands.nouns import acquirers
from paydesk_dev.commands import case_outcomes
from paydesk_dev.commands.case_outcomes import JunitFile, ListCases, LogFile, Only

if TYPE_CHECKING:
    from paydesk.platform.settings import Settings
    from paydesk_dev.conformance.case import Outcome

COMMAND = "paydesk acquirers conformance"
EPILOG = examples(
    f"{COMMAND} main",
    f"{COMMAND} main --card-data test-card.bin --declined-amount 5100 --junit conformance.xml",
    f"{COMMAND} main --only timeout_is_unknown --only confirm_once --log kit.log",
    f"{COMMAND} simulator --json",
)
COLUMNS = ("name", "status", "seconds", "reason")
DECLINED_MINOR = 9_990_002
CARD_DATA = b"Card data of the conformance kit"


@acquirers.app.command("conformance", epilog=EPILOG)
def conformance(  # noqa: PLR0913  # one parameter per option
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="An acquirer of the `acquirers_file`, or `simulator`.")
    ] = "",
    only: Only = None,
    declined_amount: Annotated[
        int,
        typer.Option(min=1, metavar="MINOR_UNITS", help="An amount that the acquirer's test system declines."),
    ] = DECLINED_MINOR,
    card_data: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, metavar="FILE", help="What a terminal encrypts for the acquirer."),
    ] = None,
    junit: JunitFile = None,
    log: LogFile = None,
    settings: SettingsFile = None,
    *,
    list_cases: ListCases = False,
    as_json: AsJson = False,
) -> None:
    """Test an acquirer: make payments at its test system, lose requests and answers, and compare its ledger.

    It runs Paydesk's engine on a database of its own, with a clock that it moves, and makes real calls: never name an
    acquirer that moves real money. Exits 1 unless every case held.
    """
    from paydesk_dev.conformance.acquirers.runner import CASES

    if list_cases:
        rows: list[dict[str, Any]] = [
            {"name": one.name, "must": one.must, "repair": one.repair} for one in CASES.values()
        ]
        show_list({"data": rows}, ("name", "must"), as_json=as_json)
        return
    if not name:
        raise WrongUsage("Name the acquirer: one of the `acquirers_file`, or `simulator`.")
    case_outcomes.refuse_unknown(only, CASES, COMMAND)
    case_outcomes.log_to(log)
    data = CARD_DATA if card_data is None else card_data.read_bytes()

    outcomes = run(_play(name, load_settings(settings), only or (), declined_amount, data))
    case_outcomes.report(outcomes, COLUMNS, junit, f"paydesk.acquirers.{name}", as_json=as_json)


async def _play(
    name: str, settings: Settings, only: Collection[str], declined_minor: int, card_data: bytes
) -> list[Outcome]:
    from paydesk_dev.conformance.acquirers import runner
    from paydesk_dev.conformance.acquirers.target import find

    async with runner.opened(find(name, settings), declined_minor, card_data) as kit:
        return await case_outcomes.collected(runner.play(kit, only, case_outcomes.begins))
