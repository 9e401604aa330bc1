"""`/applications`: a seller lists and withdraws authorizations."""

from __future__ import annotations

from accounts import other_application, other_seller
from page_scene import Browser, authorization, browser, give_password
from paydesk.engine.oauth import authorizations
from paydesk.engine.oauth.pages.applications import LISTED_MAX
from paydesk.platform.storage.database import Transaction
from service import Service


async def _opened(seller: Browser) -> list[str]:
    """The authorizations that the page offers to withdraw, in its order."""
    page = await seller.get("/applications")
    assert page.status == 200
    return [form.fields["grant"] for form in page.forms if form.action == "/applications/withdraw"]


async def test_a_seller_sees_authorized_applications(service: Service) -> None:
    """Each with its scopes in plain words and its date; signing in returns to the list."""
    await other_application(service)
    seller = await browser(service)
    answer = await seller.sign_in("/applications")
    assert answer.location == "/applications"
    page = await seller.get("/applications")
    assert "Kiosk" in page.text
    assert "Till" in page.text
    assert "Create, cancel and refund orders" in page.text
    assert [given["datetime"][:2] for tag, given in page.tags if tag == "time"] == ["20"] * 4
    # By name, live and test as the service was started with, and of another application the same.
    assert len(await _opened(seller)) == 4
    labels = [given["aria-label"] for tag, given in page.tags if tag == "button" and "aria-label" in given]
    assert len(labels) == 4
    assert all(label.startswith(("Withdraw from Till,", "Withdraw from Kiosk,")) for label in labels)


async def test_a_seller_withdraws_an_authorization(service: Service) -> None:
    """Its tokens are invalid at once, others stay valid, and a second withdrawal has no effect."""
    seller = await browser(service)
    form = await seller.consent()
    code = (await seller.submit(form, decision="agree")).query["code"]
    reply = await service.request("POST", "/oauth/token", service.scene.exchange(code), token=None, key=None)
    token = reply.body["access_token"]
    assert (await service.request("GET", "/terminals/v1/list", token=token)).status == 200
    page = await seller.get("/applications")
    newest, *others = [form for form in page.forms if form.action == "/applications/withdraw"]
    for _ in range(2):
        assert (await seller.submit(newest)).location == "/applications"
    assert (await service.request("GET", "/terminals/v1/list", token=token)).status == 401
    assert (await service.request("GET", "/terminals/v1/list")).status == 200
    refresh = service.scene.refresh(reply.body["refresh_token"])
    refused = await service.request("POST", "/oauth/token", refresh, token=None, key=None)
    assert refused.code == "unauthorized_client"
    assert await _opened(seller) == [one.fields["grant"] for one in others]
    events = "SELECT count(*) FROM application_events WHERE action = 'application.deauthorized'"
    assert await service.scene.value(events) == 1


async def test_a_long_list_is_cut(service: Service) -> None:
    """The newest are listed, and the page says that there are more."""
    seller = await browser(service)
    await seller.sign_in("/applications")
    assert "These are the newest" not in (await seller.get("/applications")).text
    application_id, now_ms = service.scene.application.application_id, service.clock.now_ms()

    async def allow_often(tx: Transaction) -> None:
        for _ in range(LISTED_MAX):
            await authorizations.create(
                tx, seller_id=service.seller_id, application_id=application_id, scope="read", now_ms=now_ms
            )

    await service.database.write(allow_often)
    assert f"These are the newest {LISTED_MAX}." in (await seller.get("/applications")).text
    assert len(await _opened(seller)) == LISTED_MAX


async def test_an_empty_list(service: Service) -> None:
    """The page says that no application is authorized."""
    seller = await browser(service)
    await service.scene.run("UPDATE authorizations SET withdrawn_ms = 1 WHERE seller_id = $1", service.seller_id)
    await seller.sign_in("/applications")
    assert "No application acts for you." in (await seller.get("/applications")).text


async def test_only_the_seller_withdraws(service: Service) -> None:
    """Not another seller, another site, a form of another session, or a seller who has signed out."""
    seller, other = await browser(service), await other_seller(service)
    await give_password(other)
    other_browser = Browser(other)
    for one in (seller, other_browser):
        await one.sign_in("/applications")
    page = await seller.get("/applications")
    form = next(form for form in page.forms if form.action == "/applications/withdraw")
    standing = await _opened(seller)
    theirs = next(
        form for form in (await other_browser.get("/applications")).forms if form.action == "/applications/withdraw"
    )
    assert (await other_browser.submit(theirs, grant=form.fields["grant"])).status == 303
    for token in (theirs.fields["form_token"], "", "1-" + "0" * 64):
        refused = await seller.submit(form, form_token=token)
        assert (refused.status, refused.code) == (403, "form_outdated")
    foreign = await seller.post(form.action, form.fields, Sec_Fetch_Site="cross-site")
    assert (foreign.status, foreign.code) == (403, "forbidden")
    signed_out = await Browser(service).submit(form)
    assert signed_out.status == 403
    assert signed_out.form("/sign-in").fields["return_to"] == "/applications"
    assert await _opened(seller) == standing


async def test_withdrawing_an_unknown_authorization_has_no_effect(service: Service) -> None:
    """The page lists the valid authorizations."""
    seller = await browser(service)
    await seller.sign_in(authorization(service))
    page = await seller.get("/applications")
    standing = await _opened(seller)
    form = next(form for form in page.forms if form.action == "/applications/withdraw")
    for grant in ("", "unknown", "01J67CQQH5904WDBVZEM4JMEP3"):
        assert (await seller.submit(form, grant=grant)).location == "/applications"
    assert await _opened(seller) == standing
