"""Requests that nobody thought of, made from the service's own OpenAPI document: the document tells the truth."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from service_thread import Served, serving

EXAMPLES = 8
SECONDS_MAX = 180
CONFIG = """
seed = 20260131
continue-on-failure = true
max-redirects = 0

[generation]
max-examples = {examples}
deterministic = true
database = "none"

# A schema can't tell every rule: that two amounts agree, that a terminal is named once, that digits are no card's.
[checks.positive_data_acceptance]
enabled = false

[phases.stateful]
enabled = false

[[operations]]
include-tag = "application"
headers = {{ Authorization = "Bearer {access_token}" }}

[[operations]]
include-tag = "device"
headers = {{ Authorization = "Bearer {device_token}" }}

[[operations]]
include-tag = "operator"
headers = {{ Authorization = "Bearer {operator_token}" }}

[[operations]]
include-operation-id = "device_next"
parameters = {{ wait = 0 }}
"""


def _run(served: Served, folder: Path, config: str) -> subprocess.CompletedProcess[str]:
    (folder / "schemathesis.toml").write_text(config)
    return subprocess.run(
        [Path(sys.executable).with_name("schemathesis"), "run", f"{served.base_url}/openapi.json", "--no-color"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


@pytest.mark.parametrize("authenticated", [True, False], ids=["authenticated", "anonymous"])
def test_no_answer_is_undeclared(sqlite_url: str, tmp_path: Path, authenticated: bool) -> None:  # noqa: FBT001
    """Every answer has a declared status, type, headers and shape; what is malformed is refused; nothing is a 5xx."""
    with serving(sqlite_url) as served:
        config = CONFIG.format(
            examples=EXAMPLES,
            access_token=served.access_token,
            device_token=served.terminal.token,
            operator_token=served.operator_token,
        )
        finished = _run(served, tmp_path, config if authenticated else config.partition("[[operations]]")[0])
    assert finished.returncode == 0, finished.stdout + finished.stderr
