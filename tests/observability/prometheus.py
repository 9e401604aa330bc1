"""A real Prometheus that reads running nodes."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from free_port import free_port
from observability.files import ALERTS, FILES, program
from waiting import wait_until

TOKEN = "scraped-by-the-tests-scraped-by-the-tests"
READABLE = {"PAYDESK_METRICS_TOKEN": "env:SCRAPED", "SCRAPED": TOKEN}
"""The variables of a node that it may read."""


@dataclass
class Prometheus:
    """The program, with the example of its configuration. It looks once a second, and back for 15 s."""

    folder: Path
    nodes: Sequence[str]
    """The addresses of their operators' listeners."""
    port: int = field(default_factory=free_port)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run it until the end of the block. Nothing waits before it is raised."""
        self.folder.mkdir()
        (self.folder / "token").write_text(TOKEN)
        example = (FILES / "prometheus.yml").read_text().replace("/etc/prometheus/paydesk-token", "token")
        example = re.sub(r'"10.0.0.11:8378", "10.0.0.12:8378"', json.dumps(self.nodes)[1:-1], example)
        example = re.sub(r"(scrape|evaluation)_interval: \d+s", r"\1_interval: 1s", example)
        example = re.sub(r"(?ms)^alerting:.*?^(?=\S)", "", example)
        (self.folder / "prometheus.yml").write_text(example)
        rules = re.sub(r"for: \d+m", "for: 0s", ALERTS.read_text()).replace("[5m]", "[15s]")
        (self.folder / ALERTS.name).write_text(rules)
        options = (f"--storage.tsdb.path={self.folder}/data", f"--web.listen-address=127.0.0.1:{self.port}")
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [program("prometheus"), "--config.file=prometheus.yml", *options],
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )
        try:
            wait_until(lambda: self._is_ready() or process.poll() is not None)
            assert process.poll() is None, (self.folder / "log").read_text()
            yield
        finally:
            process.terminate()
            process.wait()

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready") as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def ask(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer of its API. Raises `HTTPError` if a query is wrong."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}?{query}") as answer:
            document = json.load(answer)
        assert document["status"] == "success", document
        assert not document.get("warnings"), document
        return document["data"]

    def value(self, query: str) -> float | None:
        """Return the one value of a query, None if it has none."""
        found = self.ask("query", query=query)["result"]
        return float(found[0]["value"][1]) if found else None

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire."""
        return {one["labels"]["alertname"] for one in self.ask("alerts")["alerts"] if one["state"] == "firing"}

    def fires(self, *names: str) -> None:
        """Wait until these alerts fire and no other."""
        wait_until(lambda: self.firing() == {*names}, self.firing)

    def counted(self, selector: str) -> float:
        """Return how often all processes counted up together: what one of them counted before its end, too."""
        total = 0.0
        for series in self.ask("query", query=f"{selector}[1h]")["result"]:
            values = [0.0, *(float(value) for _, value in series["values"])]
            total += sum(now - (before if now >= before else 0) for before, now in itertools.pairwise(values))
        return total
