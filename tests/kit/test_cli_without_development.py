"""What the command line says of a service that is not for development."""

from __future__ import annotations

import asyncio
from pathlib import Path

from command_line import command
from every_operation import OPERATIONS
from operator_calls import operator
from paydesk.commands.client.client import DEVELOPMENT
from service import Service
from tables import each

UNKNOWN = "939a366f-6de0-484b-84f9-77b876e9a9ee"


@each(
    "arguments",
    [
        ("terminals", "create", "--virtual"),
        ("clock", "advance", "61s"),
        ("clock", "show"),
        ("inbox",),
        ("code", "--client-id", "1", "--seller", "1"),
        ("faults", "add", "webhook", "*", "twice"),
        ("faults", "list"),
        ("faults", "clear"),
        ("wait", "webhook", "order.processed"),
        ("webhooks", "resend", f"{UNKNOWN}.{UNKNOWN}", "--to", "http://localhost:3000/hook"),
    ],
)
async def test_what_only_development_has_is_named(service: Service, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """By the service's address, instead of a method or a path."""
    token = (await operator(service)).token
    ended = await asyncio.to_thread(
        command, *arguments, folder=tmp_path, PAYDESK_BASE_URL=service.base_url, PAYDESK_OPERATOR_TOKEN=token
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"The service at {service.base_url} is not for development, so it cannot do this." in ended.stderr
    assert ("In production the seller's browser takes the code" in ended.stderr) == (arguments[0] == "code")


def test_the_commands_know_the_operations_of_development() -> None:
    """All of them, and no other."""
    operations = {f"{one.method} {one.path}": one for one in OPERATIONS if one.surface in ("operator", "virtual")}
    known = {called for called in operations if DEVELOPMENT.fullmatch(called)}
    assert known == {called for called, one in operations.items() if one.development} != set()
