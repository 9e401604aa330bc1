"""Operator accounts over HTTP: only owners add and revoke them."""

from __future__ import annotations

import pytest

from operator_calls import Operator, audited, operator
from service import Service

ANA = {"name": "Ana", "role": "support"}


@pytest.mark.on_postgres
async def test_owner_adds_and_revokes_operators(service: Service) -> None:
    """The token works until it is revoked, and is in no list and no audit entry."""
    owner = await operator(service)
    made = await owner.did("POST", "operators", ANA)
    token = made.pop("token")
    ana = Operator(service, made["operator_id"], token)
    assert made["role"] == "support"
    listed = await ana.did("GET", "operators")
    assert [one["operator_id"] for one in listed["data"]] == [owner.operator_id, ana.operator_id]
    assert listed["data"][1] == made
    revoked = await owner.did("POST", f"operators/{ana.operator_id.lower()}/revoke")
    assert await owner.did("POST", f"operators/{ana.operator_id}/revoke") == revoked
    assert {name: revoked[name] for name in made} == made
    assert await ana.refused("GET", "operators") == (401, "unauthorized")
    lines = await audited(service)
    assert [(line.action, line.subject) for line in lines] == [
        ("operators.create", ana.operator_id),
        ("operators.revoke", ana.operator_id),
    ]
    assert (lines[1].before, lines[1].after) == (made, revoked)
    assert token not in str(lines)


@pytest.mark.on_postgres
async def test_new_owners_and_new_tokens_are_operator_events(service: Service) -> None:
    """Of people and programs, at once or by a change of the role; other roles of people are none."""
    owner = await operator(service)
    program = await owner.did("POST", "operators", {"name": "ci", "role": "owner"})
    person = await owner.did("POST", "operators", {"name": "Eva", "role": "viewer", "email": "eva@shop.example"})
    path = f"operators/{person['operator_id']}"
    for role in ("owner", "owner", "operator"):
        await owner.did("PATCH", path, {"role": role})
    assert await owner.refused("PATCH", path, {"role": "other"}) == (400, "property_value")
    events = (await owner.did("GET", "events"))["data"]
    facts = {"address": "127.0.0.1", "operator_id": owner.operator_id}
    found = sorted((event["kind"], event["subject"], event["body"]) for event in events)
    first, second = sorted((program["operator_id"], person["operator_id"]))
    assert found == [
        ("operator_token_created", program["operator_id"], {**facts, "role": "owner"}),
        ("owner_added", first, facts),
        ("owner_added", second, facts),
    ]


async def test_only_owners_add_and_revoke_operators(service: Service) -> None:
    """Operators and support read the list; they get 403 for changes, also of themselves."""
    await operator(service)
    for role in ("operator", "support"):
        other = await operator(service, role)
        assert await other.refused("POST", "operators", ANA) == (403, "forbidden")
        path = f"operators/{other.operator_id}"
        assert await other.refused("POST", f"{path}/revoke") == (403, "forbidden")
        assert await other.refused("PATCH", path, {"role": "owner"}) == (403, "forbidden")
        assert await other.refused("DELETE", path) == (403, "forbidden")
        assert (await other.ask("POST", "operators", ANA)).body["message"].startswith(f"Your role, {role},")
        await other.did("GET", "operators?limit=1")
    assert await audited(service) == []


@pytest.mark.on_postgres
async def test_owner_can_revoke_own_token_while_there_is_another_owner(service: Service) -> None:
    """The audit trail names the owner as the author."""
    owner, _ = await operator(service), await operator(service)
    await owner.did("POST", f"operators/{owner.operator_id}/revoke")
    assert await owner.refused("GET", "operators") == (401, "unauthorized")
    assert [line.operator_id for line in await audited(service)] == [owner.operator_id]


async def test_operator_is_shown_and_changed(service: Service) -> None:
    """Only the fields sent change, at once; the same value is not audited."""
    owner = await operator(service)
    made = await owner.did("POST", "operators", ANA)
    ana = Operator(service, made["operator_id"], made.pop("token"))
    path = f"operators/{ana.operator_id}"
    assert await ana.did("GET", path.lower()) == made
    assert await owner.did("PATCH", path, {"name": "Ana Lima"}) == {**made, "name": "Ana Lima"}
    changed = await owner.did("PATCH", path, {"role": "owner"})
    assert changed == {**made, "name": "Ana Lima", "role": "owner"}
    assert await ana.did("PATCH", path, {"role": "owner"}) == changed
    await ana.did("PATCH", f"operators/{owner.operator_id}", {"role": "support"})
    assert await owner.refused("PATCH", path, {"name": "Eva"}) == (403, "forbidden")
    assert [line.action for line in await audited(service)] == ["operators.create", *["operators.change"] * 3]
    line = (await audited(service))[2]
    assert (line.before, line.after) == ({**made, "name": "Ana Lima"}, changed)


