"""Forms of the console: what is wrong is said at the field, and nothing that was typed is lost."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from console_scene import Console, alert_of, console, links, main_of, notice_of
from operator_calls import Operator, audited, operator
from page_scene import Page
from paydesk.console.actions import ORIGINAL, ORIGINAL_CHARACTERS_MAX
from paydesk.platform.http.body import FORM_FIELDS_MAX
from refund_scene import paid
from service import Service
from tables import each

FRAGMENT = {"HX-Request": "true"}


@pytest.fixture
async def owner(service: Service) -> Console:
    """Return the browser of an owner."""
    return await console(service)


def field(page: Page, name: str) -> dict[str, str]:
    """Return the attributes of a field of the page's form."""
    (found,) = [
        given for tag, given in page.tags if tag in ("input", "select", "textarea") and given.get("id") == f"f-{name}"
    ]
    return found


async def refund_form(service: Service) -> str:
    """Return the path of the form that refunds a paid order."""
    return f"/console/orders/{await paid(service)}/refund"


async def script_sends(browser: Console, path: str, **fields: str) -> Page:
    """Send a form as the script of a page does."""
    return await browser.post(path, {"form_token": browser.form_token, **fields}, **FRAGMENT)


@each(
    "amount, sentence",
    [
        ("99", "The amount must be at most 24.90."),
        ("abc", 'The amount must be a decimal string such as "24.90"'),
        ("1.234", "The amount must"),
    ],
)
async def test_a_wrong_amount_is_explained_at_its_field(
    service: Service, owner: Console, amount: str, sentence: str
) -> None:
    """Which has the focus, and keeps what was typed."""
    page = await owner.act(await refund_form(service), amount=amount, reason="cold")
    assert (page.status, alert_of(page).startswith(sentence)) == (400, True), alert_of(page)
    assert "$." not in main_of(page)
    given = field(page, "amount")
    assert (given["value"], given["aria-invalid"], given["aria-describedby"]) == (amount, "true", "e-amount")
    assert "autofocus" in given
    assert field(page, "reason")["aria-describedby"] == "h-reason"


async def test_a_long_reason_is_refused_with_its_length(service: Service, owner: Console) -> None:
    """As long as the interface permits; no browser cuts it."""
    path = await refund_form(service)
    assert await owner.refused(path, reason="x" * 501) == (
        400, "The reason has 501 characters; at most 500 are possible."
    )  # fmt: skip
    assert all(
        "maxlength" not in given for tag, given in (await owner.open(path)).tags if given.get("id") == "f-reason"
    )
    assert await owner.done(path, reason="x" * 500, amount="1,50") == "1.50 BRL was refunded."


@pytest.mark.on_postgres
async def test_a_form_that_a_script_sends_leads_on_by_a_header(service: Service, owner: Console) -> None:
    """So that the next page shows what happened; a refused one is the form alone."""
    path = await refund_form(service)
    page = await script_sends(owner, path, amount="99", reason="cold")
    assert (page.status, "<html" in page.html, page.form(path).fields["amount"]) == (400, False, "99")
    page = await script_sends(owner, path, amount="1.00", reason="cold")
    assert (page.status, page.html, page.headers["hx-redirect"]) == (200, "", path.removesuffix("/refund"))
    assert notice_of(await owner.open(page.headers["hx-redirect"])) == "1.00 BRL was refunded."


@pytest.mark.on_postgres
async def test_sign_in_leads_back_to_the_form(service: Service, owner: Console) -> None:
    """Also after it was sent; a script gets 401, and keeps what was typed."""
    path = await refund_form(service)
    form = (await owner.open(path)).form(path)
    signed_out = Console(service, owner.headers)
    page = await signed_out.submit(form)
    assert page.location == f"/console/sign-in?return_to={urllib.parse.quote(path, safe='')}"
    page = await signed_out.post(path, form.fields, **FRAGMENT)
    assert (page.status, page.html) == (401, "")


async def test_a_form_of_an_earlier_session_is_outdated(service: Service, owner: Console) -> None:
    """Nothing is done; a script takes the token of the new session from the same form."""
    path = await refund_form(service)
    form = (await owner.open(path)).form(path)
    other = await console(service)
    page = await other.post(path, {**form.fields, "reason": "cold"}, **FRAGMENT)
    assert (page.status, page.html) == (403, "")
    fresh = (await other.get(path, **FRAGMENT)).form(path).fields["form_token"]
    page = await other.post(path, {**form.fields, "reason": "cold", "form_token": fresh}, **FRAGMENT)
    assert page.headers["hx-redirect"] == path.removesuffix("/refund")


