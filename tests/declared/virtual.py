"""The declared errors of `/virtual/v1`, whose callers have a test access token or an operator's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from accounts import other_seller, with_scope
from declared.attempt import Attempt, Table
from declared.everywhere import defect, with_fault
from faulty_database import FaultyDatabase
from operator_calls import operator
from paydesk.core import faults
from paydesk.platform.operation import Operation
from paydesk.platform.storage.database import Unavailable
from paydesk_dev.faults.active import FAULTS_MAX, Faults
from paydesk_dev.virtual.api.store import TERMINALS_MAX
from service import Reply, Service, Terminal

TERMINALS, FAULTS = "/virtual/v1/terminals", "/dev/faults"
FAULT = {"edge": "till", "request": "cancel_action", "kind": "answer_lost", "match": {"reference": "none"}}


async def _good(service: Service, database: FaultyDatabase, operation: Operation) -> Attempt:
    attempt = Attempt(service, database, operation, service.access_token, body={})
    if "{terminal_id}" in operation.path:
        created = await service.request("POST", TERMINALS, {"script": "ignore"}, key=None)
        assert created.status == 201, created
        attempt = attempt.at(terminal_id=created.body["id"])
    if "{fault_id}" in operation.path:
        added = await service.request("POST", FAULTS, FAULT, key=None)
        assert added.status == 201, added
        attempt = attempt.at(fault_id=added.body["id"])
    bodies: dict[str, Any] = {
        "add_fault": FAULT,
        "create_virtual_terminal": {"script": "ignore"},
        "act_on_virtual_terminal": {"action": "reboot"},
        "create_order_on_virtual_terminal": {"amount": "24.90"},
    }
    return replace(attempt, body=bodies.get(operation.name, {}))


TABLE = Table("virtual", _good)


@TABLE.way("forbidden")
async def _live_token(attempt: Attempt) -> Reply:
    return await attempt.send(token=attempt.service.live_access_token)


@TABLE.way("insufficient_scope")
async def _other_scope(attempt: Attempt) -> Reply:
    other = "read" if attempt.operation.scope == "write" else "write"
    return await attempt.send(token=await with_scope(attempt.service, other))


@TABLE.way("list_virtual_terminals/property_value")
async def _seller_of_a_token(attempt: Attempt) -> Reply:
    return await replace(attempt, query="?seller_id=1").send()


@TABLE.way("delete_virtual_terminal/property_value")
async def _unknown_cancel(attempt: Attempt) -> Reply:
    return await replace(attempt, query="?cancel=perhaps").send()


@TABLE.way("get_virtual_screen/property_value")
async def _unknown_screen(attempt: Attempt) -> Reply:
    return await replace(attempt, query="?wait=1&until=paid").send()


@TABLE.way("add_fault/property_value")
async def _unknown_kind(attempt: Attempt) -> Reply:
    return await attempt.send(body={**FAULT, "kind": "explode"})


@TABLE.way("list_faults/property_value", "clear_faults/property_value")
async def _unknown_edge(attempt: Attempt) -> Reply:
    return await replace(attempt, query="?edge=shop").send()


@TABLE.way("get_fault/property_value")
async def _fired_never(attempt: Attempt) -> Reply:
    return await replace(attempt, query="?wait=1&fired=0").send()


FAULT_OPERATIONS = ("add_fault", "list_faults", "get_fault", "release_fault", "remove_fault", "clear_faults")
"""They need the database for a token that this process has not seen, and for nothing else."""


@TABLE.way(*(f"{name}/service_unavailable" for name in FAULT_OPERATIONS))
async def _unseen_token_without_database(attempt: Attempt) -> Reply:
    return await with_fault(await _with_unseen_token(attempt), Unavailable("away"))


@TABLE.way(*(f"{name}/internal_error" for name in FAULT_OPERATIONS))
async def _unseen_token_with_a_defect(attempt: Attempt) -> Reply:
    return await defect(await _with_unseen_token(attempt))


async def _with_unseen_token(attempt: Attempt) -> Attempt:
    return replace(attempt, token=await with_scope(attempt.service, "read write"))


@TABLE.way("fault_not_found")
async def _other_sellers_fault(attempt: Attempt) -> Reply:
    return await attempt.send(token=(await other_seller(attempt.service)).access_token)


@TABLE.way("too_many_faults")
async def _one_fault_more(attempt: Attempt) -> Reply:
    active, one = attempt.service.shared.objects[Faults], faults.parse("till cancel_action reset reference=none")
    added = [active.add(one, 0) for _ in range(FAULTS_MAX - len(list(active)))]
    try:
        return await attempt.send()
    finally:
        active.remove(*added)


@TABLE.way("already_queued_order_on_terminal")
async def second_order(attempt: Attempt) -> Reply:
    """Create an order while the terminal has one."""
    assert (await attempt.send()).status in (201, 303)
    return await attempt.send()


@TABLE.way("terminal_not_in_pdv_mode")
async def standalone(attempt: Attempt) -> Reply:
    """Create an order on a terminal that takes none."""
    await attempt.service.scene.run("UPDATE terminals SET operating_mode = 'STANDALONE'")
    return await attempt.send()


@TABLE.way("no_application")
async def _nothing_authorized(attempt: Attempt) -> Reply:
    async with all_withdrawn(attempt.service):
        return await attempt.send(token=(await operator(attempt.service)).token)


@asynccontextmanager
async def all_withdrawn(service: Service) -> AsyncIterator[None]:
    """Withdraw all authorizations for a while."""
    await service.scene.run("UPDATE authorizations SET withdrawn_ms = 1 WHERE withdrawn_ms IS NULL")
    try:
        yield
    finally:
        await service.scene.run("UPDATE authorizations SET withdrawn_ms = NULL WHERE withdrawn_ms = 1")


@TABLE.way("create_virtual_terminal/seller_not_found")
async def _create_for_unknown_seller(attempt: Attempt) -> Reply:
    return await attempt.send(token=(await operator(attempt.service)).token, body={"seller_id": 999})


@TABLE.way("list_virtual_terminals/seller_not_found")
async def _list_of_unknown_seller(attempt: Attempt) -> Reply:
    return await replace(attempt, query="?seller_id=999").send(token=(await operator(attempt.service)).token)


@TABLE.way("too_many_terminals")
async def one_more(attempt: Attempt) -> Reply:
    """Create one more terminal than a seller may have."""
    await fill(attempt.service)
    try:
        return await attempt.send()
    finally:
        await attempt.service.scene.run("DELETE FROM terminals WHERE terminal_id LIKE 'FULL__%'")


async def fill(service: Service) -> None:
    """Insert as many virtual terminals of the seller as there may be."""
    await service.database.write(lambda tx: _fill(tx, service.seller_id))


async def _fill(tx: Any, seller_id: int) -> None:
    for number in range(TERMINALS_MAX):
        await tx.run(
            "INSERT INTO terminals (seller_id, terminal_id, live, store_id, pos_id, kind, is_virtual, operating_mode,"
            " script, session, created_ms) VALUES ($1, $2, 0, 1, 1, 'terminal', 1, 'STANDALONE', 'hold', 0, 0)",
            seller_id,
            f"FULL__{number}",
        )


@TABLE.way("terminal_not_found")
async def _other_sellers_terminal(attempt: Attempt) -> Reply:
    return await attempt.send(token=(await other_seller(attempt.service)).access_token)


@TABLE.way("action_not_possible")
async def _card_without_an_order(attempt: Attempt) -> Reply:
    return await attempt.send(body={"action": "tap", "card": "visa_approved"})


@TABLE.way("in_use")
async def _with_a_live_order(attempt: Attempt) -> Reply:
    assert (await attempt.service.create(Terminal(attempt.paths["terminal_id"], ""))).status == 201
    return await attempt.send()
