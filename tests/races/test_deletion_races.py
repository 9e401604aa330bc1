"""An operator deletes something while another request begins to use it, and two owners demote each other."""

from __future__ import annotations

import asyncio

import pytest
from test_operators_races import while_it_is_committed

from operator_calls import audited, operator
from page_scene import browser
from paydesk.engine.invariants import check
from paydesk.engine.oauth.clients import applications
from paydesk.operators.accounts import credentials
from service import Service

ROUNDS = 5
OWNERS = "SELECT COUNT(*) FROM operators WHERE role = 'owner' AND revoked_ms IS NULL AND digest IS NOT NULL"


async def invite(service: Service, email: str) -> None:
    """Add an owner who has neither a token nor a password."""
    now_ms = service.clock.now_ms()
    await service.database.write(lambda tx: credentials.add_operator(tx, None, "Bea", "owner", now_ms, email=email))


@pytest.mark.parametrize(
    ("method", "tail", "body"), [("PATCH", "", {"role": "support"}), ("POST", "/revoke", None), ("DELETE", "", None)]
)
async def test_two_owners_cannot_end_each_other(service: Service, method: str, tail: str, body: object) -> None:
    """One of the two requests is refused, and one owner stays besides one who has not opened the link."""
    for number in range(ROUNDS):
        await service.scene.run("UPDATE operators SET revoked_ms = 1 WHERE revoked_ms IS NULL")
        await invite(service, f"owner{number}@shop.example")
        one, other = await operator(service), await operator(service)
        replies = await asyncio.gather(
            one.ask(method, f"operators/{other.operator_id}{tail}", body),
            other.ask(method, f"operators/{one.operator_id}{tail}", body),
        )
        assert min(reply.status for reply in replies) in (200, 204)
        assert {reply.code for reply in replies if reply.status >= 400} <= {"forbidden", "unauthorized", "last_owner"}
        assert await service.scene.value(OWNERS) == 1


async def test_three_owners_leave_one(service: Service) -> None:
    """Each revokes all others at once; a fourth who revokes himself is refused if no other is left."""
    for number in range(ROUNDS):
        await service.scene.run("UPDATE operators SET revoked_ms = 1 WHERE revoked_ms IS NULL")
        await invite(service, f"owner{number}@shop.example")
        owners = [await operator(service) for _ in range(3)]
        await asyncio.gather(
            *(one.ask("POST", f"operators/{other.operator_id}/revoke") for one in owners for other in owners)
        )
        assert await service.scene.value(OWNERS) == 1


async def test_seller_is_not_deleted_with_a_new_store(service: Service) -> None:
    """A store is created before the deletion, which is refused, or not at all."""
    owner = await operator(service)
    for number in range(ROUNDS):
        account = {"email": f"a{number}@shop.example", "name": "A", "country": "BRA", "currency": "BRL"}
        seller_id = (await owner.did("POST", "sellers", account))["user_id"]
        made, deleted = await asyncio.gather(
            owner.ask("POST", "stores", {"seller_id": seller_id, "name": "Shop"}),
            owner.ask("DELETE", f"sellers/{seller_id}"),
        )
        assert (made.status, deleted.status) in ((201, 409), (404, 204))
        stores = await service.scene.value("SELECT COUNT(*) FROM stores WHERE seller_id = $1", seller_id)
        assert stores == int(made.status == 201)


async def test_application_is_not_deleted_with_a_new_grant(service: Service) -> None:
    """The seller agrees before the deletion, which is refused, or gets no code."""
    owner, seller = await operator(service), await browser(service)
    await service.scene.run("UPDATE authorizations SET withdrawn_ms = 1")
    await service.scene.run("DELETE FROM authorizations")
    form, application_id = await seller.consent(), service.scene.application.application_id
    path = f"applications/{application_id}"
    agreed, deleted = await asyncio.gather(seller.submit(form, decision="agree"), owner.ask("DELETE", path))
    grants = await service.scene.value("SELECT COUNT(*) FROM authorizations WHERE withdrawn_ms IS NULL")
    assert (agreed.status, deleted.status, grants) in ((303, 409, 1), (409, 204, 0)), (agreed.text, deleted.body)
    assert await check.check(service.database) == []
    assert len([line for line in await audited(service) if line.action == "applications.delete"]) == 1 - grants


async def test_seller_cannot_agree_while_the_application_is_being_deleted(service: Service) -> None:
    """The consent waits for the deletion, and gets no code."""
    seller = await browser(service)
    form, application_id = await seller.consent(), service.scene.application.application_id
    await service.scene.run("DELETE FROM authorizations")
    submitted = seller.submit(form, decision="agree")
    agreed = await while_it_is_committed(
        service.database, lambda tx: applications.delete(tx, application_id), submitted
    )
    assert (agreed.status, agreed.code) == (409, "application_changed"), agreed.text
    assert await service.scene.value("SELECT COUNT(*) FROM authorizations") == 0
