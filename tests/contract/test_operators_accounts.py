"""Operator accounts over HTTP: only owners add and revoke them."""

from __future__ import annotations

from operator_calls import Operator, audited, operator
from service import Service

ANA = {"name": "Ana", "role": "support"}


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


async def test_only_owners_add_and_revoke_operators(service: Service) -> None:
    """Operators and support read the list; they get 403 for changes, also of themselves."""
    await operator(service)
    for role in ("operator", "support"):
        other = await operator(service, role)
        assert await other.refused("POST", "operators", ANA) == (403, "forbidden")
        assert await other.refused("POST", f"operators/{other.operator_id}/revoke") == (403, "forbidden")
        assert (await other.ask("POST", "operators", ANA)).body["message"].startswith(f"Your role, {role},")
        await other.did("GET", "operators?limit=1")
    assert await audited(service) == []


async def test_owner_can_revoke_own_token(service: Service) -> None:
    """Also the last one, because a leaked token must be revocable."""
    owner = await operator(service)
    await owner.did("POST", f"operators/{owner.operator_id}/revoke")
    assert await owner.refused("GET", "operators") == (401, "unauthorized")


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
    assert await audited(service) == []
