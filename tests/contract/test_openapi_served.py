"""The OpenAPI documents over HTTP: which listener has which, and the address that they name."""

from __future__ import annotations

import pytest

from paydesk.platform.http.openapi.documents import DOCUMENTS
from paydesk.platform.operation import Surface
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk.service.serve import CLIENT_SURFACES, OPERATOR_SURFACES
from service import running

PATHS = {name: one.path for name, one in DOCUMENTS.items()}


@pytest.mark.parametrize(
    ("surfaces", "served"),
    [
        (CLIENT_SURFACES, {"applications", "terminals"}),
        (OPERATOR_SURFACES, {"applications", "operators", "terminals"}),
    ],
    ids=["clients", "operators"],
)
async def test_each_listener_has_its_documents(
    database: Database, surfaces: tuple[Surface, ...], served: set[str]
) -> None:
    """Operators' are at their listener alone; in production there is none of development."""
    async with running(database, workers=False, surfaces=surfaces) as service:
        statuses = {name: (await service.request("GET", path, token=None)).status for name, path in PATHS.items()}
    assert statuses == {name: 200 if name in served else 404 for name in PATHS}


async def test_a_document_names_the_address_of_the_service(database: Database) -> None:
    """Or itself, where none is set; operators' do, as their listener has another address."""
    async with running(database, workers=False, development=True) as service:
        assert (await service.request("GET", PATHS["terminals"])).body["servers"][0]["url"] == "/"
    settings = Settings(public_url="https://pay.example.com")
    async with running(database, workers=False, settings=settings, development=True) as service:
        named = {name: (await service.request("GET", path)).body["servers"][0]["url"] for name, path in PATHS.items()}
    assert named == {name: "/" if name == "operators" else "https://pay.example.com" for name in PATHS}
