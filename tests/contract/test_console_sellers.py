"""The console's screens of sellers: the list, one with its stores and points of sale, and what operators change."""

from __future__ import annotations

import re
from typing import Any

import pytest
import structlog
from argon2 import PasswordHasher

from console_scene import ROLES, Console, alert_of, console, links, main_of, notice_of, part_of
from operator_calls import audited
from page_scene import Page
from service import Service
from tables import each

HERE = "/console/sellers"
ANA = {"name": "Ana Prado", "email": "ana@shop.example", "country": "BRA", "currency": "BRL"}
PASSWORD = "quite different words in a row"
GENERATED = re.compile(r"([a-z0-9]{4}-){4}[a-z0-9]{4}")
CHANGING, READING = ROLES[:2], ROLES[2:]
OF_SELLER = ("change", "password", "suspend", "resume", "delete", "add-store")


@pytest.fixture
async def owner(service: Service) -> Console:
    """Return the browser of an owner."""
    return await console(service)


def secret_of(page: Page) -> str:
    """Return the password that the page shows."""
    assert page.status == 200, (page.status, page.text)
    secret = part_of(page, "id", "secret")
    assert GENERATED.fullmatch(secret), secret
    return secret


async def did(browser: Console, path: str) -> list[dict[str, Any]]:
    """Return the rows of a list of `/operator/v1`."""
    assert browser.operator is not None
    rows: list[dict[str, Any]] = (await browser.operator.did("GET", path))["data"]
    return rows


async def document(browser: Console, user_id: object) -> dict[str, Any]:
    """Return a seller."""
    assert browser.operator is not None
    return await browser.operator.did("GET", f"sellers/{user_id}")


async def added(browser: Console, **fields: str) -> str:
    """Add a seller, and return the path of the page."""
    answer = await browser.act(f"{HERE}/add", **{**ANA, "password": PASSWORD, **fields})
    assert answer.status == 303, alert_of(answer)
    return answer.location


def live_on(page: Page) -> list[str]:
    """Return the hints on which the page is fetched again, but for that of the clock."""
    (live,) = [given["data-live"] for _, given in page.tags if "data-live" in given]
    return [one for one in live.split() if one != "clock"]


