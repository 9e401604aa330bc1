"""The console's screens of terminals and of pairing: what they show, what they do, and what they refuse."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from console_scene import ROLES, Console, alert_of, console, links, main_of, notice_of
from operator_calls import audited
from pairing_scene import ask_to_pair, pair, poll
from paydesk.operators.terminals.page import ROWS
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from print_scene import print_on
from service import Service, Terminal, running

CHANGING, READING = ROLES[:2], ROLES[2:]
HERE = "/console/terminals"
HOSTILE = "<script>alert(1)</script>"
ACTIONS = ("release", "mode", "place", "tips", "revoke", "delete", "store", "pos")


@pytest.fixture
async def owner(service: Service) -> Console:
    """The browser of an owner."""
    return await console(service)


async def at_terminal(service: Service, terminal: Terminal, *, permitted: bool = False) -> str:
    """Create an order that the terminal has taken, and authorize it if `permitted`; return its id."""
    device = await service.device(terminal)
    order_id: str = (await service.create(terminal)).body["id"]
    assert (await device.ack(order_id[3:])).status == 200
    if permitted:
        assert (await device.authorizing(order_id[3:])).status == 200
    return order_id


async def document(browser: Console, terminal_id: str) -> dict[str, Any]:
    """Return the terminal as `/operator/v1` has it."""
    assert browser.operator is not None
    return await browser.operator.did("GET", f"terminals/{terminal_id}")


async def test_list_shows_the_slot_and_what_needs_a_person(service: Service, owner: Console) -> None:
    """A terminal that never polled and has an order comes first; a free one is free."""
    assert "No terminal yet" in main_of(await owner.open(HERE))
    stuck, free = await service.terminal(), await service.terminal(mode="SELF_SERVICE")
    await service.device(free)
    order_id = (await service.create(stuck)).body["id"]
    page = await owner.open(HERE)
    said = main_of(page)
    assert "One terminal needs you" in said
    assert "has never been online" in said
    assert said.index("One terminal needs you") < said.index("All terminals")
    assert {f"{HERE}/{stuck.id}", f"{HERE}/{free.id}", f"/console/orders/{order_id}"} <= set(links(page))
    assert "Free SELF_SERVICE Shop, Till" in said
    assert "Created" in said
    assert stuck.id in await owner.live(HERE)


async def test_list_is_filtered(service: Service, owner: Console) -> None:
    """The address has the filters without empty ones; a wrong one is refused in words; more rows are a page on."""
    online, other = await service.terminal(terminal_id="M__AAA"), await service.terminal(live=True)
    await service.scene.run("UPDATE stores SET name = $1 WHERE seller_id > 0", "100% Shop")
    found = await owner.open(f"{HERE}?q=m__a&presence=offline&mode=PDV&live=false&seller={service.seller_id}")
    assert online.id in found.html
    assert other.id not in found.html
    assert "matches these filters" in main_of(await owner.open(f"{HERE}?q=1000%25"))
    assert other.id in (await owner.open(f"{HERE}?q=100%25&live=true")).html
    assert (await owner.get(f"{HERE}?q=&presence=online&mode=")).location == f"{HERE}?presence=online"
    for wrong in ("presence=up", "seller=abc", "mode=X"):
        page = await owner.open(f"{HERE}?{wrong}", 400)
        assert wrong.partition("=")[0].capitalize() in alert_of(page)


async def test_list_has_pages(service: Service, owner: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link leads to the next rows, and one back to the start."""
    monkeypatch.setattr("paydesk.operators.terminals.page.ROWS", 2)
    for name in "ABC":
        await service.terminal(terminal_id=f"M__{name}")
    page = await owner.open(HERE)
    assert "M__C" not in page.html
    (more,) = [href for href in links(page) if "after=" in href]
    page = await owner.open(more)
    assert "M__C" in page.html
    assert HERE in links(page)


async def test_terminal_says_what_it_waits_for(service: Service, owner: Console) -> None:
    """In a sentence for each state of its slot; with its last orders."""
    terminal = await service.terminal()
    path = f"{HERE}/{terminal.id}"
    assert "It is offline" in main_of(await owner.open(path))
    order_id = await at_terminal(service, terminal)
    page = await owner.open(path)
    assert "At terminal" in main_of(page)
    assert {f"/console/orders/{order_id}", f"{path}/release"} <= set(links(page))
    assert await owner.done(f"{path}/release", reason="stuck") == (
        f"The order {order_id} is canceled, and nothing was charged. The terminal is free."
    )
    now_ms = int(time.time() * 1000)
    await service.scene.run("UPDATE terminals SET last_seen_ms = $1 WHERE terminal_id = $2", now_ms, terminal.id)
    page = await owner.open(path)
    assert "It is free" in main_of(page)
    assert f"{path}/release" not in links(page)
    assert order_id in page.html
    await owner.done(f"{path}/mode", operating_mode="STANDALONE")
    assert "It takes no orders in mode STANDALONE" in main_of(await owner.open(path))
    assert order_id in await owner.live(path)


