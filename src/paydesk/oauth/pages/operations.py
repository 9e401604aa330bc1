"""The rows of the interface table that a seller's browser sees."""

from __future__ import annotations

from paydesk.oauth.pages import html
from paydesk.operation import Answer, Call, Operation

ASSET_SECONDS = 365 * 24 * 3600


def _asset(name: str, media_type: str) -> Operation:
    headers = (
        ("cache-control", f"public, max-age={ASSET_SECONDS}, immutable"),
        ("x-content-type-options", "nosniff"),
    )
    answer = Answer(200, html.asset(name), headers, media_type)

    async def show(_: Call) -> Answer:
        return answer

    return Operation(
        "GET",
        f"{html.ASSETS_PATH}{name}",
        f"pages_{name.replace('.', '_')}",
        f"Part of the pages: {name}",
        "page",
        show,
        transaction="none",
        media_type=media_type,
    )


OPERATIONS: tuple[Operation, ...] = tuple(_asset(name, media_type) for name, media_type in html.ASSETS.items())