async def with_places(browser: Console) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return the path of a new seller with a store and a point of sale, and both."""
    path = await added(browser)
    user_id = path.rpartition("/")[2]
    await browser.done(f"{path}/add-store", name="Main street")
    (store,) = await did(browser, f"stores?seller={user_id}")
    await browser.done(f"{path}/stores/{store['store_id']}/add-pos", external_pos_id="TILL1", name="Till 1")
    (pos,) = await did(browser, f"pos?seller={user_id}")
    return path, store, pos


async def test_generated_password_is_shown_once(service: Service, owner: Console) -> None:
    """Neither the log, the audit trail nor another page has it, and the seller can sign in with it."""
    with structlog.testing.capture_logs() as logged:
        page = await owner.act(f"{HERE}/add", **ANA)
        password = secret_of(page)
    assert "Ana Prado is added. Pass this password on" in main_of(page)
    assert any(given.get("data-copy") == password for _, given in page.tags)
    (made,) = [one for one in await did(owner, "sellers") if one["email"] == ANA["email"]]
    assert (made["name"], made["country"], made["currency"]) == ("Ana Prado", "BRA", "BRL")
    path = f"{HERE}/{made['user_id']}"
    assert path in links(page)
    stored = await service.scene.value("SELECT password FROM sellers WHERE seller_id = $1", made["user_id"])
    assert PasswordHasher().verify(stored, password)
    shown = [await owner.open(one) for one in (HERE, path, f"{path}/password", "/console/audit")]
    for text in (str(logged), str(page.headers), str(await audited(service)), *(one.html for one in shown)):
        assert password not in text


async def test_given_password_is_not_shown(service: Service, owner: Console) -> None:
    """The next page says what happened."""
    answer = await owner.act(f"{HERE}/add", **ANA, password=PASSWORD)
    shown = await owner.open(answer.location)
    assert notice_of(shown) == "Ana Prado is added, and signs in with ana@shop.example and the password."
    assert PASSWORD not in shown.html
    assert PASSWORD not in str(await audited(service))


@each(
    "fields, sentence",
    [
        ({"email": "ana"}, "The e-mail address must be an e-mail address"),
        ({"name": "x" * 101}, "The name has 101 characters; at most 100 are possible."),
        ({"country": "XX"}, "The country must match"),
        ({"country": ""}, "The country is needed."),
        ({"currency": "ARS"}, "The currency of BRA is BRL."),
        ({"currency": "USD"}, "The currency must be one of"),
        ({"currency": ""}, "The currency is needed."),
        ({"password": "short"}, "The password must have at least 12 characters"),
        ({"password": "password1234"}, "The password must not be a common word or name"),
    ],
)
async def test_wrong_values_are_refused_at_their_field(
    service: Service, owner: Console, fields: dict[str, str], sentence: str
) -> None:
    """What was typed stays, but for the password; nothing is added."""
    page = await owner.act(f"{HERE}/add", **{**ANA, **fields})
    assert (page.status, alert_of(page).startswith(sentence)) == (400, True), alert_of(page)
    (name,) = fields
    assert part_of(page, "id", f"e-{name}").startswith(sentence)
    assert page.form(f"{HERE}/add").fields["name"] == {**ANA, **fields}["name"]
    assert not fields.get("password") or fields["password"] not in page.html
    assert await audited(service) == []


async def test_form_that_is_sent_twice_adds_one(owner: Console) -> None:
    """A seller, a store and a point of sale: the second is refused at the field that is taken."""
    path, store, _ = await with_places(owner)
    assert await owner.refused(f"{HERE}/add", **ANA) == (
        409, "The e-mail address must not be another seller's."
    )  # fmt: skip
    taken = (400, "The name must not be that of another store of the seller.")
    assert await owner.refused(f"{path}/add-store", name="Main street") == taken
    status, reason = await owner.refused(f"{path}/stores/{store['store_id']}/add-pos", external_pos_id="TILL1")
    assert (status, reason) == (409, "The external id is taken.")
    user_id = path.rpartition("/")[2]
    assert [len(await did(owner, f"{kind}?seller={user_id}")) for kind in ("stores", "pos")] == [1, 1]


async def test_list_shows_the_state_of_each(owner: Console) -> None:
    """And suspended ones last, as there is only one page."""
    path = await added(owner)
    await owner.done(f"{path}/suspend")
    page = await owner.open(HERE)
    said = main_of(page)
    assert f"Ana Prado Suspended {path.rpartition('/')[2]} ana@shop.example BRA BRL" in said
    assert said.index("Active") < said.index("Suspended")
    assert {path, f"{HERE}/add"} <= set(links(page))


async def test_list_has_pages(owner: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each seller is on one of them."""
    monkeypatch.setattr("paydesk.operators.list_pages.ROWS", 1)
    path = await added(owner)
    first = await owner.open(HERE)
    (more,) = [href for href in links(first) if "after=" in href]
    second = await owner.open(more)
    assert [path in links(one) for one in (first, second)].count(True) == 1
    assert not [href for href in links(second) if "after=" in href]
    assert ["To the start" in main_of(one) for one in (first, second)] == [False, True]
    last = max(one["user_id"] for one in await did(owner, "sellers"))
    rest = main_of(await owner.open(f"{HERE}?after={last}"))
    assert ("There are no further sellers." in rest, "No seller yet" in rest) == (True, False)


async def test_list_without_sellers_names_the_command(service: Service, owner: Console) -> None:
    """As there is nothing else to see."""
    await service.scene.run("DELETE FROM authorizations")
    await service.scene.run("DELETE FROM sellers")
    assert "paydesk sellers create" in main_of(await owner.open(HERE))