async def test_what_is_over_has_no_button(service: Service, owner: Console) -> None:
    """One sentence says why, also after the form was sent from another tab."""
    order_id = (await service.create(await service.terminal())).body["id"]
    path = f"/console/orders/{order_id}/cancel"
    form = (await owner.open(path)).form(path)
    assert await owner.done(path, reason="left") == "The order is canceled. Nothing was charged."
    sentence = "The order is canceled already. Nothing was charged. Back"
    assert main_of(await owner.open(path)).endswith(sentence)
    page: Any = await owner.submit(form, reason="left", idempotency_key="another")
    assert (page.status, main_of(page).endswith(sentence), page.form(path).fields) == (409, True, {})
    path = await refund_form(service)
    assert main_of(await owner.open(path)).startswith("Refund a payment of 24.90 BRL")
    await owner.done(path, reason="cold")
    assert main_of(await owner.open(path)).endswith("Nothing remains to be refunded. Back")


@dataclass(frozen=True, slots=True)
class Change:
    """A form that changes something: where it is, and what two operators change at the same time.

    Paths have the names of the added thing's properties in braces, and `{seller}`.
    """

    add: str
    body: Mapping[str, Any]
    form: str
    """The path of the form, below `/console/`."""
    document: str
    """The path below `/operator/v1/`."""
    theirs: Mapping[str, Any]
    """What another operator changes while the form is open."""
    mine: Mapping[str, str]
    """The field that is changed in the form."""
    wanted: Mapping[str, Any]
    """The properties that the field sets."""
    refused: Mapping[str, str]
    """A value of the same field that is refused."""

    async def made(self, colleague: Operator, seller_id: int) -> tuple[str, str]:
        """Add the thing, and return the paths of its form and its document."""
        names = {"seller": seller_id}
        if self.add == "pos":
            names |= await colleague.did("POST", "stores", {"seller_id": seller_id, "name": "Main street"})
        body = {**self.body, **{name: names[name] for name in ("seller_id", "store_id") if name in self.body}}
        names |= await colleague.did("POST", self.add, body)
        return "/console/" + self.form.format_map(names), self.document.format_map(names)


