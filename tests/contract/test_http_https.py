"""What every answer says to browsers where the public address is https."""

from __future__ import annotations

import pytest

from page_scene import Browser, Page, authorization
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from raw_http import exchange
from service import Reply, running

HEADER = "strict-transport-security"


@pytest.mark.parametrize(
    ("public_url", "expected"),
    [("https://127.0.0.1", "max-age=31536000"), ("http://127.0.0.1", None), (None, None)],
    ids=["https", "http", "unknown"],
)
async def test_every_answer_asks_for_https(sqlite_url: str, public_url: str | None, expected: str | None) -> None:
    """Pages, assets, redirects, the interface, its errors, and what the server refuses by itself; only with https."""
    database = await open_database(sqlite_url)
    settings = Settings(public_url=public_url)
    async with running(database, settings=settings, workers=False) as service:
        browser = Browser(service)
        page = await browser.get(authorization(service))
        asset = next(given["href"] for tag, given in page.tags if tag == "link" and "css" in given["href"])
        answers: dict[str, Page | Reply] = {
            "page": page,
            "asset": await browser.get(asset),
            "error page": await browser.get("/authorization"),
            "redirect": await browser.get(authorization(service, scope="everything")),
            "documentation": await service.request("GET", "/docs"),
            "interface": await service.request("GET", "/terminals/v1/list"),
            "refused": await service.request("GET", "/terminals/v1/list", token=None),
            "unknown path": await service.request("GET", "/unknown"),
            "health": await service.request("GET", "/livez"),
            "malformed": await exchange(service, b"GET / HTTP/1.1\r\nbroken\r\n\r\n"),
        }
        statuses = [200, 200, 400, 303, 200, 200, 401, 404, 200, 400]
        assert [answer.status for answer in answers.values()] == statuses
        assert {name: answer.headers.get(HEADER) for name, answer in answers.items()} == dict.fromkeys(
            answers, expected
        )
    await database.close()
