"""GET /operator/v1/events: what operators are told, with its evidence."""

from __future__ import annotations

import uuid

from operator_calls import operator
from service import Service


async def test_operators_see_what_is_known_of_an_unreadable_result(service: Service) -> None:
    """Of a JSON object the fields by name, of anything else its length and digest."""
    device, person = await service.device(await service.terminal()), await operator(service, "support")
    lease_id = (await service.create(device.terminal)).body["id"][3:]
    assert (await device.ack(lease_id)).status == 200
    for raw in (b"{", b'{"pan": 5031755734530604}', b'["approved"]'):
        path = f"/device/v1/leases/{lease_id}/results/{uuid.uuid4()}"
        assert (await service.request("PUT", path, data=raw, token=device.terminal.token)).code == "result_conflict"
    told = (await person.did("GET", "events"))["data"]
    bodies = [event["body"] for event in told]
    assert [body.get("bytes") for body in bodies] == [1, None, 12]
    assert bodies[1] == {
        "known": {},
        "unknown": ["pan"],
        "unknown_count": 1,
        "malformed": ["outcome"],
        "malformed_count": 1,
    }
