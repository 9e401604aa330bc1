"""`GET /` redirects to the console."""

from __future__ import annotations

from paydesk.console.request import PATH
from paydesk.operation import Answer, Call, Operation
from paydesk.web import html


async def show(_: Call) -> Answer:
    """Return the redirect to the console."""
    return html.redirect(PATH)


OPERATIONS = (
    Operation(
        "GET",
        "/",
        "console_root",
        "console",
        show,
        "Redirect to the console",
        transaction="none",
        status=303,
        is_constant=True,
        media_type=html.HTML,
    ),
)
