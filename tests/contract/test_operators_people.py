"""Who operates the service, over HTTP: added and revoked by owners alone."""

from __future__ import annotations

from operator_calls import Operator, audited, operator
from service import Service

ANA = {"name": "Ana", "role": "support"}


async def test_an_owner_adds_and_revokes(service: Service) -> None:
    """The token works from its answer on until it is revoked, and stands in no list and no audit trail."""
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


async def test_nobody_else_does(service: Service) -> None:
    """Operators and support read who there is; they neither add nor revoke, not even themselves."""
    await operator(service)
    for role in ("operator", "support"):
        other = await operator(service, role)
        assert await other.refused("POST", "operators", ANA) == (403, "forbidden")
        assert await other.refused("POST", f"operators/{other.operator_id}/revoke") == (403, "forbidden")
        assert (await other.ask("POST", "operators", ANA)).body["message"].startswith(f"Your role, {role},")
        await other.did("GET", "operators?limit=1")
    assert await audited(service) == []


async def test_an_owner_may_revoke_themselves(service: Service) -> None:
    """A token that has leaked must be stoppable, also the last one; it ends with its own request."""
    owner = await operator(service)
    await owner.did("POST", f"operators/{owner.operator_id}/revoke")
    assert await owner.refused("GET", "operators") == (401, "unauthorized")


async def test_faults(service: Service) -> None:
    """A role that there is not, a name that is none, an operator whom nobody knows."""
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
