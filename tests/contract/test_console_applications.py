"""The console's screens of applications: what there is, what an operator does about them, and their secrets."""

from __future__ import annotations

import re
import urllib.parse

import pytest
import structlog

from console_scene import Console, alert_of, console, links, main_of, notice_of, part_of
from operator_calls import audited
from page_scene import Page
from paydesk.console.view import instant_ms
from paydesk.operators.applications.handlers import VALID_SECRETS_MAX
from service import Service
from tables import each
from webhooks_scene import subscribe

HERE = "/console/applications"
SHOP = {"name": "Corner shop", "redirect_uris": "https://shop.example/callback"}
READERS = ("support", "viewer")
ACTIONS = ("change", "suspend", "resume", "delete", "secrets/add")
SECRET = re.compile(r"[0-9a-f]{64}")


@pytest.fixture
async def owner(service: Service) -> Console:
    """The browser of an owner."""
    return await console(service)


def secret_of(page: Page) -> str:
    """Return the secret that the page shows."""
    assert page.status == 200, (page.status, page.text)
    secret = part_of(page, "id", "secret")
    assert SECRET.fullmatch(secret), secret
    return secret


async def added(owner: Console, **fields: str) -> str:
    """Add an application, and return the path of its page."""
    page = await owner.act(f"{HERE}/add", **{**SHOP, **fields})
    secret_of(page)
    (path,) = {href for href in links(page) if re.fullmatch(f"{HERE}/[0-9]+", href)}
    return path


async def document(owner: Console, path: str) -> dict[str, object]:
    """Return the application as `/operator/v1` shows it."""
    assert owner.operator is not None
    return await owner.operator.did("GET", f"applications/{path.removeprefix(HERE)[1:]}")


async def secrets_of(owner: Console, path: str) -> list[dict[str, str]]:
    """Return the ids and dates of the secrets, the oldest first."""
    secrets = (await document(owner, path))["secrets"]
    assert isinstance(secrets, list)
    return secrets


async def secret_ids(owner: Console, path: str) -> list[str]:
    """Return the ids of the secrets, the oldest first."""
    return [one["id"] for one in await secrets_of(owner, path)]


async def authenticates(service: Service, path: str, secret: str) -> bool:
    """Return whether the token endpoint accepts the secret."""
    client_id = path.rpartition("/")[2]
    form = {"grant_type": "refresh_token", "client_id": client_id, "client_secret": secret, "refresh_token": "TG-0-1"}
    reply = await service.request("POST", "/oauth/token", form, key=None)
    return "invalid_client" not in str(reply.body)


async def test_application_is_added_and_its_secret_shown_once(service: Service, owner: Console) -> None:
    """With its client ID; neither the log, the audit trail nor another page has the secret."""
    with structlog.testing.capture_logs() as logged:
        page = await owner.act(f"{HERE}/add", **SHOP)
        secret = secret_of(page)
    assert "Corner shop is added." in main_of(page)
    (path,) = {href for href in links(page) if re.fullmatch(f"{HERE}/[0-9]+", href)}
    client_id = path.rpartition("/")[2]
    assert {client_id, secret} <= {given.get("data-copy") for _, given in page.tags}
    assert secret not in str(logged)
    assert secret not in str(page.headers)
    assert secret not in str(await audited(service))
    assert await service.scene.value("SELECT COUNT(*) FROM recorded_requests WHERE path LIKE '/console%'") == 0
    assert await authenticates(service, path, secret)
    listed = await owner.open(HERE)
    assert path in links(listed)
    assert f"Corner shop Active {client_id} read, write, offline_access https://shop.example/callback" in main_of(
        listed
    )
    shown = await owner.open(path)
    assert secret not in shown.html
    text = main_of(shown)
    assert "PKCE optional a challenge that is sent is verified" in text
    assert "Tokens live unless it asks for test ones" in text
    assert "Replayed refresh token revokes its token family" in text
    assert "Nothing is sent to it." in text
    assert "Added application Corner shop" in text
    expected = {f"/console/orders?application={client_id}", f"/console/requests?application={client_id}"}
    assert {*expected, f"/console/audit?subject={client_id}"} <= set(links(shown))