async def test_seller_is_changed(service: Service, owner: Console) -> None:
    """Only what differs is sent; a taken address is refused in the form."""
    path = await added(owner)
    assert await owner.done(f"{path}/change") == "Nothing has changed."
    assert await owner.done(f"{path}/change", name="Ana") == "Ana is changed."
    entry = (await audited(service))[-1]
    assert (entry.action, entry.before["name"], entry.after["name"]) == ("sellers.change", "Ana Prado", "Ana")
    assert owner.operator is not None
    other = {"name": "Bia", "email": "bia@shop.example", "country": "BRA", "currency": "BRL"}
    await owner.operator.did("POST", "sellers", other)
    assert (await owner.refused(f"{path}/change", email="bia@shop.example"))[0] == 409
    assert "Changed seller Ana name Ana Prado → becomes Ana" in main_of(await owner.open(path))


async def test_new_password_is_shown_once(service: Service, owner: Console) -> None:
    """And says how many authorizations remain, or were withdrawn."""
    path = f"{HERE}/{service.seller_id}"
    page = await owner.act(f"{path}/password")
    first = secret_of(page)
    assert "All sessions have ended. 2 authorizations remain: applications keep their tokens." in main_of(page)
    page = await owner.act(f"{path}/password", withdraw_all="yes")
    assert secret_of(page) != first
    assert "2 authorizations were withdrawn." in main_of(page)
    said = await owner.done(f"{path}/password", password=PASSWORD)
    assert said.endswith("has the new password, and is signed out everywhere. No application is authorized.")
    entries = str(await audited(service))
    assert not [one for one in (first, PASSWORD) if one in entries]
    status, reason = await owner.refused(f"{path}/password", password="password1234")
    assert (status, reason.startswith("The password must not be a common word")) == (400, True)


async def test_a_name_that_looks_like_a_time_is_a_name(owner: Console) -> None:
    """Each form and the audit trail show it."""
    name = "2026-99-99T99:99:99Z"
    page = await owner.act(f"{HERE}/add", **{**ANA, "name": name})
    (path,) = {href for href in links(page) if href.startswith(f"{HERE}/")}
    for address in (f"{path}/suspend", f"{path}/delete", "/console/audit"):
        assert name in main_of(await owner.open(address))


async def test_seller_is_suspended_and_resumed(service: Service, owner: Console) -> None:
    """Tokens are refused meanwhile, and open orders continue; sending a form again changes nothing."""
    order_id = (await service.create(await service.terminal())).body["id"]
    path = f"{HERE}/{service.seller_id}"
    form, _ = await owner.form_of(f"{path}/suspend")
    assert (await owner.done(f"{path}/suspend")).endswith("is suspended. Tokens for this seller are refused.")
    assert (await service.create(await service.terminal())).status == 403
    shown = await owner.open(path)
    assert "All tokens for this seller are refused" in main_of(shown)
    assert {href for href in links(shown) if href.endswith(("/suspend", "/resume"))} == {f"{path}/resume"}
    assert "is suspended already" in main_of(await owner.open(f"{path}/suspend"))
    before = await document(owner, service.seller_id)
    assert (await owner.submit(form)).status == 303
    assert await document(owner, service.seller_id) == before
    assert (await owner.done(f"{path}/resume")).endswith("is active again.")
    assert (await service.get(order_id))["status"] == "created"
    assert "is not suspended" in main_of(await owner.open(f"{path}/resume"))


async def test_seller_is_deleted_unless_something_uses_it(owner: Console) -> None:
    """The refusal names what uses it."""
    path, store, pos = await with_places(owner)
    for one, word in (
        (path, f"It has the stores {store['store_id']}; delete these first."),
        (f"{path}/stores/{store['store_id']}", f"It has the points of sale {pos['pos_id']}; delete these first."),
    ):
        status, reason = await owner.refused(f"{one}/delete")
        assert (status, word in reason) == (409, True), reason
    assert await owner.done(f"{path}/pos/{pos['pos_id']}/delete") == "Till 1 is deleted."
    assert await owner.done(f"{path}/stores/{store['store_id']}/delete") == "Main street is deleted."
    assert "No store yet." in main_of(await owner.open(path))
    assert await owner.done(f"{path}/delete") == "Ana Prado is deleted."
    assert (await owner.get(path)).status == 404
    trail = await owner.open("/console/audit")
    assert "Deleted seller Ana Prado" in main_of(trail)
    assert f"{path}?store={store['store_id']}#stores-{store['store_id']}" in links(trail)
    assert f"{path}?pos={pos['pos_id']}#pos-{pos['pos_id']}" in links(trail)


