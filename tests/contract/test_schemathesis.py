"""Generated requests from the service's own OpenAPI documents: responses match the documents."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from string import Template
from typing import Any

import pytest

from paydesk.platform.http.openapi.documents import DOCUMENTS
from paydesk.platform.settings import Settings
from rotating import quarter
from service_thread import Served, serving

HOOKS = Path(__file__).parents[1] / "schemathesis_hooks.py"
NO_CALLER: dict[str, Any] = {"terminals": ["NEWLAND_N950__NOWHERE"], "payment_id": "", "bodies": {}}
METRICS_TOKEN = "0123456789abcdef" * 2
SECONDS_MAX = 420
Described = tuple[str, str]
WITH_LINKS = {DOCUMENTS[name].path for name in ("applications", "operators")}
"""The documents whose operations make what others of theirs are about."""
COMMON = """\
hooks = "$hooks"
seed = 20260131
continue-on-failure = true
max-redirects = 0

[generation]
max-examples = $examples
deterministic = true
database = "none"

[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 414, 415, 422, 428, 429]

[phases.coverage]
enabled = $coverage

# What is made is asked for by the document's links, several steps long.
[phases.stateful]
enabled = $stateful
max-steps = 6
"""
ANONYMOUS = COMMON
AUTHENTICATED = (
    COMMON
    + """
[[operations]]
include-tag = "application"
headers = { Authorization = "Bearer $access_token" }

[[operations]]
include-tag = "device"
headers = { Authorization = "Bearer $device_token" }

[[operations]]
include-tag = "operator"
headers = { Authorization = "Bearer $operator_token" }
phases = { coverage = { enabled = false } }

[[operations]]
include-tag = "metrics"
headers = { Authorization = "Bearer $metrics_token" }

# Needs the process that plays virtual terminals.
[[operations]]
include-operation-id-regex = "^operator_create_terminals$$|_virtual_(terminals?|screen)$$"
enabled = false

# Retired: each request is answered 410.
[[operations]]
include-operation-id-regex = "^operator_(set|clear)_fault$$"
enabled = false

# Filters of the page are no concern of the JSON.
[[operations]]
include-operation-id = "demo_inbox_show"
checks = { negative_data_rejection = { enabled = false } }

# A result in any form is recorded, and so is what the demo inbox gets.
[[operations]]
include-operation-id-regex = "^(device_result|demo_inbox_receive)$$"
checks = { negative_data_rejection = { enabled = false } }

# An order that there is, so that it is shown; the ids of others are made up.
[[operations]]
include-operation-id = "get_order"
parameters = { order_id = "$order_id" }

[[operations]]
include-operation-id = "refund_order"
parameters = { order_id = "$paid_id" }

[[operations]]
include-operation-id = "device_next"
parameters = { wait = 0, boot_id = "$boot_id" }

[[operations]]
include-operation-id = "list_notifications"
parameters = { wait = 0 }

[[operations]]
include-operation-id-regex = "^device_(acknowledge|progress|cancel_result|result)$$"
parameters = { lease_id = "$lease_id" }
"""
)


@contextmanager
def _serving(database_url: str, folder: Path) -> Iterator[Served]:
    """Serve with a token of Prometheus: without one, a service for development shows its numbers to any caller."""
    token = folder / "metrics_token"
    token.touch(mode=0o600)
    token.write_text(METRICS_TOKEN)
    with serving(database_url, Settings(metrics_token=f"file:{token}")) as served:
        yield served


def _operations(served: Served) -> list[Described]:
    """Return all operations of all documents: the path of the document and the operation's name."""
    found = []
    for document in DOCUMENTS.values():
        with urllib.request.urlopen(served.base_url + document.path) as answer:  # noqa: S310 - our own service
            paths = json.load(answer)["paths"]
        found += [(document.path, one["operationId"]) for path in paths.values() for one in path.values()]
    return sorted(found)


def _run(
    served: Served, folder: Path, config: str, operations: Iterable[Described], *, examples: int, coverage: bool = False
) -> None:
    values = {
        "examples": examples,
        "coverage": str(coverage).lower(),
        "hooks": HOOKS,
        "metrics_token": METRICS_TOKEN,
        **asdict(served),
    }
    (folder / "known.json").write_text(json.dumps(NO_CALLER if config is ANONYMOUS else served.known))
    program = str(Path(sys.executable).with_name("schemathesis"))
    for document, chosen in groupby(operations, itemgetter(0)):
        values["stateful"] = str(coverage and document in WITH_LINKS).lower()
        (folder / "schemathesis.toml").write_text(Template(config).substitute(values))
        command = [program, "run", served.base_url + document, "--no-color"]
        finished = subprocess.run(
            [*command, *(f"--include-operation-id={name}" for _, name in chosen)],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.mark.long("requests to a quarter of the operations, by a program")
def test_with_the_right_token(sqlite_url: str, tmp_path: Path) -> None:
    """Every answer has a declared status, type, headers and shape; what is malformed is refused; nothing is a 5xx."""
    with _serving(sqlite_url, tmp_path) as served:
        _run(served, tmp_path, AUTHENTICATED, quarter(_operations(served)), examples=1)


@pytest.mark.slow
def test_several_steps(sqlite_url: str, tmp_path: Path) -> None:
    """The same with more requests to all operations, and with what earlier answers named."""
    with _serving(sqlite_url, tmp_path) as served:
        _run(served, tmp_path, AUTHENTICATED, _operations(served), examples=3, coverage=True)


@pytest.mark.slow  # `test_http_declared_errors` has one request without a token to every operation.
def test_without_a_token(sqlite_url: str, tmp_path: Path) -> None:
    """The same for unknown callers, who create nothing."""
    with _serving(sqlite_url, tmp_path) as served:
        _run(served, tmp_path, ANONYMOUS, _operations(served), examples=2)