async def test_fields_of_a_new_application_are_sent(owner: Console) -> None:
    """Each line is an address; scopes and settings are those of the check marks."""
    path = await added(
        owner,
        redirect_uris="https://shop.example/a\r\n\r\n  https://shop.example/b\r\n",
        pkce_required="yes",
        test_tokens="yes",
        on_replay="refuse",
        **{"scopes.write": ""},
    )
    found = await document(owner, path)
    assert found["redirect_uris"] == ["https://shop.example/a", "https://shop.example/b"]
    assert (found["scopes"], found["on_replay"]) == ("offline_access read", "refuse")
    assert (found["pkce_required"], found["test_tokens"]) == (True, True)
    text = main_of(await owner.open(path))
    assert "https://shop.example/a https://shop.example/b" in text
    assert "PKCE required every code needs a challenge" in text
    assert "Tokens test unless it asks for live ones" in text
    assert "Replayed refresh token is refused the other tokens stay valid" in text
    assert "https://shop.example/a and 1 more" in main_of(await owner.open(HERE))


@each(
    "fields, name, sentence",
    [
        ({"name": ""}, "name", "The name is needed."),
        ({"name": "x" * 101}, "name", "The name has 101 characters; at most 100 are possible."),
        ({"redirect_uris": ""}, "redirect_uris", "The list of redirect URIs is needed."),
        (
            {"redirect_uris": "https://a.example/cb\n\nhttp://b.example/cb"},
            "redirect_uris",
            "The list of redirect URIs has a fault in line 3: it must be https",
        ),
        (
            {"redirect_uris": "https://a.example/cb\nhttps://a.example/cb"},
            "redirect_uris",
            "The list of redirect URIs must name each address once.",
        ),
        (
            dict.fromkeys(("scopes.read", "scopes.write", "scopes.offline_access"), ""),
            "scopes.read",
            "The list of scopes needs at least one.",
        ),
    ],
)
async def test_refused_input_is_explained_at_its_field(
    owner: Console, fields: dict[str, str], name: str, sentence: str
) -> None:
    """When adding and changing; what was typed stays, and nothing is changed."""
    path = await added(owner)
    before = await document(owner, path)
    for form in (f"{HERE}/add", f"{path}/change"):
        page = await owner.act(form, **{**SHOP, **fields})
        assert page.status == 400
        assert alert_of(page).startswith(sentence), alert_of(page)
        (given,) = [given for _, given in page.tags if given.get("id") == f"f-{name}"]
        assert (given["aria-invalid"], "autofocus" in given) == ("true", True)
        assert f"e-{name}" in given["aria-describedby"]
        if "redirect_uris" in fields:
            assert part_of(page, "id", "f-redirect_uris") == " ".join(fields["redirect_uris"].split())
    assert await document(owner, path) == before


async def test_application_is_changed(service: Service, owner: Console) -> None:
    """Only what differs is sent and recorded."""
    path = await added(owner)
    assert await owner.done(f"{path}/change") == "Nothing has changed."
    assert await owner.done(f"{path}/change", name="Corner shop 2", pkce_required="yes") == "Corner shop 2 is changed."
    last = (await audited(service))[-1]
    assert (last.action, last.after["name"]) == ("applications.change", "Corner shop 2")
    changed = {"scopes.offline_access": "", "on_replay": "refuse"}
    assert await owner.done(f"{path}/change", **changed) == "Corner shop 2 is changed."
    found = await document(owner, path)
    assert (found["name"], found["pkce_required"]) == ("Corner shop 2", True)
    assert (found["scopes"], found["on_replay"]) == ("read write", "refuse")
    assert "scopes offline_access read write → becomes read write" in main_of(await owner.open(path))


@pytest.mark.on_postgres
async def test_application_is_suspended_and_resumed(owner: Console) -> None:
    """Its page says what that means; the form of the state that it has already has no button."""
    path = await added(owner)
    said = main_of(await owner.open(f"{path}/suspend"))
    for words in ("It gets no tokens", "are refused", "Open orders continue", "accepted again when you resume"):
        assert words in said
    assert await owner.done(f"{path}/suspend") == (
        "Corner shop is suspended. It gets no tokens, and its tokens are refused."
    )
    shown = await owner.open(path)
    assert re.search(r"Suspended (now|\d+ s ago) \. It gets no tokens", main_of(shown))
    assert f"{path}/resume" in links(shown)
    assert f"{path}/suspend" not in links(shown)
    assert "Corner shop Suspended" in main_of(await owner.open(HERE))
    assert main_of(await owner.open(f"{path}/suspend")).endswith("Corner shop is suspended already. Back")
    assert await owner.done(f"{path}/resume") == "Corner shop is active again."
    assert "suspended_date" not in await document(owner, path)
    assert main_of(await owner.open(f"{path}/resume")).endswith("Corner shop is not suspended. Back")