async def test_print_action_is_released(service: Service, owner: Console) -> None:
    """The page says that it prints."""
    terminal = await service.terminal()
    assert (await print_on(service, terminal)).status == 201
    path = f"{HERE}/{terminal.id}"
    assert "It is printing." in main_of(await owner.open(path))
    assert "Printing" in main_of(await owner.open(HERE))
    assert await owner.done(f"{path}/release", reason="jam") == "The print action is canceled. The terminal is free."


async def test_release_is_refused_after_the_permit(service: Service, owner: Console) -> None:
    """There is no button, and the form says why and until when; the order stays."""
    terminal = await service.terminal()
    order_id = await at_terminal(service, terminal, permitted=True)
    path = f"{HERE}/{terminal.id}"
    assert f"{path}/release" not in links(await owner.open(path))
    status, reason = await owner.refused(f"{path}/release", reason="stuck")
    assert status == 409
    assert "the card may be charged" in reason
    assert order_id in reason
    assert (await service.get(order_id))["status"] == "at_terminal"
    assert await audited(service) == []


async def test_release_of_a_free_terminal_changes_nothing(service: Service, owner: Console) -> None:
    """The form only says so; one that was released meanwhile is free too."""
    path = f"{HERE}/{(await service.terminal()).id}/release"
    page = await owner.open(path)
    assert main_of(page).endswith("Nothing holds the terminal: it is free. Back")
    assert "reason" not in page.form(path).fields
    sent = await owner.send(path, reason="stuck")
    assert notice_of(await owner.open(sent.location)) == "The terminal was free already. Nothing has changed."


async def test_mode_of_many_terminals_is_set(service: Service, owner: Console) -> None:
    """Of those on the page that are chosen; one with an order keeps its mode, and is named."""
    first, busy, other = [await service.terminal() for _ in range(3)]
    await at_terminal(service, busy)
    path = f"{HERE}/modes"
    assert path in links(await owner.open(HERE))
    form, unchosen = await owner.form_of(path)
    assert {f"terminal:{one.id}" for one in (first, busy, other)} <= unchosen
    assert form.fields["mode"] == ""

    async def send(mode: str, *chosen: Terminal) -> str:
        return await owner.done(path, mode=mode, **{f"terminal:{one.id}": "yes" for one in chosen})

    said = await send("SELF_SERVICE", first, busy)
    serial = busy.id.partition("__")[2]
    assert said.startswith(f"One terminal is in mode SELF_SERVICE. Not changed: {serial}: ")
    modes = [(await document(owner, one.id))["operating_mode"] for one in (first, busy, other)]
    assert modes == ["SELF_SERVICE", "PDV", "PDV"]
    assert await send("SELF_SERVICE", first, other) == "2 terminals are in mode SELF_SERVICE."
    chosen = {f"terminal:{busy.id}": "yes"}
    status, reason = await owner.refused(path, mode="STANDALONE", **chosen)
    assert (status, "No terminal was changed." in reason, serial in reason) == (409, True, True)
    assert await owner.refused(path, mode="PDV") == (400, "Choose at least one terminal.")
    assert (await owner.refused(path, mode="", **chosen))[0] == 400
    form, _ = await owner.form_of(f"{path}?mode=PDV")
    assert [name for name in form.fields if name.startswith("terminal:")] == [f"terminal:{busy.id}"]
    assert "There are no terminals on this page" in main_of(await owner.open(f"{path}?mode=STANDALONE"))
    changes = [one for one in await audited(service) if one.action == "terminals.change"]
    assert len(changes) == 2


async def test_mode_of_a_full_page_of_terminals_is_set(service: Service, owner: Console) -> None:
    """All of a filtered list are chosen at first."""
    for _ in range(ROWS + 1):
        await service.terminal()
    path = f"{HERE}/modes?mode=PDV"
    assert await owner.done(path, mode="SELF_SERVICE") == f"{ROWS} terminals are in mode SELF_SERVICE."