async def test_last_owner_is_not_demoted_revoked_or_deleted(service: Service) -> None:
    """Revoked owners do not count; a change of the name, or to the same role, is accepted."""
    owner, other = await operator(service), await operator(service)
    await operator(service, "operator")
    await owner.did("POST", f"operators/{other.operator_id}/revoke")
    path = f"operators/{owner.operator_id}"
    for method, tail, body in (
        ("PATCH", "", {"role": "support"}),
        ("PATCH", "", {"role": "operator", "name": "Eva"}),
        ("POST", "/revoke", None),
        ("DELETE", "", None),
    ):
        assert await owner.refused(method, f"{path}{tail}", body) == (409, "last_owner")
    assert (await owner.did("PATCH", path, {"name": "Eva", "role": "owner"}))["name"] == "Eva"
    assert "revoked_date" in await owner.did("POST", f"operators/{other.operator_id}/revoke")
    assert [line.action for line in await audited(service)] == ["operators.revoke", "operators.change"]


async def test_owner_who_cannot_sign_in_is_not_the_last_one(service: Service) -> None:
    """One who has not opened the link has neither a token nor a password. A password makes the difference."""
    owner = await operator(service)
    bea = await owner.did("POST", "operators", {"name": "Bea", "role": "owner", "email": "bea@shop.example"})
    path = f"operators/{owner.operator_id}"
    for method, tail, body in (("PATCH", "", {"role": "support"}), ("POST", "/revoke", None), ("DELETE", "", None)):
        assert await owner.refused(method, f"{path}{tail}", body) == (409, "last_owner")
    other = await owner.did("POST", "operators", {"name": "Eva", "role": "owner", "email": "eva@shop.example"})
    await owner.did("POST", f"operators/{other['operator_id']}/revoke")
    await service.scene.run("UPDATE operators SET password = 'x' WHERE operator_id = $1", bea["operator_id"])
    await owner.did("POST", f"{path}/revoke")


@pytest.mark.on_postgres
async def test_operator_without_changes_is_deleted(service: Service) -> None:
    """The token is refused, and what others did to the operator stays in the audit trail."""
    owner = await operator(service)
    made = await owner.did("POST", "operators", ANA)
    ana = Operator(service, made["operator_id"], made.pop("token"))
    assert (await owner.ask("DELETE", f"operators/{ana.operator_id}")).status == 204
    assert await ana.refused("GET", "operators") == (401, "unauthorized")
    assert await owner.refused("GET", f"operators/{ana.operator_id}") == (404, "operator_not_found")
    assert await owner.refused("DELETE", f"operators/{ana.operator_id}") == (404, "operator_not_found")
    lines = await audited(service)
    assert [line.action for line in lines] == ["operators.create", "operators.delete"]
    assert lines[1].before == made


async def test_operator_in_the_audit_trail_is_not_deleted(service: Service) -> None:
    """The caller neither: the deletion would be its entry. The details name the entries and what to do instead."""
    owner, other = await operator(service), await operator(service)
    await other.did("POST", "sellers", {"email": "a@b.example", "name": "A", "country": "BRA", "currency": "BRL"})
    (entry,) = await service.database.read(lambda tx: tx.all("SELECT entry_id FROM operator_audit"))
    reply = await owner.ask("DELETE", f"operators/{other.operator_id}")
    assert (reply.status, reply.code) == (409, "in_use")
    assert reply.details == [f"it has the audit entries {entry[0]}; these stay, so revoke the operator instead"]
    itself = await owner.ask("DELETE", f"operators/{owner.operator_id}")
    assert (itself.status, itself.code, "revoke" in itself.details[0]) == (409, "in_use", True)
    await owner.did("POST", f"operators/{other.operator_id}/revoke")
    assert await owner.refused("DELETE", f"operators/{other.operator_id}") == (409, "in_use")


async def test_invalid_operator_returns_400(service: Service) -> None:
    """For an unknown role and an invalid name; an unknown operator returns 404."""
    owner = await operator(service)
    for body, detail in (
        ({"name": "Ana", "role": "boss"}, "'$.role'"),
        ({"name": "Ana"}, "'$.role' - is required"),
        ({"name": " ", "role": "owner"}, "'$.name' - must not be blank"),
        ({**ANA, "token": "PDO-" + "0" * 40}, "'$.token'"),
    ):
        reply = await owner.ask("POST", "operators", body)
        assert (reply.status, reply.details[0].startswith(detail)) == (400, True), reply.details
    assert await owner.refused("POST", "operators/01J67CQQH5904WDBVZEM4JMEP3/revoke") == (404, "operator_not_found")
    assert await owner.refused("POST", "operators/ana/revoke") == (400, "invalid_path_param")
    path = f"operators/{owner.operator_id}"
    for change, detail in (
        ({}, "'$' - must have one of name, role"),
        ({"role": "boss"}, "'$.role'"),
        ({"role": None}, "'$.role'"),
        ({"name": 1}, "'$.name'"),
        ({"name": "x" * 101}, "'$.name'"),
        ({"token": "PDO-" + "0" * 40}, "'$.token'"),
    ):
        reply = await owner.ask("PATCH", path, change)
        assert (reply.status, reply.details[0].startswith(detail)) == (400, True), reply.details
    assert await audited(service) == []
