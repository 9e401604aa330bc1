"""The console's audit trail: entries in words, their filters and pages."""

from __future__ import annotations

import pytest

from console_scene import ROLES, Console, alert_of, console, links, main_of
from service import Service

HERE = "/console/audit"


@pytest.fixture
async def owner(service: Service) -> Console:
    """The browser of an owner."""
    return await console(service)


@pytest.mark.parametrize("role", ROLES)
async def test_every_role_reads_what_changed(service: Service, owner: Console, role: str) -> None:
    """Who, what and its page, the values before and after, from where."""
    assert "paydesk audit list" in main_of(await owner.open(HERE))
    terminal = await service.terminal()
    await owner.done(f"/console/terminals/{terminal.id}/mode", operating_mode="STANDALONE")
    order_id = (await service.create(await service.terminal())).body["id"]
    await owner.done(f"/console/orders/{order_id}/cancel", reason="The buyer left")
    assert owner.operator is not None
    own = await owner.operator.did("PATCH", f"operators/{owner.operator.operator_id}", {"name": "Ana"})
    browser = await console(service, role)
    page = await browser.open(HERE)
    said = main_of(page)
    assert "operating mode PDV → becomes STANDALONE" in said
    assert "reason The buyer left" in said
    assert "Changed operator Ana name a owner → becomes Ana 127.0.0.1" in said
    assert said.index("Changed operator") < said.index("Canceled order") < said.index("Changed terminal")
    pages = {
        f"/console/terminals/{terminal.id}",
        f"/console/orders/{order_id}",
        f"/console/operators/{own['operator_id']}",
    }
    assert pages <= set(links(page))


async def test_trail_is_filtered_and_paged(owner: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address has the filters without empty ones; a wrong one is refused in words."""
    monkeypatch.setattr("paydesk.operators.audit_trail.page.ROWS", 2)
    assert owner.operator is not None
    number, author = owner.operator.operator_id, owner.operator
    for name in ("Ana", "Bea", "Eva"):
        await author.did("PATCH", f"operators/{number}", {"name": name})
    made = await author.did("POST", "operators", {"name": "Program", "role": "viewer"})
    page = await owner.open(f"{HERE}?subject={number}")
    assert main_of(page).count("Changed operator") == 2
    (older,) = [href for href in links(page) if "after=" in href]
    page = await owner.open(older)
    assert "a owner → becomes Ana" in main_of(page)
    assert f"{HERE}?subject={number}" in links(page)
    assert "Added operator Program" in main_of(
        await owner.open(f"{HERE}?operator={number}&subject={made['operator_id']}")
    )
    assert "No change matches these filters" in main_of(await owner.open(f"{HERE}?subject=unknown"))
    assert (await owner.get(f"{HERE}?operator=&subject=x")).location == f"{HERE}?subject=x"
    wrong = await owner.open(f"{HERE}?operator=ana", 400)
    assert "operator" in alert_of(wrong).lower()


async def test_deleted_operator_has_no_page(service: Service, owner: Console) -> None:
    """An author that is deleted is named so, and a deleted subject is no link."""
    assert owner.operator is not None
    made = await owner.operator.did("POST", "operators", {"name": "Program", "role": "viewer"})
    path = f"/console/operators/{made['operator_id']}"
    await owner.done(f"{path}/delete")
    other = await console(service)
    await service.scene.run("DELETE FROM operators WHERE operator_id = $1", owner.operator.operator_id)
    page = await other.open(HERE)
    assert "deleted operator Deleted operator Program" in main_of(page)
    assert f"/console/operators/{owner.operator.operator_id}" not in links(page)


async def test_forms_lead_to_the_trail(service: Service, owner: Console) -> None:
    """The hint of a reason says that it is kept, and links there."""
    order_id = (await service.create(await service.terminal())).body["id"]
    assert HERE in links(await owner.open(f"/console/orders/{order_id}/cancel"))