async def test_mode_place_and_tips_are_changed(service: Service, owner: Console) -> None:
    """Each form has the present value, and says what happened; a store and a point of sale can be added."""
    terminal = await service.terminal()
    path = f"{HERE}/{terminal.id}"
    assert await owner.done(f"{path}/mode", operating_mode="SELF_SERVICE") == (
        "The terminal is in mode SELF_SERVICE: it takes orders."
    )
    form, _ = await owner.form_of(f"{path}/mode")
    assert form.fields["operating_mode"] == "SELF_SERVICE"
    said = await owner.done(f"{path}/tips", tip_percentages="10, 15 %;20")
    assert said == "The terminal offers tips of 10 %, 15 %, 20 %."
    form, _ = await owner.form_of(f"{path}/tips")
    assert form.fields["tip_percentages"] == "10, 15, 20"
    assert await owner.done(f"{path}/tips", tip_percentages="") == "The terminal offers no tips."
    assert await owner.done(f"{path}/store", name="Main street") == "The store Main street is added."
    form, _ = await owner.form_of(f"{path}/pos")
    assert (form.fields["external_pos_id"], form.fields["name"]) == ("", "")
    assert await owner.done(f"{path}/pos", external_pos_id="T2") == "The point of sale T2 is added to Shop."
    listed = (await owner.operator.did("GET", "pos"))["data"]  # type: ignore[union-attr]
    (pos,) = [one for one in listed if one["external_pos_id"] == "T2"]
    form, _ = await owner.form_of(f"{path}/place")
    before = await document(owner, terminal.id)
    assert form.fields["place"] == f"pos_id:{before['pos_id']}"
    assert await owner.done(f"{path}/place", place=f"pos_id:{pos['pos_id']}") == "The terminal is at Shop, T2."
    assert (await document(owner, terminal.id))["pos_id"] == pos["pos_id"]
    actions = [line.action for line in await audited(service)]
    assert actions == [*["terminals.change"] * 3, "stores.create", "pos.create", "terminals.change"]


async def test_wrong_values_are_refused(service: Service, owner: Console) -> None:
    """The form keeps what was typed, and names what to change; nothing changes."""
    terminal, other = await service.terminal(), await service.terminal()
    path, place = f"{HERE}/{terminal.id}", (await document(owner, other.id))["pos_id"]
    before = await document(owner, terminal.id)
    for action, fields, status, word in (
        ("mode", {"operating_mode": "FAST"}, 400, "The mode must be"),
        ("tips", {"tip_percentages": "10, ten"}, 400, "The percentages must be a valid integer"),
        ("tips", {"tip_percentages": "0"}, 400, "The percentages must be"),
        ("tips", {"tip_percentages": "10 10"}, 400, "each percentage once"),
        ("place", {"place": "anywhere"}, 400, "one of"),
        ("place", {"place": "pos_id:1"}, 404, "point of sale"),
        ("place", {"place": f"pos_id:{place}"}, 409, other.id),
        ("pos", {"external_pos_id": "a" * 61}, 400, "The external id has 61 characters; at most 60 are possible."),
    ):
        answer = await owner.refused(f"{path}/{action}", **fields)
        assert (answer[0], word in answer[1]) == (status, True), (action, answer)
    page = await owner.act(f"{path}/tips", tip_percentages="10, ten")
    assert 'value="10, ten"' in page.html
    assert await document(owner, terminal.id) == before
    assert await audited(service) == []


async def test_terminal_with_an_order_is_not_changed(service: Service, owner: Console) -> None:
    """The reason names the order."""
    terminal = await service.terminal()
    order_id = (await service.create(terminal)).body["id"]
    path = f"{HERE}/{terminal.id}"
    for action, fields in (
        ("mode", {"operating_mode": "STANDALONE"}),
        ("tips", {"tip_percentages": "10"}),
        ("delete", {}),
    ):
        status, reason = await owner.refused(f"{path}/{action}", **fields)
        assert (status, order_id in reason) == (409, True), action


async def test_terminal_is_revoked_and_deleted(service: Service, owner: Console) -> None:
    """Its token is dead after the first, and it is gone after the second."""
    terminal = await service.terminal()
    device = await service.device(terminal)
    path = f"{HERE}/{terminal.id}"
    assert "revoked" in await owner.done(f"{path}/revoke")
    assert "It is inactive. It has no valid device token" in main_of(await owner.open(path))
    listed = main_of(await owner.open(HERE))
    assert "Inactive" in listed
    assert "Free" not in listed
    assert (await device.next(0)).status == 401
    assert await owner.done(f"{path}/delete") == f"{terminal.id} is deleted."
    await owner.open(path, 404)
    for action in ACTIONS:
        await owner.open(f"{path}/{action}", 404)
        assert (await owner.send(f"{path}/{action}")).status == 404, action
    assert (await owner.get(f"{HERE}/nonsense")).status == 400