async def test_stores_and_points_of_sale_are_changed(owner: Console) -> None:
    """Only of this seller, if others have the same ids; without a difference nothing is sent."""
    path, store, pos = await with_places(owner)
    of_store, of_pos = f"{path}/stores/{store['store_id']}", f"{path}/pos/{pos['pos_id']}"
    assert await owner.done(f"{of_store}/rename", name="Market") == "The store is called Market now."
    assert await owner.done(f"{of_store}/rename") == "Nothing has changed."
    assert await owner.done(f"{of_pos}/change", name="Till 2") == "The point of sale Till 2 is changed."
    assert await owner.done(f"{of_pos}/change") == "Nothing has changed."
    assert await owner.done(f"{of_pos}/change", external_pos_id="TILL2") == "The point of sale Till 2 is changed."
    await owner.done(f"{of_store}/add-pos", external_pos_id="TILL3")
    assert await owner.refused(f"{of_pos}/change", external_pos_id="TILL3") == (409, "The external id is taken.")
    await owner.done(f"{path}/add-store", name="Pier")
    taken = (400, "The name must not be that of another store of the seller.")
    assert await owner.refused(f"{of_store}/rename", name="Pier") == taken
    form, _ = await owner.form_of(f"{of_store}/rename")
    for _ in range(2):
        assert (await owner.submit(form, name="Plaza")).status == 303
    assert "Plaza" in main_of(await owner.open(path))
    for missing in (f"{path}/stores/1/rename", f"{path}/pos/1/delete", f"{HERE}/1/pos/{pos['pos_id']}/change"):
        page = await owner.open(missing, 404)
        assert "has no such" in main_of(page), missing


async def test_seller_shows_where_its_terminals_are(service: Service, owner: Console) -> None:
    """With links to them, and to the seller's orders and requests."""
    terminal = await service.terminal()
    path = f"{HERE}/{service.seller_id}"
    page = await owner.open(path)
    assert f"Till {(await did(owner, 'pos'))[0]['external_pos_id']}" in main_of(page)
    assert {
        f"/console/terminals/{terminal.id}",
        f"/console/orders?seller={service.seller_id}",
        f"/console/requests?seller={service.seller_id}",
        f"/console/terminals?seller={service.seller_id}",
    } <= set(links(page))
    assert path in links(await owner.open(f"/console/terminals/{terminal.id}"))
    order_id = (await service.create(terminal)).body["id"]
    assert path in links(await owner.open(f"/console/orders/{order_id}"))


