"""`python -m bench`: measure a node's requests per second, with durable commits and all checks on.

Each round also measures a no-op route of the same server, and for PostgreSQL pgbench with the transaction of a create,
oidc-provider for refreshes and Prism for creates. A separate process generates the load; every create uses a different
terminal and key, every refresh rotates. Ratios within a round say more than absolute figures.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from bench import machine, report
from bench.instructions import COUNTS
from bench.kept import Kept
from bench.load import BenchError, find_wrk
from bench.rows import CONNECTIONS, DATABASES, OPERATIONS, Plan
from bench.run import run

ROOT = Path(__file__).parent.parent
FIGURES = ROOT / ".bench" / "figures.json"


def main() -> None:
    """Measure what the arguments select, and print the tables."""
    arguments = _arguments()
    machine.check()
    console = Console(stderr=True)
    try:
        find_wrk()
        plan = _plan(arguments)
        kept = _kept(arguments, plan)
        run(plan, kept, console, terminals=arguments.terminals)
    except BenchError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(f"Stopped. {arguments.json} has the figures measured so far; --resume continues.")
    # Output that is not a terminal has no width limit.
    report.show(kept, Console() if sys.stdout.isatty() else Console(width=130))
    if arguments.docs:
        for written in report.write(kept, arguments.docs, report.counted(arguments.counts)):
            console.print(f"written: {written}")


def _arguments() -> argparse.Namespace:
    defaults = Plan()
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--databases", nargs="+", default=list(DATABASES), choices=DATABASES)
    parser.add_argument("--connections", nargs="+", type=_positive, default=list(CONNECTIONS))
    parser.add_argument("--operations", nargs="+", default=list(OPERATIONS), choices=OPERATIONS)
    parser.add_argument("--seconds", type=_positive, default=defaults.seconds, help="of one run")
    parser.add_argument("--runs", type=_positive, default=defaults.runs, help="rounds; the median is shown")
    parser.add_argument(
        "--peers", action=argparse.BooleanOptionalAction, default=True, help="also measure oidc-provider and Prism"
    )
    parser.add_argument("--terminals", type=_positive, help="to seed; by default more than creates can be made")
    parser.add_argument("--json", type=Path, metavar="FILE", default=FIGURES, help="file of the figures")
    parser.add_argument("--counts", type=Path, metavar="FILE", default=COUNTS, help="counts of bench.instructions")
    parser.add_argument("--resume", action="store_true", help="continue with that file: measure what it lacks")
    parser.add_argument(
        "--docs", type=Path, metavar="FOLDER", nargs="?", const=ROOT / "docs", help="write benchmarks.md and its chart"
    )
    return parser.parse_args()


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _plan(arguments: argparse.Namespace) -> Plan:
    return Plan(
        databases=tuple(name for name in DATABASES if name in arguments.databases),
        connections=tuple(sorted(set(arguments.connections))),
        operations=tuple(arguments.operations),
        seconds=arguments.seconds,
        runs=arguments.runs,
        peers=arguments.peers,
    )


def _kept(arguments: argparse.Namespace, plan: Plan) -> Kept:
    if not (arguments.resume and arguments.json.exists()):
        return Kept(arguments.json, plan.seconds)
    kept = Kept.load(arguments.json)
    if kept.seconds != plan.seconds:
        raise BenchError(f"{arguments.json} has runs of {kept.seconds} s: --seconds {kept.seconds}, or no --resume")
    measured, here = kept.machine.get("Paydesk"), machine.paydesk()
    if kept.measured and measured != here:
        raise BenchError(f"{arguments.json} was measured with Paydesk {measured}, this is {here}: no --resume")
    return kept


if __name__ == "__main__":
    main()