@pytest.mark.parametrize("role", ROLES)
async def test_roles(service: Service, role: str) -> None:
    """Roles that only read see everything but no button, and get 403 for a form that was made by hand."""
    terminal = await service.terminal()
    order_id = (await service.create(terminal)).body["id"]
    code = (await ask_to_pair(service))["user_code"]
    browser, path = await console(service, role), f"{HERE}/{terminal.id}"
    seen = {*links(await browser.open(HERE)), *links(await browser.open(path))}
    seen |= set(links(await browser.open(f"/console/pair/{code}")))
    actions = {f"{path}/{action}" for action in ACTIONS}
    pairing = {"/console/pair", f"/console/pair/{code}/deny"}
    forms = {*actions, "/console/pair", f"/console/pair/{code}/deny", f"/console/pair/{code}/approve?seller=1"}
    if role in CHANGING:
        assert actions | pairing <= seen
        for one in actions:
            await browser.open(one)
        return
    assert not seen & actions
    before = await document(browser, terminal.id)
    for one in sorted(forms - {f"/console/pair/{code}/approve?seller=1"}):
        await browser.open(one, 403)
        page = await browser.send(one, reason="x", operating_mode="STANDALONE", tip_percentages="10", user_code=code)
        assert page.status == 403, one
        assert f"Your role, {role}" in main_of(page)
    page = await browser.send(f"/console/pair/{code}/approve?seller={service.seller_id}", mode="PDV")
    assert page.status == 403
    assert await document(browser, terminal.id) == before
    assert (await service.get(order_id))["status"] == "created"
    assert await audited(service) == []


async def test_terminal_is_paired(service: Service, owner: Console) -> None:
    """The code in any spelling leads to the terminal, then to the seller, the place and the mode."""
    codes = await ask_to_pair(service)
    typed = codes["user_code"].replace("-", " ").lower()
    form, _ = await owner.form_of(f"/console/pair?user_code={typed.replace(' ', '+')}")
    assert form.fields["user_code"] == typed
    page = await owner.act("/console/pair", user_code=typed)
    path = page.location
    assert path == f"/console/pair/{codes['user_code']}"
    page = await owner.open(path)
    assert "NEWLAND_N950" in main_of(page)
    assert "127.0.0.1" in main_of(page)
    assert "paired already" not in main_of(page)
    approve = f"{path}/approve?seller={service.seller_id}"
    page = await owner.act(approve, live="test", kind="service")
    said = notice_of(await owner.open(page.location))
    assert "The terminal is in mode PDV: it takes orders." in said
    made = await document(owner, page.location.rpartition("/")[2])
    assert (made["kind"], made["live_mode"], made["operating_mode"]) == ("service", False, "PDV")
    assert (await poll(service, codes)).status == 200
    assert [line.action for line in await audited(service)] == ["pairings.approve", "terminals.change"]
    # The code was used.
    assert "No terminal shows this code" in notice_of(await owner.open((await owner.get(path)).location))


async def test_terminal_is_paired_anew(service: Service, owner: Console) -> None:
    """Only if that is chosen; what is not chosen stays; the place of another terminal leaves the mode unset."""
    assert owner.operator is not None
    terminal = await pair(service, owner.operator, "NEWLAND_N950__A1", live_mode=False, kind="service")
    codes = await ask_to_pair(service, terminal.id)
    path = f"/console/pair/{codes['user_code']}"
    assert "It is paired already" in main_of(await owner.open(path))
    approve = f"{path}/approve?seller={service.seller_id}"
    assert await owner.refused(approve) == (400, "Set this check mark to go on.")
    taken = await document(owner, (await service.terminal()).id)
    said = await owner.done(approve, replace="yes", place=f"pos_id:{taken['pos_id']}")
    assert "Its mode could not be set" in said
    assert taken["id"] in said
    made = await document(owner, terminal.id)
    assert (made["kind"], made["live_mode"], made["operating_mode"]) == ("service", False, "UNDEFINED")


async def test_pairing_is_denied(service: Service, owner: Console) -> None:
    """The terminal gets `access_denied`."""
    codes = await ask_to_pair(service)
    assert await owner.done(f"/console/pair/{codes['user_code']}/deny") == "The pairing is denied."
    assert (await poll(service, codes)).code == "access_denied"


