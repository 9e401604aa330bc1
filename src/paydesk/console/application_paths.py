"""The paths of applications on the console."""

from __future__ import annotations

from paydesk.console.request import PATH

HERE, SECTION = f"{PATH}/applications", "applications"


def path_of(client_id: str) -> str:
    """Return the path of the page of an application."""
    return f"{HERE}/{client_id}"