CHANGES = {
    "application": Change(
        "applications",
        {"name": "Shop", "redirect_uris": ["https://a.example/cb", "https://b.example/cb"]},
        "applications/{client_id}/change",
        "applications/{client_id}",
        {"name": "Shop 2", "scopes": "read", "redirect_uris": ["https://c.example/cb"]},
        {"pkce_required": "yes"},
        {"pkce_required": True},
        {"name": "x" * 101},
    ),
    "scopes of an application": Change(
        "applications",
        {"name": "Shop", "redirect_uris": ["https://a.example/cb"], "pkce_required": True},
        "applications/{client_id}/change",
        "applications/{client_id}",
        {"name": "Shop 2", "pkce_required": False},
        {"scopes.write": ""},
        {"scopes": "offline_access read"},
        {"redirect_uris": "http://a.example/cb"},
    ),
    "seller": Change(
        "sellers",
        {"name": "Ana", "email": "ana@shop.example", "country": "BRA", "currency": "BRL"},
        "sellers/{user_id}/change",
        "sellers/{user_id}",
        {"name": "Ana 2"},
        {"email": "prado@shop.example"},
        {"email": "prado@shop.example"},
        {"email": "prado"},
    ),
    "point of sale": Change(
        "pos",
        {"seller_id": 0, "store_id": 0, "name": "Till", "external_pos_id": "TILL1"},
        "sellers/{seller}/pos/{pos_id}/change",
        "pos/{pos_id}?seller={seller}",
        {"name": "Till 2"},
        {"external_pos_id": "TILL2"},
        {"external_pos_id": "TILL2"},
        {"external_pos_id": "x" * 61},
    ),
    "operator": Change(
        "operators",
        {"name": "Eva", "email": "eva@shop.example", "role": "viewer"},
        "operators/{operator_id}/change",
        "operators/{operator_id}",
        {"name": "Eva 2", "email": "e@shop.example"},
        {"role": "support"},
        {"role": "support"},
        {"name": "x" * 101},
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("is_refused_first", [False, True])
async def test_a_form_changes_only_what_was_changed_in_it(
    service: Service, owner: Console, change: Change, *, is_refused_first: bool
) -> None:
    """What another operator changed meanwhile stays, also if the form was refused and sent again."""
    colleague = await operator(service)
    path, document = await change.made(colleague, service.seller_id)
    form, _ = await owner.form_of(path)
    assert 2 * len(form.fields) < FORM_FIELDS_MAX
    theirs = await colleague.did("PATCH", document, change.theirs)
    kept = {name: theirs[name] for name in change.theirs}
    if is_refused_first:
        page = await owner.submit(form, **change.refused)
        assert page.status == 400, page.text
        shown = page.form(path).fields
        assert {name: shown[name] for name in form.fields if name.startswith(ORIGINAL)} == {
            name: value for name, value in form.fields.items() if name.startswith(ORIGINAL)
        }
        form.fields |= {name: value for name, value in shown.items() if name.startswith(ORIGINAL)}
    page = await owner.submit(form, **change.mine)
    assert notice_of(await owner.open(page.location)).endswith("is changed.")
    entry = (await audited(service))[-1]
    assert {name for name in entry.after if entry.before.get(name) != entry.after[name]} == set(change.wanted)
    count = len(await audited(service))
    # It is stored already: setting it changes nothing, and shows the rest.
    found = await colleague.did("PATCH", document, change.wanted)
    assert {name: found[name] for name in kept} == kept
    for fields in ({}, change.mine):
        page = await owner.submit(form, **fields)
        assert notice_of(await owner.open(page.location)) == "Nothing has changed."
    assert len(await audited(service)) == count


async def test_a_store_is_not_named_back(service: Service, owner: Console) -> None:
    """By a form that was opened before another operator renamed it, and sent as it was."""
    colleague = await operator(service)
    store = await colleague.did("POST", "stores", {"seller_id": service.seller_id, "name": "Main street"})
    form, _ = await owner.form_of(f"/console/sellers/{service.seller_id}/stores/{store['store_id']}/rename")
    document = f"stores/{store['store_id']}?seller={service.seller_id}"
    await colleague.did("PATCH", document, {"name": "Market"})
    page = await owner.submit(form)
    assert notice_of(await owner.open(page.location)) == "Nothing has changed."
    page = await owner.submit(form, name="Harbour")
    assert notice_of(await owner.open(page.location)) == "The store is called Harbour now."


@pytest.mark.on_postgres
async def test_a_form_made_by_hand_is_compared_with_what_is_stored(service: Service, owner: Console) -> None:
    """As it does not say what it showed; what is too long to be carried twice is compared so too."""
    colleague = await operator(service)
    uris = [f"https://shop.example/{number}/{'x' * 1000}" for number in range(ORIGINAL_CHARACTERS_MAX // 1000)]
    made = await colleague.did("POST", "applications", {"name": "Shop", "redirect_uris": uris})
    path = f"/console/applications/{made['client_id']}/change"
    form, _ = await owner.form_of(path)
    assert f"{ORIGINAL}name" in form.fields
    assert f"{ORIGINAL}redirect_uris" not in form.fields
    page = await owner.submit(form)
    assert notice_of(await owner.open(page.location)) == "Nothing has changed."
    form.fields = {name: value for name, value in form.fields.items() if not name.startswith(ORIGINAL)}
    await colleague.did("PATCH", f"applications/{made['client_id']}", {"name": "Shop 2"})
    page = await owner.submit(form)
    assert notice_of(await owner.open(page.location)) == "Shop is changed."


async def test_an_unknown_page_is_a_page(owner: Console) -> None:
    """One of the console, with its navigation; the screens of `paydesk dev` are unknown in production."""
    for path in ("/console/nowhere", "/console/development", "/console/orders/x/y", "/console/nowhere?page=2"):
        page = await owner.open(path, 404)
        assert page.headers["content-type"].startswith("text/html")
        assert "What it led to may have been removed." in page.text
        assert {"/console", "/console/orders", "/console/audit"} <= set(links(page))
    assert (await owner.get("/consoles")).headers["content-type"] == "application/json"