async def test_wrong_codes_are_refused_in_words(service: Service, owner: Console) -> None:
    """One that is no code, one that no terminal shows, a seller that does not exist."""
    assert await owner.refused("/console/pair") == (400, "The code is needed.")
    status, reason = await owner.refused("/console/pair", user_code=HOSTILE)
    assert (status, "eight letters" in reason) == (400, True)
    status, reason = await owner.refused("/console/pair", user_code="BCDF-GHJK")
    assert (status, "No terminal shows this code" in reason) == (404, True)
    code = (await ask_to_pair(service))["user_code"]
    await owner.open(f"/console/pair/{code}/approve?seller=999", 404)
    assert (await owner.get(f"/console/pair/{code}/approve?seller=x")).location == f"/console/pair/{code}"


async def test_wrong_codes_are_limited(database: Database) -> None:
    """Five a minute for an operator; the form says so."""
    settings = Settings(pairing_failures_per_minute=5)
    async with running(database, settings=settings) as service:
        browser = await console(service)
        found = [(await browser.refused("/console/pair", user_code="BCDF-GHJK"))[0] for _ in range(6)]
        assert found == [404] * 5 + [429]


async def test_texts_of_clients_are_escaped(service: Service, owner: Console) -> None:
    """Of terminals, sellers, stores and points of sale, on every screen."""
    assert owner.operator is not None
    terminal = await service.terminal()
    body = {"boot_id": str(uuid.uuid4()), "app_version": "<b>1", "journal": []}
    await service.request("POST", "/device/v1/hello", body, token=terminal.token, key=None)
    for statement in (
        "UPDATE stores SET name = $1 WHERE seller_id > 0",
        "UPDATE pos SET name = $1 WHERE seller_id > 0",
        "UPDATE sellers SET name = $1 WHERE seller_id > 0",
        "UPDATE terminal_sessions SET app_version = $1 WHERE seller_id > 0",
    ):
        await service.scene.run(statement, HOSTILE)
    code = (await ask_to_pair(service))["user_code"]
    paths = [HERE, f"{HERE}?q={HOSTILE}", f"{HERE}/{terminal.id}", f"/console/pair/{code}", "/console/pair"]
    paths += [f"{HERE}/{terminal.id}/{action}" for action in ACTIONS]
    paths += [f"/console/pair/{code}/approve?seller={service.seller_id}", f"/console/pair?user_code={HOSTILE}"]
    for path in paths:
        page = await owner.open(path)
        assert HOSTILE not in page.html, path
    assert "&lt;script&gt;" in (await owner.open(f"{HERE}/{terminal.id}")).html


async def test_without_a_session_the_pages_lead_to_the_sign_in(service: Service) -> None:
    """Also the address that a terminal shows, with the code in it."""
    browser = Console(service, {"Accept": "text/html"})
    for path in (HERE, f"{HERE}/M__1/release", "/console/pair?user_code=BCDF-GHJK"):
        assert (await browser.get(path)).location.startswith("/console/sign-in?return_to=%2Fconsole%2F")


async def test_a_deleted_terminal_is_named_without_a_link(service: Service, owner: Console) -> None:
    """On the pages of its orders; its own page says so, and leads to its orders instead of offering it again."""
    terminal = await service.terminal()
    order_id = (await service.create(terminal)).body["id"]
    order, here = f"/console/orders/{order_id}", f"{HERE}/{terminal.id}"
    assert here in links(await owner.open(order))
    await service.cancel(order_id)
    assert await owner.done(f"{here}/delete") == f"{terminal.id} is deleted."
    page = await owner.open(order)
    assert here not in links(page)
    assert f"{terminal.id[:10]}…{terminal.id[-6:]} deleted" in main_of(page)
    page = await owner.open(here, 404)
    assert f"There is no terminal {terminal.id}. If it was deleted, its orders are still here." in main_of(page)
    assert {f"/console/orders?terminal_id={terminal.id}", HERE, "/console"} <= set(links(page))
    assert "Try again" not in page.text


async def test_what_a_role_may_not_do_is_not_offered_again(service: Service) -> None:
    """The page leads to the list."""
    viewer, terminal = await console(service, "viewer"), await service.terminal()
    page = await viewer.open(f"{HERE}/{terminal.id}/revoke", 403)
    assert ("Try again" in page.text, HERE in links(page)) == (False, True)
