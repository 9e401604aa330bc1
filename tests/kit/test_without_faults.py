"""A service that is not for development has nothing of the test bench: no route, no header, no Wire."""

from __future__ import annotations

import re

import pytest

from every_operation import OPERATIONS
from operator_calls import operator
from paydesk_dev.faults.active import Faults
from service import Service, order_body


async def test_no_route_is_there(service: Service) -> None:
    """For an operator and for a till: the paths of `/dev/` and of virtual terminals are unknown."""
    token = (await operator(service)).token
    paths = {(one.method, re.sub(r"\{[^}]*\}", "1", one.path)) for one in OPERATIONS if one.development}
    assert len(paths) > 10
    for method, path in sorted(paths):
        for presented in (token, service.access_token):
            reply = await service.request(method, path, {} if method != "GET" else None, token=presented, key=None)
            assert reply.status in (404, 405), (method, path)


async def test_the_header_changes_nothing(service: Service) -> None:
    """A till that sends it is served, and no table of faults exists."""
    terminal = await service.terminal()
    for fault in ("busy", "reset", "no such fault"):
        reply = await service.request(
            "POST", "/v1/orders", order_body(terminal.id), headers={"Paydesk-Fault": fault}, key="k1"
        )
        assert reply.status == 201
    with pytest.raises(LookupError):
        service.shared.objects[Faults]
