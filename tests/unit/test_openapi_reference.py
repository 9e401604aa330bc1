"""The reference page: everything on it, nothing from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, cast

import pytest
from test_openapi_document import ROWS

from paydesk.platform.http.openapi import reference
from paydesk.platform.operation import Answer, Call, Operation, ThreePhase
from paydesk.platform.web import assets

NO_CALL = cast("Call", None)


@pytest.fixture(scope="module")
def rows() -> Sequence[Operation]:
    """The rows that serve the reference."""
    return reference.rows(ROWS, ())


async def _answer(rows: Sequence[Operation], path: str) -> Any:
    (row,) = (row for row in rows if row.path == path)
    assert not isinstance(row.handler, ThreePhase)
    answer = await row.handler(NO_CALL)
    assert isinstance(answer, Answer)
    assert answer.media_type == row.media_type
    return answer


async def test_the_page_has_no_script_and_loads_nothing_from_other_hosts(rows: Sequence[Operation]) -> None:
    """Not one script, inline style or foreign address stands in the page, and its policy forbids them."""
    page = await _answer(rows, "/docs")
    html = page.body.decode()
    assert "<script" not in html
    assert "style=" not in html
    assert re.findall(r'(?:src|href)="(?!/pages/assets/|/openapi\.json|#)[^"]*"', html) == []
    policy = dict(page.headers)["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


async def test_the_page_has_every_operation_and_error(rows: Sequence[Operation]) -> None:
    """Each row has its place, its fields, and its errors with what to do."""
    html = (await _answer(rows, "/docs")).body.decode()
    for row in ROWS:
        assert f'<article id="{row.name}" class' in html
        assert all(kind.code in html for kind in row.errors)
    assert "<code>seats[].number</code>" in html
    assert "development only" in html


async def test_assets_are_immutable_and_versioned_by_content(rows: Sequence[Operation]) -> None:
    """The page asks for each asset by its hash, so an asset may be cached as immutable."""
    html = (await _answer(rows, "/docs")).body.decode()
    served = (*rows, *assets.operations(assets.SHARED))
    for name in ("reference.css", "paydesk.css", "icon.svg"):
        asset = await _answer(served, f"{assets.PATH}{name}")
        assert "immutable" in dict(asset.headers)["cache-control"]
        assert f"{assets.PATH}{name}?v={sha256(asset.body).hexdigest()[:12]}" in html


def test_operation_texts_are_escaped() -> None:
    """A text of the table can't become markup of the page."""
    row = Operation("GET", "/x", "x", "public", ROWS[0].handler, "<b>bold</b>", description="`<i>`")
    html = reference.render([row], ())
    assert "&lt;b&gt;bold&lt;/b&gt;" in html
    assert "<code>&lt;i&gt;</code>" in html


def test_the_command_line_of_an_operation() -> None:
    """It carries the credential, the key and a body that would be taken."""
    command = reference.curl(ROWS[0])
    assert command.startswith('curl -X POST "$BASE_URL/v1/bookings"')
    assert "Bearer $ACCESS_TOKEN" in command
    assert "X-Idempotency-Key" in command
    assert '"kind": "adult"' in command
    assert '"$BASE_URL/v1/bookings/${booking_id}"' in reference.curl(ROWS[1])
