"""The commands of docs/operators.md, run unchanged in a folder in which `paydesk dev` runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import dev_thread
from command_line import paydesk_on_path
from docs_programs import DOCS, blocks, run
from paydesk.platform.operator_events import Kind
from paydesk_process import credentials, request
from tables import each

PAGE, OPERATIONS = ((DOCS / name).read_text() for name in ("operators.md", "operations.md"))
PRINT_VARIABLES = '\nprintf "%s\\n" "$CLIENT_ID" "$OLD_SECRET" "$NEW_SECRET" "$SELLER"\n'


def test_every_command_works(tmp_path: Path) -> None:
    """Run in one shell, in order; afterwards the accounts are in the expected state."""
    script = "".join(blocks(PAGE, "sh"))
    with dev_thread.dev(tmp_path), paydesk_on_path(tmp_path) as path:
        output = run(tmp_path, script + PRINT_VARIABLES, "sh", "-eu", PATH=path)
        assert {path.name for path in tmp_path.iterdir()} == {".paydesk", ".venv"}
        client_id, old_secret, new_secret, seller = output.splitlines()[-4:]
        assert _error_code(tmp_path, client_id, new_secret) == "invalid_grant", "authenticated, but the code is invalid"
        assert _error_code(tmp_path, client_id, old_secret) == "invalid_client"
        service = credentials(tmp_path)
        url, token = f"{service['base_url']}/operator/v1", service["operator"]["token"]
        _, application = request("GET", f"{url}/applications/{client_id}", token)
        assert (application["name"], application["pkce_required"]) == ("Corner shop, till 1", True)
        assert application["redirect_uris"] == ["https://shop.example/callback", "https://shop.example/new"]
        assert "suspended_date" not in application
        _, ana = request("GET", f"{url}/sellers/{seller}", token)
        assert (ana["email"], "suspended_date" in ana) == ("ana.maria@shop.example", False)
        _, accounts = request("GET", f"{url}/operators", token)
        assert [account["name"] for account in accounts["data"] if "revoked_date" in account] == ["bea"]


@each("kind", get_args(Kind))
def test_every_kind_of_event_is_explained(kind: str) -> None:
    """In the first column of a table on one of the two pages."""
    tables = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", PAGE + OPERATIONS, re.MULTILINE)
    assert any(f"`{kind}`" in cell for cell in tables)


def _error_code(folder: Path, client_id: str, secret: str) -> str:
    """Return the error of the token endpoint for an invalid code, with this client secret."""
    body = {
        "client_id": client_id,
        "client_secret": secret,
        "grant_type": "authorization_code",
        "code": "TG-1",
        "redirect_uri": "https://shop.example/callback",
    }
    _, refused = request("POST", f"{credentials(folder)['base_url']}/oauth/token", body=body)
    error: str = refused["error"]
    return error
