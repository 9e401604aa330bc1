"""`GET /operator/v1/audit`: who changed what, when and from where, newest first."""

from __future__ import annotations

import pytest

from operator_calls import Operator, audited, operator
from service import Service

ROLES = ("owner", "operator", "support", "viewer")


async def _stores(one: Operator, seller_id: int, *names: str) -> list[str]:
    made = [await one.did("POST", "stores", {"seller_id": seller_id, "name": name}) for name in names]
    return [str(store["store_id"]) for store in made]


@pytest.mark.on_postgres
@pytest.mark.parametrize("role", ROLES)
async def test_every_role_reads_the_trail(service: Service, role: str) -> None:
    """Each entry has its author, address, subject, and the values before and after."""
    owner, reader = await operator(service), await operator(service, role)
    made = await owner.did("POST", "operators", {"name": "Ana", "role": "viewer"})
    await owner.did("PATCH", f"operators/{made['operator_id']}", {"name": "Ana Lima"})
    listed = (await reader.did("GET", "audit"))["data"]
    assert [one["action"] for one in listed] == ["operators.change", "operators.create"]
    changed, created = listed
    assert (changed["operator_id"], changed["name"]) == (owner.operator_id, "a owner")
    assert (changed["subject"], changed["address"]) == (made["operator_id"], "127.0.0.1")
    assert (changed["before"]["name"], changed["after"]["name"]) == ("Ana", "Ana Lima")
    assert "before" not in created
    assert made["token"] not in str(listed)
    assert changed["created_date"].endswith("Z")


@pytest.mark.on_postgres
async def test_trail_is_filtered_and_paged(service: Service) -> None:
    """By author, by subject, and by both; an author who was deleted has no name."""
    one, other = await operator(service), await operator(service, "operator")
    first, second = await _stores(one, service.seller_id, "Centro", "Norte")
    (third,) = await _stores(other, service.seller_id, "Sur")
    for author, store_id in ((other, first), (one, first)):
        body = {"name": f"{author.operator_id[-4:]} of {store_id}"}
        await author.did("PATCH", f"stores/{store_id}?seller={service.seller_id}", body)

    async def subjects(query: str) -> list[str]:
        return [entry["subject"] for entry in (await one.did("GET", f"audit{query}"))["data"]]

    everything = [first, first, third, second, first]
    assert await subjects("") == everything
    assert await subjects(f"?operator={one.operator_id.lower()}") == [first, second, first]
    assert await subjects(f"?subject={first}") == [first] * 3
    assert await subjects(f"?subject={first}&operator={other.operator_id}") == [first]
    assert await subjects("?subject=unknown") == []
    page, paged = await one.did("GET", "audit?limit=2"), []
    while True:
        paged += [entry["subject"] for entry in page["data"]]
        if "next" not in page:
            break
        page = await one.did("GET", f"audit?limit=2&after={page['next']}")
    assert paged == everything
    await service.scene.run("DELETE FROM operators WHERE operator_id = $1", other.operator_id)
    (entry,) = (await one.did("GET", f"audit?subject={third}"))["data"]
    assert (entry["operator_id"], "name" in entry) == (other.operator_id, False)
    assert len(await audited(service)) == len(everything), "reading leaves no entry"


async def test_invalid_filters_are_refused(service: Service) -> None:
    """An author who is no id, a subject that is too long or has control characters, and a cursor of another list."""
    one = await operator(service)
    for query in ("operator=ana", f"subject={'x' * 201}", "subject=%00", "subject=%C2%AD", "after=%C3%A9"):
        assert await one.refused("GET", f"audit?{query}") == (400, "property_value"), query
    assert (await service.request("GET", "/operator/v1/audit", token=None)).status == 401
