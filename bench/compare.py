"""`python -m bench.compare --against FOLDER`: whether another checkout behaves as this one does.

The same run of mixed requests is played against both, on both databases: creates, busy terminals, repeated keys,
refusals, terminals that take payments, print actions, refunds, tokens, operators and their webhook subscriptions. All
answers and all rows of all tables must be equal; the first difference is printed in full.

Time and random bytes are the same in every run (`bench.fixed`). Not compared are the Date header and the table of the
migrations. No background worker runs but the recording of requests.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import zip_longest
from pathlib import Path
from typing import Any

from bench.load import BenchError
from bench.postgres import Postgres

ROOT = Path(__file__).parent.parent
DATABASES = ("sqlite", "postgresql")


def main() -> None:
    """Play, compare, and print the first difference."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.add_argument("--against", type=Path, metavar="FOLDER", default=ROOT, help="another checkout of Paydesk")
    parser.add_argument("--databases", nargs="+", default=list(DATABASES), choices=DATABASES)
    parser.add_argument("--requests", type=int, default=2_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="paydesk-bench-") as folder, contextlib.ExitStack() as stack:
        server = Postgres(1) if "postgresql" in arguments.databases else None
        if server is not None:
            stack.callback(server.end)
        for database in arguments.databases:
            files = []
            for name, source in (("before", arguments.against.resolve()), ("after", ROOT)):
                is_file = database == "sqlite"
                url = f"sqlite:{folder}/{name}.db" if is_file or server is None else server.create_database(name)
                files.append(Path(folder, f"{database}-{name}.jsonl"))
                try:
                    play(source, url, arguments.requests, files[-1])
                except BenchError as error:
                    sys.exit(str(error))
            difference = first_difference(*files)
            print(f"{database}: {difference or summary(files[1])}")  # noqa: T201
            if difference:
                sys.exit(1)


def play(source: Path, database_url: str, count: int, file: Path) -> None:
    """Play the run against a checkout and write the file. Raises `BenchError`."""
    played = subprocess.run(
        [sys.executable, "-m", "bench.replay", database_url, str(count), str(file)],
        env={**os.environ, "PYTHONPATH": f"{source / 'src'}:{source}", "PYTHONHASHSEED": "0"},
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
    if played.returncode:
        raise BenchError(f"{source}: {played.stderr[-4000:]}")


def first_difference(before: Path, after: Path) -> str:
    """Return how the first lines of two files that are not equal differ, or nothing."""
    with before.open() as one, after.open() as other:
        for number, lines in enumerate(zip_longest(one, other, fillvalue="{}"), 1):
            if lines[0] != lines[1]:
                one_line, other_line = map(_readable, lines)
                difference = difflib.unified_diff(one_line, other_line, "before", "after", n=12, lineterm="")
                return "\n".join((f"line {number} differs.", *difference))
    return ""


def _readable(line: str) -> list[str]:
    """Return an answer or a row as indented lines."""
    read: dict[str, Any] = json.loads(line)
    with contextlib.suppress(KeyError, ValueError):
        read["answer"] = json.loads(read["answer"])
    return json.dumps(read, indent=1).splitlines()


def summary(file: Path) -> str:
    """Return what was compared: answers by their status, and rows by their table."""
    answers: Counter[int] = Counter()
    rows: Counter[str] = Counter()
    with file.open() as lines:
        for line in lines:
            read: dict[str, Any] = json.loads(line)
            if "table" in read:
                rows[read["table"]] += 1
            else:
                answers[read["status"]] += 1
    counted = [
        f"{answers.total():,} answers are equal:",
        *(f"{count} x {one}" for one, count in sorted(answers.items())),
    ]
    counted += [f"\n{rows.total():,} rows are equal:", *(f"{count} {table}" for table, count in sorted(rows.items()))]
    return " ".join(counted)


if __name__ == "__main__":
    main()
