"""Pairing over HTTP: a terminal asks for codes, an operator approves one, and the terminal gets its device token."""

from __future__ import annotations

from typing import Any

import pytest

from operator_calls import Operator, audited, operator
from pairing_scene import MODEL, ask_to_pair, poll
from service import Service, Terminal

PAIRED = "NEWLAND_N950__N950-1"


async def refused(service: Service, codes: dict[str, Any]) -> tuple[int, str]:
    """Return status and code of a poll that must be refused."""
    reply = await poll(service, codes)
    return reply.status, reply.code


@pytest.fixture
async def owner(service: Service) -> Operator:
    """An operator."""
    return await operator(service)


async def test_terminal_is_paired_with_a_code(service: Service, owner: Operator) -> None:
    """The operator sees what asks to be paired. The token is returned until its first use."""
    codes = await ask_to_pair(service, PAIRED)
    assert (codes["expires_in"], codes["interval"], "verification_uri" in codes) == (300, 3, False)
    assert await refused(service, codes) == (400, "authorization_pending")
    path = f"pairings/{codes['user_code']}"
    seen = await owner.did("GET", path)
    assert seen.pop("expires_date")
    assert seen == {
        "model": MODEL,
        "serial": "N950-1",
        "terminal_id": "NEWLAND_N950__N950-1",
        "address": "127.0.0.1",
        "paired": False,
    }
    made = await owner.did("POST", path, {"seller_id": service.seller_id})
    assert (made["id"], made["kind"], made["live_mode"], made["operating_mode"]) == (
        "NEWLAND_N950__N950-1",
        "terminal",
        True,
        "UNDEFINED",
    )
    assert (await owner.did("GET", "terminals"))["data"] == [made]
    first, second = [await poll(service, codes) for _ in range(2)]
    assert first.status == 200
    assert first.body == second.body
    assert first.body["terminal_id"] == made["id"]
    assert first.body["device_token"].startswith("PDT-")
    await service.device(Terminal(made["id"], first.body["device_token"]))
    assert await refused(service, codes) == (400, "expired_token")
    assert await owner.refused("GET", path) == (404, "pairing_not_found")
    (line,) = await audited(service)
    assert (line.action, line.subject, line.after["address"]) == ("pairings.approve", made["id"], "127.0.0.1")
    assert first.body["device_token"] not in str(line)
