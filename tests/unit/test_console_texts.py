"""What the console makes of texts that others choose: the path of a request, and the command that repeats one."""

from __future__ import annotations

import asyncio
import shlex

import pytest

from paydesk.console.api import Api, ApiRefused
from paydesk.operators.requests.curl import command as curl_of
from paydesk.platform.http.in_process import InProcess

BASE = "https://pay.example"


@pytest.mark.parametrize("one", ["a/cancel", "/", "../operators", "a/b?c=d"])
def test_no_id_makes_another_path(one: str) -> None:
    """A slash is refused, because a server takes an escaped one for a separator."""
    api = Api(InProcess(), "203.0.113.9", "own-id", "PDS-0")
    with pytest.raises(ApiRefused) as refused:
        asyncio.run(api.get("orders/{}", one))
    assert refused.value.status == 404


@pytest.mark.parametrize(
    "path", ["/v1/x\x03\nid\n", "/v1/'; id; '", "/v1/\x1b[201~id", "/v1/$(id)`id`", "/v1/a b\u2028"]
)
def test_a_pasted_command_is_one_command(path: str) -> None:
    """Any client chooses the path of its request: the command has it in one word, without control characters."""
    command = curl_of({"method": "GET", "path": path}, BASE)
    assert command.replace("\n", "").isascii()
    assert command.replace(" \\\n", "").isprintable()
    words = shlex.split(command.replace("\\\n", ""))
    assert words[:4] == ["curl", "-sS", "-X", "GET"]
    assert words[4].startswith(f"{BASE}/v1/")
    assert words[5:] == ["-H", "Authorization: Bearer $PAYDESK_ACCESS_TOKEN"]


def test_a_plain_target_is_sent_as_it_was() -> None:
    """With its query and the escapes in it."""
    path = "/v1/orders/ORD1/refund?a=%20b&c=d,e:f+g"
    assert f"{BASE}{path}" in shlex.split(curl_of({"method": "POST", "path": path}, BASE).replace("\\\n", ""))