async def test_suspension_stops_the_tokens_of_the_application(service: Service, owner: Console) -> None:
    """Until it is resumed."""
    path = f"{HERE}/{service.scene.application.application_id}"
    await owner.done(f"{path}/suspend")
    assert (await service.request("GET", "/terminals/v1/list", key=None)).status == 403
    await owner.done(f"{path}/resume")
    assert (await service.request("GET", "/terminals/v1/list", key=None)).status == 200


async def test_application_that_is_used_is_not_deleted(service: Service, owner: Console) -> None:
    """The form says what uses it, and what to do."""
    client_id = service.scene.application.application_id
    subscription, _ = await subscribe(service.database, "https://9.9.9.9/hook", application_id=client_id)
    status, reason = await owner.refused(f"{HERE}/{client_id}/delete")
    assert status == 409
    assert f"It has the subscriptions {subscription}; delete these first." in reason
    assert "It has the grants" in reason
    await owner.open(f"{HERE}/{client_id}")


async def test_unused_application_is_deleted(owner: Console) -> None:
    """Its page is gone; the audit trail names it without a link."""
    path = await added(owner)
    assert await owner.done(f"{path}/delete") == "Corner shop is deleted."
    assert HERE in links(await owner.open(path, 404))
    trail = await owner.open(f"/console/audit?subject={path.rpartition('/')[2]}")
    assert "Deleted application Corner shop" in main_of(trail)
    assert [href for href in links(trail) if href == path] == [path], "only of the entry that added it"


@pytest.mark.parametrize(
    ("choice", "sentence", "is_old_valid"),
    [
        ("kept", "The other secrets stay valid until you remove them.", True),
        ("24h", "until they expire or are removed; the oldest expires on", True),
        ("7d", "until they expire or are removed; the oldest expires on", True),
        ("0s", "It is the only one that is valid.", False),
    ],
)
async def test_secret_is_added(
    service: Service, owner: Console, choice: str, sentence: str, *, is_old_valid: bool
) -> None:
    """And shown once; the others stay valid as long as was chosen."""
    old = secret_of(page := await owner.act(f"{HERE}/add", **SHOP))
    (path,) = {href for href in links(page) if re.fullmatch(f"{HERE}/[0-9]+", href)}
    with structlog.testing.capture_logs() as logged:
        page = await owner.act(f"{path}/secrets/add", others_expire_in=choice)
        new = secret_of(page)
    assert sentence in main_of(page)
    assert new not in str(logged)
    assert new not in str(await audited(service))
    shown = await owner.open(path)
    assert new not in shown.html
    assert "Added a secret to application Corner shop" in main_of(shown)
    assert await authenticates(service, path, new)
    assert await authenticates(service, path, old) is is_old_valid
    if choice in ("24h", "7d"):
        first, second = await secrets_of(owner, path)
        hours = (instant_ms(first["expires_date"]) - instant_ms(second["created_date"])) // 3_600_000
        assert hours == {"24h": 24, "7d": 7 * 24}[choice]
        assert f"secret {first['id'][:6]}…{first['id'][-4:]} expires" in main_of(shown)
        assert "Expires" in main_of(shown)


async def test_sixth_secret_is_refused(owner: Console) -> None:
    """With the reason, in the form."""
    path = await added(owner)
    for _ in range(VALID_SECRETS_MAX - 1):
        secret_of(await owner.act(f"{path}/secrets/add", others_expire_in="kept"))
    status, reason = await owner.refused(f"{path}/secrets/add", others_expire_in="kept")
    assert (status, f"at most {VALID_SECRETS_MAX}" in reason.lower()) == (409, True), reason
    secret_of(await owner.act(f"{path}/secrets/add", others_expire_in="0s"))
    assert len(await secret_ids(owner, path)) == 1


async def test_secret_is_removed(owner: Console) -> None:
    """The form of the last valid one says that it is; the page then says what is missing."""
    path = await added(owner)
    secret_of(await owner.act(f"{path}/secrets/add", others_expire_in="kept"))
    first, second = await secret_ids(owner, path)
    form = f"{path}/secrets/{first}/remove"
    assert form in links(await owner.open(path))
    assert "last valid one" not in main_of(await owner.open(form))
    assert (await owner.done(form)).endswith("is removed.")
    assert main_of(await owner.open(form)).endswith("The application no longer has this secret. Back")
    form = f"{path}/secrets/{second}/remove"
    assert "It is the last valid one: Corner shop gets no tokens until you add another." in main_of(
        await owner.open(form)
    )
    assert "Corner shop has no valid secret left" in await owner.done(form)
    shown = main_of(await owner.open(path))
    assert "It has no valid secret, so it gets no tokens." in shown
    assert "Removed a secret of application Corner shop" in shown
    assert "others_expire_in" not in (await owner.form_of(f"{path}/secrets/add"))[0].fields
    secret_of(await owner.act(f"{path}/secrets/add"))
    assert "no valid secret" not in main_of(await owner.open(path))


