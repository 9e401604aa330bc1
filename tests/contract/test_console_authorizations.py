"""Authorizations on the console's pages of applications and of sellers: the lists, and what withdraws one."""

from __future__ import annotations

import pytest

from accounts import other_application, other_seller
from console_scene import ROLES, Console, console, links, main_of, notice_of
from operator_calls import audited
from page_scene import browser
from service import Service

CHANGING, READING = ROLES[:2], ROLES[2:]
SECTIONS = ("applications", "sellers")


def pages(service: Service) -> dict[str, str]:
    """Return the page of the application, and that of the seller."""
    client_id = service.scene.application.application_id
    return {"applications": f"/console/applications/{client_id}", "sellers": f"/console/sellers/{service.seller_id}"}


async def grants(browser: Console, query: str) -> list[str]:
    """Return the ids of these authorizations."""
    assert browser.operator is not None
    return [one["id"] for one in (await browser.operator.did("GET", f"grants?{query}"))["data"]]


async def answer_to(service: Service) -> int:
    """Return the status of a request with the application's token for the seller."""
    return (await service.request("GET", "/terminals/v1/list")).status


@pytest.mark.parametrize("section", SECTIONS)
async def test_authorizations_are_withdrawn(service: Service, section: str) -> None:
    """The form says what will happen; its tokens are refused then; it is among the withdrawn ones, without a button."""
    owner = await console(service)
    here = pages(service)[section]
    valid = await grants(owner, f"seller={service.seller_id}")
    forms = [f"{here}/authorizations/{one}/withdraw" for one in valid]
    assert set(forms) <= set(links(await owner.open(here)))
    assert "The tokens and codes that Till has from this authorization by Shop" in main_of(await owner.open(forms[0]))
    assert await answer_to(service) == 200
    for form in forms:
        assert await owner.done(form) == "The authorization of Till by Shop is withdrawn."
    assert await answer_to(service) == 401
    page = await owner.open(here)
    assert not set(forms) & set(links(page))
    assert all(one not in page.text for one in valid)
    withdrawn = await owner.open(f"{here}?authorizations=withdrawn")
    assert all(one in withdrawn.html for one in valid)
    assert not set(forms) & set(links(withdrawn))
    assert "This authorization is withdrawn already." in main_of(await owner.open(forms[0]))
    # Sent by hand once more: nothing changes.
    assert (
        notice_of(await owner.open((await owner.send(forms[0])).location))
        == "The authorization of Till by Shop is withdrawn."
    )
    assert [one.action for one in await audited(service)].count("grants.withdraw") == len(valid)


async def test_page_lists_the_authorizations_of_its_subject(service: Service) -> None:
    """The application's with each seller, the seller's with each application; both lead to each other."""
    owner = await console(service)
    kiosk, third = await other_application(service), await other_seller(service)
    till_page, shop_page = pages(service)["applications"], pages(service)["sellers"]
    assert {till_page, pages(kiosk)["applications"]} <= set(links(await owner.open(shop_page)))
    till = await owner.open(till_page)
    assert shop_page in links(till)
    assert pages(third)["sellers"] not in links(till)
    assert shop_page in links(await owner.open(pages(kiosk)["applications"]))


async def test_long_lists_have_pages(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each authorization is on one of them."""
    monkeypatch.setattr("paydesk.operators.authorizations.page.READ_MAX", 1)
    owner = await console(service)
    await other_application(service)
    here, seen = pages(service)["sellers"], list[str]()
    expected, address = await grants(owner, f"seller={service.seller_id}"), here
    while address:
        found = links(await owner.open(address))
        seen += [one.split("/")[-2] for one in found if one.endswith("/withdraw")]
        address = next((one.partition("#")[0] for one in found if "authorizations_after" in one), "")
    assert seen == expected
    assert len(seen) > 1


@pytest.mark.parametrize("section", SECTIONS)
async def test_form_is_of_its_subject(service: Service, section: str) -> None:
    """Below another application or seller, and for an id that nothing has, there is no form."""
    owner = await console(service)
    other = pages(await other_application(service)) if section == "applications" else pages(await other_seller(service))
    (grant, *_) = await grants(owner, f"seller={service.seller_id}&application={_client_id(service)}")
    unknown = f"01J67CQQH5904WDBVZEM4JMEP3-{service.seller_id}"
    for path in (f"{other[section]}/authorizations/{grant}", f"{pages(service)[section]}/authorizations/{unknown}"):
        page = await owner.open(f"{path}/withdraw", status=404)
        assert "There is no such" in page.text
        assert (await owner.send(f"{path}/withdraw")).status == 404
    assert (await owner.open(f"{pages(service)[section]}/authorizations/x/withdraw", status=400)).status == 400
    assert await answer_to(service) == 200


async def test_open_pages_get_a_hint_when_a_seller_decides(service: Service) -> None:
    """When the seller authorizes an application, and when the seller withdraws it; not when the seller refuses."""
    owner, seller, hints = await console(service), await browser(service), list[str]()
    await owner.open(pages(service)["sellers"])  # from here on, hints are collected
    service.database.signals.listen("hint:", hints.append)
    await seller.submit(await seller.consent(), decision="refuse")
    assert hints == []
    await seller.submit(await seller.consent(), decision="agree")
    assert hints == ["hint:grants:"]
    withdrawals = [one for one in (await seller.get("/applications")).forms if one.action.endswith("/withdraw")]
    await seller.submit(withdrawals[0])
    assert hints == ["hint:grants:"] * 2
    for path in pages(service).values():
        live = [given["data-live"].split() for _, given in (await owner.open(path)).tags if given.get("data-live")]
        assert "grants" in live[0]


@pytest.mark.parametrize("role", READING)
async def test_reading_roles_withdraw_nothing(service: Service, role: str) -> None:
    """They see the list without a button; the form is refused, also by hand."""
    reader = await console(service, role)
    here = pages(service)["sellers"]
    (grant, *_) = await grants(await console(service), f"seller={service.seller_id}")
    page = await reader.open(here)
    assert grant in page.html
    form = f"{here}/authorizations/{grant}/withdraw"
    assert form not in links(page)
    assert (await reader.open(form, status=403)).status == 403
    assert (await reader.send(form)).status == 403
    assert await answer_to(service) == 200


def _client_id(service: Service) -> int:
    return int(service.scene.application.application_id)
