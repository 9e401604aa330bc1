"""Clients that generators make of the OpenAPI documents: they compile, have types, and work."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import openapi_tools
from conftest import skip_unless_ci
from openapi_tools import DOCUMENTS, Findings
from paydesk.platform.settings import Settings
from service_thread import serving

APPLICATIONS = DOCUMENTS[0]


@pytest.fixture(scope="module")
def _installed() -> None:
    try:
        openapi_tools.install()
    except (Findings, OSError) as missing:
        skip_unless_ci(f"the tools could not be installed: {missing}")


def _generate(folder: Path) -> None:
    for document in DOCUMENTS:
        openapi_tools.generate_node(document, folder / "node" / document.stem)
        openapi_tools.generate_python(document, folder / "python" / document.stem)


def _create_get_refund_and_list(database_url: str, folder: Path) -> None:
    """Run both clients, each with a terminal of its own."""
    clients = (
        (folder / "node" / APPLICATIONS.stem, "node", "out/client.js"),
        (folder / "python" / APPLICATIONS.stem, sys.executable, "client.py"),
    )
    with serving(database_url, Settings()) as served:
        for (where, *command), terminal in zip(clients, served.known["terminals"], strict=False):
            variables = {"BASE_URL": served.base_url, "ACCESS_TOKEN": served.access_token, "PAID_ID": served.paid_id}
            answered = json.loads(openapi_tools.run(*command, cwd=where, TERMINAL_ID=terminal, **variables))
            assert answered.pop("terminals") >= len(served.known["terminals"])
            assert answered == {"order": "created", "refund": "processed", "terminal": terminal}


@pytest.mark.long("programs generate, compile and run clients, if the documents changed")
@pytest.mark.usefixtures("_installed")
def test_generated_clients_of_changed_documents(sqlite_url: str, tmp_path: Path) -> None:
    """Those of the documents with which the generators were last run are left out here."""
    if openapi_tools.DIGEST.read_text().strip() != openapi_tools.digest():
        _generate(tmp_path)
        _create_get_refund_and_list(sqlite_url, tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("_installed")
def test_generated_clients(sqlite_url: str, tmp_path: Path) -> None:
    """Both create, get, refund and list; mypy and tsc know that an answer is an `Order`."""
    _generate(tmp_path)
    _create_get_refund_and_list(sqlite_url, tmp_path)
