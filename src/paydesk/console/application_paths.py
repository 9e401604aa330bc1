"""The paths of applications on the console, and the form of an action on one."""

from __future__ import annotations

from typing import Any

from paydesk.console.actions import ActionForm
from paydesk.console.api import Document
from paydesk.console.request import PATH

HERE, SECTION = f"{PATH}/applications", "applications"


def path_of(client_id: str) -> str:
    """Return the path of the page of an application."""
    return f"{HERE}/{client_id}"


def form_about(application: Document, title: str, *says: str, **more: Any) -> ActionForm:
    """Return the form of an action on an application, which leads back to its page."""
    return ActionForm(title, says, path_of(application["client_id"]), SECTION, **more)
