"""GET /operator/v1/events: what operators are told, with its evidence."""

from __future__ import annotations

import uuid

from operator_calls import operator
from service import Service


async def test_what_a_terminal_sent_is_told_whatever_it_is(service: Service) -> None:
    """JSON as JSON; what is none, or was until a card number in it was masked, as text."""
    device, person = await service.device(await service.terminal()), await operator(service, "support")
    lease_id = (await service.create(device.terminal)).body["id"][3:]
    assert (await device.ack(lease_id)).status == 200
    for raw in (b"{", b'{"pan": 5031755734530604}', b'["approved"]'):
        path = f"/device/v1/leases/{lease_id}/results/{uuid.uuid4()}"
        assert (await service.request("PUT", path, data=raw, token=device.terminal.token)).code == "result_conflict"
    told = (await person.did("GET", "events"))["data"]
    assert [event["body"] for event in told] == ["{", '{"pan": ***}', ["approved"]]