async def test_many_stores_have_pages(owner: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store goes on with its points of sale on the next one; of very many only the first are shown."""
    path, store, _ = await with_places(owner)
    await owner.done(f"{path}/stores/{store['store_id']}/add-pos", external_pos_id="TILL2")
    monkeypatch.setattr("paydesk.operators.sellers.page.PLACES_MAX", 2)
    first = await owner.open(path)
    assert f"{path}?start=2" in links(first)
    assert ("Till 1" in main_of(first), "TILL2" in main_of(first)) == (True, False)
    second = await owner.open(f"{path}?start=2")
    assert "Main street continued" in main_of(second)
    assert ("Till 1" in main_of(second), "TILL2" in main_of(second)) == (False, True)
    assert path in links(second)
    for start in ("9", "x", "-1"):
        assert "Till 1" in main_of(await owner.open(f"{path}?start={start}"))


async def test_link_to_a_store_opens_the_page_that_has_it(owner: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """Likewise one to a point of sale; an unknown id opens the first page."""
    path, store, pos = await with_places(owner)
    await owner.done(f"{path}/add-store", name="Market")
    await owner.done(f"{path}/add-store", name="Pier")
    monkeypatch.setattr("paydesk.operators.sellers.page.PLACES_MAX", 1)
    ids = {one["name"]: one["store_id"] for one in await did(owner, f"stores?seller={path.rpartition('/')[2]}")}
    first = {f"stores-{store['store_id']}"}
    for query, wanted in (
        (f"store={store['store_id']}", first),
        (f"pos={pos['pos_id']}", {*first, f"pos-{pos['pos_id']}"}),
        (f"store={ids['Market']}", {f"stores-{ids['Market']}"}),
        (f"store={ids['Pier']}", {f"stores-{ids['Pier']}"}),
        (f"store={ids['Pier']}&start=0", first),
        ("store=1", first),
        ("pos=x", first),
    ):
        shown = [given.get("id", "") for _, given in (await owner.open(f"{path}?{query}")).tags]
        assert {one for one in shown if one.startswith(("stores-", "pos-"))} == wanted, query


async def test_all_stores_are_on_a_page(owner: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read with several requests; of very many the first, and the page says of what there are more."""
    path, _, _ = await with_places(owner)
    for name in ("Market", "Pier"):
        await owner.done(f"{path}/add-store", name=name)
    monkeypatch.setattr("paydesk.operators.sellers.page.READ_ROWS", 1)
    said = main_of(await owner.open(path))
    assert ("Market" in said, "Pier" in said, "Only the first" in said) == (True, True, False)
    monkeypatch.setattr("paydesk.operators.sellers.page.READ_MAX", 2)
    said = main_of(await owner.open(path))
    assert f"Only the first 2 stores are shown. All: paydesk stores list --seller {path.rpartition('/')[2]}" in said
    assert said.count("Only the first") == 1
    assert "No point of sale yet." in said
    assert "None of the points of sale" not in said


async def test_page_is_updated_by_what_it_shows(service: Service, owner: Console) -> None:
    """Changes of other sellers' stores, points of sale and terminals cause no request, unless it shows many."""
    terminal = await service.terminal()
    path, store, pos = await with_places(owner)
    user_id = path.rpartition("/")[2]
    assert live_on(await owner.open(path)) == [
        f"sellers:{user_id}", f"stores:{store['store_id']}", f"pos:{pos['pos_id']}", "pairings", "grants", "codes",
    ]  # fmt: skip
    assert f"terminals:{terminal.id}" in live_on(await owner.open(f"{HERE}/{service.seller_id}"))
    for number in range(20):
        await owner.done(f"{path}/stores/{store['store_id']}/add-pos", external_pos_id=f"P{number}")
    assert live_on(await owner.open(path))[1:3] == [f"stores:{store['store_id']}", "pos"]


@pytest.mark.parametrize("role", CHANGING)
async def test_owners_and_operators_change_sellers(service: Service, role: str) -> None:
    """Each form opens, and the page has a button for those that apply."""
    browser = await console(service, role)
    path, store, pos = await with_places(browser)
    wanted = {f"{path}/{name}" for name in OF_SELLER if name != "resume"}
    wanted |= {f"{path}/stores/{store['store_id']}/{name}" for name in ("add-pos", "rename", "delete")}
    wanted |= {f"{path}/pos/{pos['pos_id']}/{name}" for name in ("change", "delete")}
    assert {href for href in links(await browser.open(path)) if href.startswith(f"{path}/")} == wanted
    for one in wanted:
        await browser.open(one)


@pytest.mark.parametrize("role", READING)
async def test_others_see_sellers_and_change_none(service: Service, owner: Console, role: str) -> None:
    """No buttons; forms that were made by hand get 403, and nothing changes."""
    path, store, pos = await with_places(owner)
    other = await console(service, role)
    listed, shown = await other.open(HERE), await other.open(path)
    assert "Main street" in main_of(shown)
    assert not [href for href in (*links(listed), *links(shown)) if href == f"{HERE}/add" or f"{path}/" in href]
    before = await audited(service)
    forms = [f"{HERE}/add", *(f"{path}/{name}" for name in OF_SELLER)]
    forms += [f"{path}/stores/{store['store_id']}/{name}" for name in ("add-pos", "rename", "delete")]
    forms += [f"{path}/pos/{pos['pos_id']}/{name}" for name in ("change", "delete")]
    for form in forms:
        assert (await other.get(form)).status == 403, form
        page = await other.send(form, **ANA, external_pos_id="T")
        assert (page.status, f"Your role, {role}, may not do this." in page.text) == (403, True), form
    assert await audited(service) == before
