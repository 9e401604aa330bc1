"""The figures of all runs, stored in a file after each run, and their medians and ratios."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.load import BenchError, Measured
from bench.rows import ROWS, Row

Key = tuple[str, str, int, int]
"""Database, row, connections, round."""

NO_OP = ROWS[0]
FIGURES = ("per_second", "p50_ms", "p99_ms", "cpu_us", "memory_mb", "requests", "postgres_us")


@dataclass(slots=True)
class Kept:
    """The figures measured so far. The file is replaced after every run, so an interrupted benchmark can continue."""

    file: Path
    seconds: int
    machine: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    measured: dict[Key, Measured] = field(default_factory=dict)

    @classmethod
    def load(cls, file: Path) -> Kept:
        """Read the file. Raises `BenchError` if it is invalid."""
        try:
            read = json.loads(file.read_text())
            measured = {_key(one): Measured(**one["figures"]) for one in read["measured"]}
            return cls(file, read["seconds"], read["machine"], read["notes"], measured)
        except OSError as error:
            raise BenchError(f"{file}: cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise BenchError(f"{file}: has no figures of a bench: {error!r}") from None

    def add(self, key: Key, made: Measured) -> None:
        """Add one run and write the file."""
        self.measured[key] = made
        self.save()

    def save(self) -> None:
        """Replace the file atomically."""
        names = ("database", "row", "connections", "round")
        runs = [
            {**dict(zip(names, key, strict=True)), "figures": dataclasses.asdict(made)}
            for key, made in self.measured.items()
        ]
        written = {"seconds": self.seconds, "machine": self.machine, "notes": self.notes, "measured": runs}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        beside = self.file.with_suffix(".part")
        beside.write_text(json.dumps(written, indent=1) + "\n")
        beside.replace(self.file)

    @property
    def databases(self) -> list[str]:
        """Return the databases with figures."""
        return sorted({key[0] for key in self.measured}, key=("sqlite", "postgres").index)

    @property
    def rounds(self) -> int:
        """Return the number of rounds."""
        return max((key[3] for key in self.measured), default=0)

    def medians(self, database: str) -> Iterator[tuple[Row, Measured]]:
        """Yield the medians of each row and number of connections, in the order of the table."""
        for connections in sorted({key[2] for key in self.measured if key[0] == database}):
            for row in ROWS:
                made = self.median(database, row.name, connections)
                if made is not None:
                    yield row, made

    def median(self, database: str, row: str, connections: int) -> Measured | None:
        """Return the medians of one row, or None if it was not measured."""
        runs = [made for key, made in self.measured.items() if key[:3] == (database, row, connections)]
        return _median(runs) if runs else None

    def ratio(self, database: str, row: str, other: str, connections: int) -> float | None:
        """Return the ratio of throughputs: the median of the rounds that have both."""
        ratios = [
            made.per_second / self.measured[database, other, connections, key[3]].per_second
            for key, made in self.measured.items()
            if key[:3] == (database, row, connections) and (database, other, connections, key[3]) in self.measured
        ]
        return statistics.median(ratios) if ratios else None


def _key(one: dict[str, str]) -> Key:
    return one["database"], one["row"], int(one["connections"]), int(one["round"])


def _median(runs: list[Measured]) -> Measured:
    figures: dict[str, Any] = {}
    for name in FIGURES:
        values = [value for run in runs if (value := getattr(run, name)) is not None]
        figures[name] = statistics.median(values) if values else None
    return dataclasses.replace(runs[0], **figures)
