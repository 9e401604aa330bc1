"""Requests that provoke every declared error of the device operations and of the simulated acquirer's."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from authorize_scene import request_of, service_terminal
from declared.attempt import Attempt, Table
from faulty_database import FaultyDatabase
from paydesk.platform.operation import Operation
from print_scene import print_on
from service import Device, Reply, Service, order_body

NO_LEASE = "01J67CQQH5904WDBVZEM4JMEP3"
BEFORE_LEASE = ("device_hello", "device_next", "device_acknowledge")
PAYMENT = {
    "payment_id": f"PAY{NO_LEASE}",
    "amount": "24.90",
    "payment_method": {"id": "visa", "type": "credit_card", "installments": 1},
    "card": {"first_digits": "503175", "last_digits": "6351", "entry_mode": "contactless"},
}


async def _valid(service: Service, database: FaultyDatabase, operation: Operation) -> Attempt:
    is_served = operation.name == "device_authorize"
    terminal = await (service_terminal(service) if is_served else service.terminal())
    if operation.name.startswith("acquirer_"):
        # The token is not cached yet, so it is looked up in the database.
        payment = {"payment_id": f"PAY{(await service.create(terminal)).body['id'][3:]}"}
        body = {**PAYMENT, **payment} if operation.name == "acquirer_authorize" else payment
        return Attempt(service, database, operation, terminal.token, body=body)
    device = await service.device(terminal)
    if operation.name == "device_print_result":
        action_id = (await print_on(service, terminal)).body["id"]
        assert (await device.next()).status == 200
        body = {"boot_id": device.boot_id, "outcome": "printed"}
        return Attempt(
            service, database, operation, terminal.token, body=body, paths={"action_id": action_id}, device=device
        )
    lease_id = (await service.create(terminal)).body["id"][3:]
    if operation.name not in BEFORE_LEASE:
        assert (await device.ack(lease_id)).status == 200
    boot = {"boot_id": device.boot_id}
    bodies: dict[str, dict[str, Any]] = {
        "device_hello": {**boot, "app_version": "1", "journal": []},
        "device_acknowledge": boot,
        "device_progress": {**boot, "seq": 1, "step": "card_requested"},
        "device_authorize": request_of(device.boot_id),
        "device_cancel_result": {**boot, "done": True},
        "device_result": {**boot, "outcome": "declined", "status_detail": "insufficient_amount"},
    }
    return Attempt(
        service,
        database,
        operation,
        terminal.token,
        body=bodies.get(operation.name),
        query=f"?boot_id={device.boot_id}&wait=0" if operation.name == "device_next" else "",
        paths={"lease_id": lease_id, "result_id": str(uuid.uuid4())},
        device=device,
    )


TABLE = Table("device", _valid, needs_more=("device_cancel_result",))


@TABLE.way("device_next/property_value")
async def _long_wait(attempt: Attempt) -> Reply:
    return await replace(attempt, query=attempt.query.replace("wait=0", "wait=99")).send()


@TABLE.way("acquirer_authorize/order_not_found")
async def _payment_without_order(attempt: Attempt) -> Reply:
    return await attempt.send(body=PAYMENT)


@TABLE.way("acquirer_reverse/order_not_found")
async def _reversal_without_order(attempt: Attempt) -> Reply:
    return await attempt.send(body={"payment_id": PAYMENT["payment_id"]})


@TABLE.way("device_hello/maximum_items")
async def _long_journal(attempt: Attempt) -> Reply:
    entry = {"lease_id": NO_LEASE}
    return await attempt.send(body={**attempt.body, "journal": [entry] * 101})


@TABLE.way("stale_session")
async def _other_session(attempt: Attempt) -> Reply:
    if attempt.operation.name == "device_next":
        return await replace(attempt, query=f"?boot_id={uuid.uuid4()}&wait=0").send()
    if attempt.operation.name == "device_hello":
        assert (await attempt.send(body={**attempt.body, "boot_id": str(uuid.uuid4())})).status == 200
        return await attempt.send()
    return await attempt.send(body={**attempt.body, "boot_id": str(uuid.uuid4())})


@TABLE.way("action_not_found")
async def _unknown_action(attempt: Attempt) -> Reply:
    return await attempt.at(action_id=str(uuid.uuid4())).send()


@TABLE.way("lease_not_found")
async def _unknown_lease(attempt: Attempt) -> Reply:
    return await attempt.at(lease_id=NO_LEASE).send()


@TABLE.way("device_acknowledge/order_canceled")
async def _canceled(attempt: Attempt) -> Reply:
    assert (await attempt.service.cancel(_order_of(attempt))).status == 200
    return await attempt.send()


@TABLE.way("device_progress/order_canceled")
async def _cancel_requested(attempt: Attempt) -> Reply:
    await _request_cancel(attempt)
    return await attempt.send(body={**attempt.body, "step": "authorizing"})


@TABLE.way("device_authorize/order_canceled")
async def _authorized_after_the_cancel(attempt: Attempt) -> Reply:
    await _request_cancel(attempt)
    return await attempt.send()


@TABLE.way("not_a_service_terminal")
async def _own_acquirer(attempt: Attempt) -> Reply:
    device = await attempt.service.device(await attempt.service.terminal())
    lease_id = (await attempt.service.create(device.terminal)).body["id"][3:]
    body = request_of(device.boot_id)
    return await replace(attempt, token=device.terminal.token).at(lease_id=lease_id).send(body=body)


@TABLE.way("authorization_conflict")
async def _other_content(attempt: Attempt) -> Reply:
    assert (await attempt.send()).status == 200
    return await attempt.send(body={**attempt.body, "encrypted_data": "b3RoZXI="})


@TABLE.way("acquirer_not_configured")
async def _live_order(attempt: Attempt) -> Reply:
    service = attempt.service
    terminal = await service_terminal(service, live=True)
    device, token = await service.device(terminal), service.live_access_token
    created = await service.request("POST", "/v1/orders", order_body(terminal.id), token=token)
    lease_id = created.body["id"][3:]
    assert (await device.ack(lease_id)).status == 200
    return await replace(attempt, token=terminal.token).at(lease_id=lease_id).send(body=request_of(device.boot_id))


@TABLE.way("device_acknowledge/order_finished")
async def _paid(attempt: Attempt) -> Reply:
    assert (await attempt.send()).status == 200
    await _approve(attempt)
    return await attempt.send()


@TABLE.way("cancel_not_requested")
async def _done_without_cancel(attempt: Attempt) -> Reply:
    return await attempt.send()


@TABLE.way("order_granted")
async def _done_after_permit(attempt: Attempt) -> Reply:
    assert (await _device(attempt).authorizing(attempt.paths["lease_id"])).status == 200
    return await attempt.send()


@TABLE.way("order_not_granted")
async def _declined_before_permit(attempt: Attempt) -> Reply:
    await _request_cancel(attempt)
    return await attempt.send(body={**attempt.body, "done": False})


@TABLE.way("result_conflict")
async def _unreadable(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "outcome": "a bird"})


@TABLE.way("device_authorize/order_finished")
async def _declined_at_the_terminal(attempt: Attempt) -> Reply:
    declined = {"outcome": "declined", "status_detail": "card_disabled"}
    assert (await _device(attempt).result(attempt.paths["lease_id"], **declined)).status == 200
    return await attempt.send()


@TABLE.way("device_result/order_finished")
async def _second_result(attempt: Attempt) -> Reply:
    await _approve(attempt)
    return await attempt.send()


async def _request_cancel(attempt: Attempt) -> None:
    allow = {"X-Allow-Cancelable-Status": "at_terminal"}
    assert (await attempt.service.cancel(_order_of(attempt), headers=allow)).status == 202


async def _approve(attempt: Attempt) -> None:
    device, lease_id = _device(attempt), attempt.paths["lease_id"]
    assert (await device.authorizing(lease_id)).status == 200
    assert (await device.approve(lease_id)).status == 200


def _device(attempt: Attempt) -> Device:
    assert attempt.device is not None
    return attempt.device


def _order_of(attempt: Attempt) -> str:
    return f"ORD{attempt.paths['lease_id']}"
