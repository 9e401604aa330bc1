"""Write the generated pages of `docs/` (`python -m tools.docs.generated`) or compare them (`--check`)."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from paydesk.service.api import OWN
from paydesk_dev.api import API
from tools.docs import (
    acquirer_pictures,
    actions,
    command_rows,
    commands,
    differences,
    error_codes,
    lifecycles,
    log_events,
    metrics,
    pictures,
    settings,
    simulator,
    switch_api,
    unhappy_paths,
    versions,
    webhook_events,
    webhook_pictures,
)

DOCS = Path(__file__).parents[2] / "docs"
_DIFF_LINES_MAX = 40


PAGES: dict[str, Callable[[], str]] = {
    "openapi.json": OWN.openapi_json,
    "openapi/operators.json": partial(OWN.openapi_json, "operators"),
    "openapi/terminals.json": partial(OWN.openapi_json, "terminals"),
    "openapi/development.json": partial(API.openapi_json, "development"),
    "actions.md": actions.page_of_actions,
    "commands.md": commands.page_of_commands,
    "differences.md": differences.page_of_differences,
    "errors.md": error_codes.page_of_errors,
    "limits.md": settings.page_of_limits,
    "metrics.md": metrics.page_of_metrics,
    "log-events.md": log_events.page_of_log_events,
    "order-lifecycle.md": lifecycles.page_of_orders,
    "settings.md": settings.page_of_settings,
    "simulator.md": simulator.page_of_simulator,
    "sale-with-confirmation.svg": acquirer_pictures.sale,
    "switch-openapi.json": switch_api.page_of_switch,
    "terminal-payment.svg": pictures.payment,
    "terminal-recovery.svg": pictures.verdicts,
    "unhappy-paths.md": unhappy_paths.page_of_paths,
    "token-lifecycle.md": lifecycles.page_of_tokens,
    "webhook-events.md": webhook_events.page_of_events,
    "webhook-retries.svg": webhook_pictures.retries,
    **command_rows.files(),
    **versions.files(),
}


def write(docs: Path = DOCS) -> None:
    """Write every page."""
    docs.mkdir(exist_ok=True)
    for name, make in PAGES.items():
        (docs / name).parent.mkdir(exist_ok=True)
        (docs / name).write_text(make(), encoding="utf-8")


def stale(docs: Path = DOCS) -> dict[str, str]:
    """Return the pages that differ from the code, each with its diff."""
    diffs: dict[str, str] = {}
    for name, make in PAGES.items():
        file, expected = docs / name, make()
        found = file.read_text(encoding="utf-8") if file.exists() else ""
        if found != expected:
            diffs[name] = _difference(found, expected, name)
    return diffs


def _difference(found: str, expected: str, name: str) -> str:
    lines = list(
        difflib.unified_diff(found.splitlines(), expected.splitlines(), f"docs/{name}", "the code", lineterm="")
    )
    left = len(lines) - _DIFF_LINES_MAX
    return "\n".join(lines[:_DIFF_LINES_MAX] + ([f"… and {left} more lines"] if left > 0 else []))


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or with `--check` print the stale ones and return 1 if there are any."""
    if list(arguments) not in ([], ["--check"]):
        sys.stderr.write("usage: python -m tools.docs.generated [--check]\n")
        return 2
    if not arguments:
        write()
        return 0
    diffs = stale()
    for name, difference in diffs.items():
        sys.stderr.write(f"docs/{name} is stale:\n{difference}\n\n")
    if diffs:
        sys.stderr.write("Run `make generate` and commit what it writes.\n")
    return 1 if diffs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
