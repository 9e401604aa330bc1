"""Applications over the operator interface: read, changed, rotated, suspended."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from oauth_scene import REDIRECT_URI
from operator_calls import Operator, audited, operator
from page_scene import browser
from paydesk.core.clock import MovableClock
from paydesk.platform.storage.database import Database
from service import Reply, Service, running

URI, OTHER_URI = "https://shop.example/callback", "https://shop.example/other?from=pay"
APPLICATION = {"name": "Shop", "redirect_uris": [URI]}
HOUR_MS = 3_600_000


async def registered(owner: Operator) -> dict[str, Any]:
    """Return a new application with its secret."""
    return await owner.did("POST", "applications", APPLICATION)


async def asks_for_tokens(service: Service, client_id: str, secret: str) -> Reply:
    """Send an unknown code: `invalid_grant` means that the client was authenticated."""
    body = {
        "client_id": client_id,
        "client_secret": secret,
        "grant_type": "authorization_code",
        "code": f"TG-{'0' * 40}-{service.seller_id}",
        "redirect_uri": URI,
    }
    return await service.request("POST", "/oauth/token", body, token=None, key=None)


async def authenticates(service: Service, client_id: str, secret: str) -> bool:
    """Return whether the secret authenticates the application."""
    reply = await asks_for_tokens(service, client_id, secret)
    assert reply.code in ("invalid_grant", "invalid_client"), reply.body
    return reply.code == "invalid_grant"


async def test_get_returns_ids_and_dates_of_secrets(service: Service) -> None:
    """The application is as registered; a secret has its id and creation date only."""
    owner = await operator(service)
    made = await registered(owner)
    secret = made.pop("client_secret")
    seen = await owner.ask("GET", f"applications/{made['client_id']}")
    (secret_listed,) = seen.body.pop("secrets")
    assert seen.body == made
    assert set(secret_listed) == {"id", "created_date"}
    assert secret.encode() not in seen.raw


async def test_patch_changes_only_the_fields_sent(service: Service) -> None:
    """Each change is audited with before and after; a change to the same value is not audited."""
    owner = await operator(service)
    made = await registered(owner)
    made.pop("client_secret")
    path, expected = f"applications/{made['client_id']}", made
    for changes in (
        {"name": "Corner shop"},
        {"redirect_uris": [OTHER_URI, URI]},
        {"scopes": "write read"},
        {"pkce_required": True},
        {"on_replay": "refuse", "name": "Kiosk"},
        {"test_tokens": True},
        {"test_tokens": False},
    ):
        before, expected = expected, {**expected, **changes}
        expected["scopes"] = " ".join(sorted(expected["scopes"].split()))
        changed = await owner.did("PATCH", path, changes)
        assert {**changed, "secrets": []} == {**expected, "secrets": []}
        line = (await audited(service))[-1]
        assert (line.operator_id, line.action, line.subject) == (
            owner.operator_id,
            "applications.change",
            made["client_id"],
        )
        assert (line.before, line.after, line.address) == (before, expected, "127.0.0.1")
    lines = len(await audited(service))
    await owner.did("PATCH", path, {"name": "Kiosk"})
    assert len(await audited(service)) == lines


async def test_concurrent_changes_of_different_fields_all_apply(service: Service) -> None:
    """Three concurrent requests change one field each, ten times."""
    owner = await operator(service)
    path = f"applications/{(await registered(owner))['client_id']}"
    for number in range(10):
        uri = f"{URI}/{number}"
        changes: list[dict[str, Any]] = [
            {"name": f"Shop {number}"},
            {"redirect_uris": [uri]},
            {"pkce_required": number % 2 == 0},
        ]
        await asyncio.gather(*(owner.did("PATCH", path, change) for change in changes))
        seen = await owner.did("GET", path)
        assert (seen["name"], seen["redirect_uris"], seen["pkce_required"]) == (
            f"Shop {number}",
            [uri],
            number % 2 == 0,
        )


WRONG_CHANGES: list[tuple[Any, str, str]] = [
    (
        {},
        "minimum_properties",
        "'$' - must have one of name, redirect_uris, scopes, pkce_required, on_replay, test_tokens",
    ),
    ({"name": None}, "property_type", "'$.name'"),
    ({"name": "  "}, "property_value", "'$.name' - must not be blank"),
    ({"name": 1}, "property_type", "'$.name'"),
    ({"name": "x" * 101}, "property_value", "'$.name'"),
    ({"redirect_uris": []}, "minimum_items", "'$.redirect_uris'"),
    ({"redirect_uris": [URI, URI]}, "property_value", "'$.redirect_uris' - must name each address once"),
    (
        {"redirect_uris": [URI, f"{URI}?from=pay&code=1"]},
        "property_value",
        "'$.redirect_uris[1]' - must not have code in its query",
    ),
    ({"redirect_uris": [f"{URI}/{n}" for n in range(21)]}, "maximum_items", "'$.redirect_uris'"),
    ({"redirect_uris": URI}, "property_type", "'$.redirect_uris'"),
    ({"redirect_uris": [URI, "https://*.shop.example/"]}, "property_value", "'$.redirect_uris[1]'"),
    ({"scopes": "read admin"}, "property_value", "'$.scopes'"),
    ({"pkce_required": "yes"}, "property_type", "'$.pkce_required'"),
    ({"on_replay": "ignore"}, "property_value", "'$.on_replay'"),
    ({"test_tokens": "on"}, "property_type", "'$.test_tokens'"),
    ({"test_tokens": 1}, "property_type", "'$.test_tokens'"),
    ({"test_tokens": None}, "property_type", "'$.test_tokens'"),
    ({"client_id": "1"}, "unsupported_properties", "'$.client_id'"),
    ({"client_secret": "mine"}, "unsupported_properties", "'$.client_secret'"),
    ([], "property_type", "'$'"),
]


async def test_invalid_change_returns_400_and_has_no_effect(service: Service) -> None:
    """The detail names the path; neither the application nor the audit trail changes."""
    owner = await operator(service)
    path = f"applications/{(await registered(owner))['client_id']}"
    before = await owner.did("GET", path)
    for changes, code, detail in WRONG_CHANGES:
        reply = await owner.ask("PATCH", path, changes)
        assert (reply.status, reply.code) == (400, code), changes
        assert reply.details[0].startswith(detail), reply.details
    assert await owner.did("GET", path) == before
    assert len(await audited(service)) == 1


async def test_registered_uri_with_reserved_parameter_keeps_working(service: Service) -> None:
    """Consents and other changes succeed; the URI is refused when the list of URIs is sent again."""
    owner, seller = await operator(service), await browser(service)
    path = f"applications/{service.scene.application.application_id}"
    address = f"{REDIRECT_URI}?state=shop-7"
    await service.scene.run(
        "UPDATE applications SET redirect_uris = $2 WHERE application_id = $1",
        service.scene.application.application_id,
        json.dumps([address]),
    )
    agreed = await seller.submit(await seller.consent(redirect_uri=address, state=""), decision="agree")
    assert agreed.location.startswith(f"{address}&")
    body = {**service.scene.exchange(agreed.query["code"]), "redirect_uri": address}
    assert (await service.request("POST", "/oauth/token", body, token=None, key=None)).status == 200
    assert (await owner.did("PATCH", path, {"name": "Till 2"}))["redirect_uris"] == [address]
    assert await owner.refused("PATCH", path, {"redirect_uris": [address, URI]}) == (400, "property_value")


async def test_loopback_uris_are_accepted_in_development_only(database: Database) -> None:
    """Plain http to this machine is refused in production."""
    uris = ["http://127.0.0.1:3000/cb", "http://localhost/cb", "http://[::1]:3000/cb"]
    async with running(database, workers=False) as service:
        owner = await operator(service)
        for uri in uris:
            reply = await owner.ask("POST", "applications", {"name": "Till", "redirect_uris": [uri]})
            assert (reply.status, reply.code) == (400, "property_value")
            assert "`paydesk dev`" in reply.details[0]
    async with running(database, workers=False, development=True) as service:
        owner = await operator(service)
        made = await owner.did("POST", "applications", {"name": "Till", "redirect_uris": uris})
        assert made["redirect_uris"] == uris


async def test_old_secret_stays_valid_for_the_overlap(database: Database) -> None:
    """Both secrets are valid for the overlap, then only the new one; the audit trail contains neither."""
    clock = MovableClock()
    async with running(database, clock=clock, workers=False) as service:
        owner = await operator(service)
        made = await registered(owner)
        client_id, first = made["client_id"], made["client_secret"]
        added = await owner.did("POST", f"applications/{client_id}/secrets", {"others_expire_in": "24h"})
        second = added["client_secret"]
        assert [one["id"] for one in added["secrets"]][1] == added["id"]
        assert ["expires_date" in one for one in added["secrets"]] == [True, False]
        assert (await owner.did("GET", f"applications/{client_id}"))["secrets"] == added["secrets"]
        assert await authenticates(service, client_id, first)
        assert await authenticates(service, client_id, second)
        clock.advance(24 * HOUR_MS)
        assert not await authenticates(service, client_id, first)
        assert await authenticates(service, client_id, second)
        third = await owner.did("POST", f"applications/{client_id}/secrets", {"others_expire_in": "0s"})
        assert [one["id"] for one in third["secrets"]] == [third["id"]], "expired secrets are deleted"
        assert not await authenticates(service, client_id, second)
        assert await authenticates(service, client_id, third["client_secret"])
        lines = (await audited(service))[1:]
        assert [(line.action, line.subject) for line in lines] == [("applications.secrets.add", client_id)] * 2
        assert [len(line.before["secrets"]) for line in lines] == [1, 2]
        assert all(line.before["secrets"] != line.after["secrets"] for line in lines)
        rows = await service.database.read(lambda tx: tx.all("SELECT before, after FROM operator_audit"))
        assert not any(secret in str([list(row) for row in rows]) for secret in (first, second))


@pytest.mark.on_postgres
async def test_rotation_without_overlap_keeps_other_secrets(service: Service) -> None:
    """The body is optional; a second rotation never extends an earlier expiry."""
    owner = await operator(service)
    made = await registered(owner)
    path = f"applications/{made['client_id']}/secrets"
    added = await owner.did("POST", path)
    assert not any("expires_date" in one for one in added["secrets"])
    soon = (await owner.did("POST", path, {"others_expire_in": "1h"}))["secrets"]
    later = (await owner.did("POST", path, {"others_expire_in": "7d"}))["secrets"]
    assert later[:2] == soon[:2]
    assert "expires_date" in later[2]


async def test_invalid_overlap_returns_400(service: Service) -> None:
    """The detail names the field, and no secret is created."""
    owner = await operator(service)
    path = f"applications/{(await registered(owner))['client_id']}"
    wrong: list[Any] = ["", "soon", "24", "-1h", "1w", "91d", "PT", 3600, None, "٣h"]
    for overlap in wrong:
        reply = await owner.ask("POST", f"{path}/secrets", {"others_expire_in": overlap})
        assert reply.status == 400, overlap
        assert reply.details[0].startswith("'$.others_expire_in'")
    assert len((await owner.did("GET", path))["secrets"]) == 1


async def test_concurrent_secrets_are_limited_to_five(service: Service) -> None:
    """Of twelve concurrent requests four succeed; removing a secret allows another one."""
    owner = await operator(service)
    path = f"applications/{(await registered(owner))['client_id']}"
    replies = await asyncio.gather(*(owner.ask("POST", f"{path}/secrets", {}) for _ in range(12)))
    assert sorted(reply.status for reply in replies) == [201] * 4 + [409] * 8
    assert {reply.code for reply in replies if reply.status == 409} == {"too_many_secrets"}
    secrets = (await owner.did("GET", path))["secrets"]
    assert len(secrets) == 5
    await owner.did("DELETE", f"{path}/secrets/{secrets[0]['id']}")
    await owner.did("POST", f"{path}/secrets")


async def test_removed_secret_is_refused_at_once(service: Service) -> None:
    """Also while its authentication is cached, and also the last one; removing it twice returns 404."""
    owner = await operator(service)
    made = await registered(owner)
    client_id, path = made["client_id"], f"applications/{made['client_id']}"
    second = await owner.did("POST", f"{path}/secrets")
    assert await authenticates(service, client_id, made["client_secret"])
    first_id = second["secrets"][0]["id"]
    left = await owner.did("DELETE", f"{path}/secrets/{first_id.lower()}")
    assert [one["id"] for one in left["secrets"]] == [second["id"]]
    assert not await authenticates(service, client_id, made["client_secret"])
    assert await authenticates(service, client_id, second["client_secret"])
    assert await owner.refused("DELETE", f"{path}/secrets/{first_id}") == (404, "secret_not_found")
    assert (await owner.did("DELETE", f"{path}/secrets/{second['id']}"))["secrets"] == []
    assert not await authenticates(service, client_id, second["client_secret"])
    again = await owner.did("POST", f"{path}/secrets")
    assert await authenticates(service, client_id, again["client_secret"])
    actions = [line.action for line in await audited(service)]
    assert actions.count("applications.secrets.remove") == 2


async def test_secret_of_another_application_returns_404(service: Service) -> None:
    """The secret stays valid."""
    owner = await operator(service)
    one, other = [await registered(owner) for _ in range(2)]
    secret_id = (await owner.did("GET", f"applications/{one['client_id']}"))["secrets"][0]["id"]
    path = f"applications/{other['client_id']}/secrets/{secret_id}"
    assert await owner.refused("DELETE", path) == (404, "secret_not_found")
    assert await authenticates(service, one["client_id"], one["client_secret"])


async def test_suspended_application_is_refused_until_resumed(service: Service) -> None:
    """Its tokens are refused at once and accepted after `resume`; repeated calls are not audited."""
    owner = await operator(service)
    path, secret = f"applications/{service.scene.application.application_id}", service.scene.secret
    client_id = path.rpartition("/")[2]
    assert (await service.request("GET", "/terminals/v1/list")).status == 200
    suspended = await owner.did("POST", f"{path}/suspend")
    assert await owner.did("POST", f"{path}/suspend") == suspended
    assert (await service.request("GET", "/terminals/v1/list")).status == 403
    refused = await asks_for_tokens(service, client_id, secret)
    assert (refused.status, refused.code) == (400, "forbidden")
    resumed = await owner.did("POST", f"{path}/resume")
    assert await owner.did("POST", f"{path}/resume") == resumed
    assert "suspended_date" not in resumed
    assert (await service.request("GET", "/terminals/v1/list")).status == 200
    assert await authenticates(service, client_id, secret)
    lines = await audited(service)
    assert [line.action for line in lines] == ["applications.suspend", "applications.resume"]
    assert "suspended_date" in lines[0].after
    assert lines[0].before == lines[1].after


async def test_code_for_removed_redirect_uri_is_refused(service: Service) -> None:
    """The code is accepted again when the URI is restored."""
    owner, scene = await operator(service), service.scene
    path = f"applications/{scene.application.application_id}"
    clock = MovableClock()
    scene.clock = clock
    # The node has the application in its cache when the URI is removed.
    used = scene.exchange(await scene.code())
    assert (await service.request("POST", "/oauth/token", used, token=None)).status == 200
    exchange = scene.exchange(await scene.code())
    await owner.did("PATCH", path, {"redirect_uris": [OTHER_URI]})
    refused = await service.request("POST", "/oauth/token", exchange, token=None)
    assert (refused.status, refused.code) == (400, "invalid_grant")
    await owner.did("PATCH", path, {"redirect_uris": [*scene.application.redirect_uris]})
    assert (await service.request("POST", "/oauth/token", exchange, token=None)).status == 200


async def test_support_cannot_change_applications(service: Service) -> None:
    """Support reads; the role operator may make every change here."""
    owner, support, other = [await operator(service, role) for role in ("owner", "support", "operator")]
    path = f"applications/{(await registered(owner))['client_id']}"
    seen = await support.did("GET", path)
    secret_id = seen["secrets"][0]["id"]
    attempts: list[tuple[str, str, Any]] = [
        ("PATCH", path, {"name": "Mine"}),
        ("POST", f"{path}/secrets", {}),
        ("POST", f"{path}/suspend", None),
        ("POST", f"{path}/resume", None),
        ("DELETE", f"{path}/secrets/{secret_id}", None),
    ]
    for method, where, body in attempts:
        assert await support.refused(method, where, body) == (403, "forbidden")
    assert await support.did("GET", path) == seen
    assert len(await audited(service)) == 1
    for method, where, body in attempts:
        await other.did(method, where, body)


async def test_malformed_application_returns_400(service: Service) -> None:
    """One of a secret that cannot exist is unknown; a method that no operation has returns 405."""
    owner, unknown = await operator(service), "1" * 16
    path = "applications/x/secrets/01J67CQQH5904WDBVZEM4JMEP3"
    assert await owner.refused("DELETE", path) == (404, "application_not_found")
    for method, path in (
        ("GET", "applications/x"),
        ("GET", "applications/" + "1" * 19),
        ("GET", "applications/%D9%A3"),
        ("DELETE", f"applications/{unknown}/secrets/1"),
        ("POST", "applications/x/secrets"),
    ):
        assert await owner.refused(method, path) == (400, "invalid_path_param"), path
    assert await owner.refused("PUT", f"applications/{unknown}", {}) == (405, "method_not_allowed")
    assert await audited(service) == []


@pytest.mark.on_postgres
async def test_audit_trail_has_canonical_ids(service: Service) -> None:
    """Leading zeros in a path do not reach the audit trail."""
    owner = await operator(service)
    made = await registered(owner)
    path, seller_path = f"applications/00{made['client_id']}", f"sellers/00{service.seller_id}"
    added = await owner.did("POST", f"{path}/secrets", {})
    await owner.did("DELETE", f"{path}/secrets/{added['id']}")
    await owner.did("PATCH", path, {"name": "Other"})
    await owner.did("POST", f"{path}/suspend")
    await owner.did("PATCH", seller_path, {"name": "Other"})
    await owner.did("POST", f"{seller_path}/password", {})
    await owner.did("POST", f"{seller_path}/suspend")
    subjects = sorted(line.subject for line in (await audited(service))[1:])
    assert subjects == sorted([made["client_id"]] * 4 + [str(service.seller_id)] * 3)
