"""GET /operator/v1/events: the operator events, newest first, and their bodies."""

from __future__ import annotations

import uuid

import pytest

from operator_calls import operator
from service import Service


@pytest.mark.on_postgres
async def test_event_has_fields_of_unreadable_result(service: Service) -> None:
    """The event has the field names of a JSON object, and length and digest of anything else."""
    device, person = await service.device(await service.terminal()), await operator(service, "support")
    lease_id = (await service.create(device.terminal)).body["id"][3:]
    assert (await device.ack(lease_id)).status == 200
    for raw in (b"{", b'{"pan": 5031755734530604}', b'["approved"]'):
        path = f"/device/v1/leases/{lease_id}/results/{uuid.uuid4()}"
        assert (await service.request("PUT", path, data=raw, token=device.terminal.token)).code == "result_conflict"
    events = (await person.did("GET", "events"))["data"]
    bodies = [event["body"] for event in events]
    assert [body.get("bytes") for body in bodies] == [12, None, 1]
    assert bodies[1] == {
        "known": {},
        "unknown": ["pan"],
        "unknown_count": 1,
        "malformed": ["outcome"],
        "malformed_count": 1,
    }
