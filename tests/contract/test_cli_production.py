"""What the command line says of a service that is not for development: what holds there, not how to start another."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from command_line import command
from operator_calls import operator
from service import Service

UNKNOWN = "939a366f-6de0-484b-84f9-77b876e9a9ee"


async def test_arguments_are_named_in_words(service: Service, tmp_path: Path) -> None:
    """An id in a path, an empty search, an application that no credentials name."""
    given = {"PAYDESK_BASE_URL": service.base_url, "PAYDESK_OPERATOR_TOKEN": (await operator(service)).token}
    for arguments, code, sentence in (
        (("operators", "link", "bea@shop.example"), 1, "OPERATOR_ID is malformed: give an id as the lists show it."),
        (("search", " "), 2, "The text to search for is empty."),
        (("subscriptions", "create", "--url", "https://8.8.8.8/"), 2, "have no client_id. Add --client-id."),
    ):
        ended = await asyncio.to_thread(command, *arguments, folder=tmp_path, **given)
        assert (ended.returncode, sentence in ended.stderr) == (code, True), ended.stderr


def test_an_address_without_a_service_is_to_be_checked(tmp_path: Path) -> None:
    """It is not said to start `paydesk dev`."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        ended = command("apps", "list", folder=tmp_path, PAYDESK_BASE_URL=url, PAYDESK_OPERATOR_TOKEN="PDO-1")
    assert (ended.returncode, "that PAYDESK_BASE_URL is its address" in ended.stderr) == (3, True)
    assert "paydesk dev" not in ended.stderr