async def test_sending_a_form_twice_is_harmless(owner: Console) -> None:
    """The second time nothing changes, and the answer says so."""
    path = await added(owner)
    for verb in ("suspend", "resume", "change"):
        form, _ = await owner.form_of(f"{path}/{verb}")
        form.fields["name"] = form.fields.get("name", "") and "Till"
        assert (await owner.submit(form)).status == 303
        after = await document(owner, path)
        page = await owner.submit(form)
        assert page.status == 303, (verb, page.text)
        assert await document(owner, path) == after
    assert notice_of(await owner.open(path)) == "Nothing has changed."
    secret_of(await owner.act(f"{path}/secrets/add", others_expire_in="kept"))
    first, second = await secret_ids(owner, path)
    for target, status in ((f"{path}/secrets/{first}/remove", 404), (f"{path}/delete", 404)):
        form, _ = await owner.form_of(target)
        assert (await owner.submit(form)).status == 303
        assert (await owner.submit(form)).status == status
        if target != f"{path}/delete":
            assert await secret_ids(owner, path) == [second]


@pytest.mark.parametrize("role", READERS)
async def test_others_see_applications_and_change_none(service: Service, owner: Console, role: str) -> None:
    """No buttons; forms by hand get 403, and nothing changes."""
    path = await added(owner)
    (secret,) = await secret_ids(owner, path)
    other = await console(service, role)
    listed, shown = await other.open(HERE), await other.open(path)
    assert "Corner shop" in main_of(listed)
    assert secret in main_of(shown)
    assert not [href for href in (*links(listed), *links(shown)) if re.search(r"/(add|remove)$", href)]
    assert not [href for href in links(shown) if href.endswith(ACTIONS)]
    before = await audited(service)
    for form in (f"{HERE}/add", f"{path}/secrets/{secret}/remove", *(f"{path}/{name}" for name in ACTIONS)):
        assert (await other.get(form)).status == 403, form
        page = await other.send(form, **SHOP)
        assert (page.status, f"Your role, {role}, may not do this." in page.text) == (403, True), form
    assert await audited(service) == before


async def test_operator_may_change_applications(service: Service) -> None:
    """Not only an owner."""
    operator = await console(service, "operator")
    path = await added(operator)
    assert (await operator.done(f"{path}/suspend")).startswith("Corner shop is suspended.")


async def test_pages_are_live_and_listed_by_state(owner: Console) -> None:
    """Active ones come first, by name; hints about applications update the pages."""
    second = await added(owner, name="Zebra")
    first = await added(owner, name="Ant")
    await owner.done(f"{first}/suspend")
    page = await owner.open(HERE)
    own = [href for href in links(page) if href in (first, second)]
    assert own == [second, first]
    assert [given["data-live"] for _, given in page.tags if "data-live" in given] == ["applications"]
    (live,) = [given["data-live"] for _, given in (await owner.open(first)).tags if "data-live" in given]
    assert f"applications:{first.rpartition('/')[2]}" in live.split()
    assert "Zebra" in await owner.live(HERE)
    assert "There are no further applications" in main_of(await owner.open(f"{HERE}?after={10**17}"))


async def test_names_of_applications_lead_to_their_pages(service: Service, owner: Console) -> None:
    """From an order, a subscription, a search, and the audit trail."""
    client_id = str(service.scene.application.application_id)
    path, order_id = f"{HERE}/{client_id}", (await service.create(await service.terminal())).body["id"]
    subscription, _ = await subscribe(service.database, "https://9.9.9.9/hook", application_id=int(client_id))
    for page in (f"/console/orders/{order_id}", f"/console/webhooks/subscriptions/{subscription}", "/console/webhooks"):
        assert path in links(await owner.open(page)), page
    assert f"/console/webhooks/subscriptions/{subscription}" in links(await owner.open(path))
    found = await owner.get(f"/console/search?{urllib.parse.urlencode({'q': client_id})}")
    assert path in (found.location if found.status == 303 else links(found))
    await owner.done(f"{path}/suspend")
    assert path in links(await owner.open("/console/audit"))
    await owner.open(f"{HERE}/12345", 404)
