"""The example of a test without hardware: the very text runs against `paydesk dev`."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from paydesk_process import dev, environment

EXAMPLE = """\
field() { grep -oE "\\"$1\\": ?\\"[^\\"]*\\"" | head -n 1 | sed -E 's/.*"([^"]*)"$/\\1/'; }
BASE_URL=$(field base_url <.paydesk/credentials.json)
TOKEN=$(grep -oE 'TEST-[^"]*' .paydesk/credentials.json | head -n 1)
api() { curl -sS -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" "$BASE_URL$@"; }

TERMINAL=$(api /virtual/v1/terminals -d '{}' | field id)
ORDER=$(api /v1/orders -H "X-Idempotency-Key: $TERMINAL" -d "{\\"type\\": \\"point\\",
  \\"transactions\\": {\\"payments\\": [{\\"amount\\": \\"24.90\\"}]},
  \\"config\\": {\\"point\\": {\\"terminal_id\\": \\"$TERMINAL\\"}}}" | field id)
api "/virtual/v1/terminals/$TERMINAL/screen?wait=10&until=present_card"
api "/virtual/v1/terminals/$TERMINAL/actions" -d '{"action": "tap", "card": "visa_approved"}'
api "/virtual/v1/terminals/$TERMINAL/screen?wait=10&until=approved"
until api "/v1/orders/$ORDER" | grep -q '"status":"processed"'; do sleep 0.1; done
echo "$ORDER is paid"
api "/virtual/v1/terminals/$TERMINAL" -X DELETE
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in which `paydesk dev` runs."""
    with dev(tmp_path):
        yield tmp_path


def test_the_example_pays(folder: Path) -> None:
    """Once the terminal shows `approved`, the result is on its way to the service."""
    done = subprocess.run(
        ["sh", "-eu"],
        cwd=folder,
        env=environment(),
        input=EXAMPLE,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"screen":"present_card"' in done.stdout
    assert '"screen":"approved"' in done.stdout
    assert re.search(r"ORD[0-9A-Z]{26} is paid$", done.stdout.strip(), re.MULTILINE), done.stdout
