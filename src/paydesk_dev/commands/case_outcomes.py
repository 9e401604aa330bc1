"""The report of a conformance kit: a line a case, JUnit XML for a build server, and the exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paydesk.commands.client.failure import Failure, WrongUsage
from paydesk.commands.client.options import note, show_list

if TYPE_CHECKING:
    from paydesk_dev.conformance.case import Case, Outcome

Only = Annotated[
    list[str] | None, typer.Option(metavar="CASE", help="Play only this case; may be repeated. [default: all]")
]
ListCases = Annotated[bool, typer.Option("--list", help="List the cases and exit.")]
LogFile = Annotated[
    Path | None, typer.Option(dir_okay=False, metavar="FILE", help="Append the service's log to this file.")
]
JunitFile = Annotated[
    Path | None, typer.Option("--junit", dir_okay=False, metavar="FILE", help="Write the outcomes as JUnit XML.")
]
_FIELDS = ("name", "section", "must", "status", "reason", "repair")


def refuse_unknown(only: Collection[str] | None, cases: Collection[str], command: str) -> None:
    """Raise `WrongUsage` if a case is named that the kit does not have."""
    unknown = sorted(set(only or ()) - set(cases))
    if unknown:
        raise WrongUsage(f"There is no case {', '.join(unknown)}. `{command} --list` lists all.")


def log_to(log: Path | None) -> None:
    """Append the service's log to the file, or drop it. Raises `Failure`."""
    import os

    from paydesk.platform import logs

    try:
        logs.configure("text", Path(log or os.devnull).open("a", buffering=1))  # noqa: SIM115  # open until the end
    except OSError as error:
        raise Failure(f"{log} cannot be written to: {error.strerror}. Choose another file with --log.") from None


def begins(case: Case[Any]) -> None:
    """Say that a case begins."""
    note(f"\n{case.name}: {case.must}")


async def collected(outcomes: AsyncIterator[Outcome]) -> list[Outcome]:
    """Say how each case ends, and return the outcomes."""
    ended = []
    async for outcome in outcomes:
        note(" ".join(filter(None, (f"{outcome.name}: {outcome.status}.", outcome.reason, outcome.repair))))
        ended.append(outcome)
    return ended


def report(
    outcomes: Sequence[Outcome], columns: Sequence[str], junit: Path | None, suite: str, *, as_json: bool
) -> None:
    """Print the outcomes, and write them as JUnit XML. Raises `Failure` unless every case held."""
    rows: list[Mapping[str, Any]] = [
        {name: getattr(one, name) for name in _FIELDS} | {"seconds": round(one.seconds, 1)} for one in outcomes
    ]
    show_list({"data": rows}, columns, as_json=as_json)
    if junit is not None:
        _write_junit(outcomes, junit, suite)
    for reason in dict.fromkeys(outcome.reason for outcome in outcomes if outcome.status == "not tested"):
        note(f"Not tested: {reason}")
    missed = [outcome.name for outcome in outcomes if not outcome.passed]
    if missed:
        raise Failure(f"{len(missed)} of {len(outcomes)} did not hold: {', '.join(missed)}.")
    counts = Counter(outcome.status for outcome in outcomes)
    note(f"All {', '.join(f'{count} {status}' for status, count in sorted(counts.items()))}.")


def _write_junit(outcomes: Sequence[Outcome], file: Path, suite: str) -> None:
    from xml.etree import ElementTree as ET

    failed = sum(not one.passed for one in outcomes)
    skipped = sum(one.passed and one.status != "held" for one in outcomes)
    counts = {"tests": len(outcomes), "failures": failed, "skipped": skipped}
    root = ET.Element("testsuite", {"name": suite, **{name: str(count) for name, count in counts.items()}})
    for one in outcomes:
        names = {"classname": suite, "name": one.name, "time": f"{one.seconds:.1f}"}
        case = ET.SubElement(root, "testcase", names)
        if not one.passed:
            ET.SubElement(case, "failure", {"message": one.reason, "type": one.status}).text = one.repair
        elif one.status != "held":
            ET.SubElement(case, "skipped", {"message": one.reason})
    try:
        ET.ElementTree(root).write(file, "utf-8", xml_declaration=True)
    except OSError as error:
        raise Failure(f"{file} cannot be written to: {error.strerror}. Choose another file with --junit.") from None
