"""Sellers over the operator interface: read, changed, suspended, and their passwords."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from accounts import other_application, other_seller
from operator_calls import Operator, audited, operator
from paydesk.core.secrets import Secret
from paydesk.engine.invariants import check
from paydesk.engine.sellers import passwords
from paydesk.engine.sellers.sessions import SELLERS
from paydesk.platform.storage.database import Transaction
from service import Service
from tables import each

IDLE_MS = 1_800_000
SELLER = {"email": "Ana@Shop.example", "name": "Ana", "country": "ARG", "currency": "ARS"}


async def registered(owner: Operator, email: str = "Ana@Shop.example") -> dict[str, Any]:
    """Return a new seller without the generated password."""
    made = await owner.did("POST", "sellers", {**SELLER, "email": email})
    assert len(made.pop("password")) == 24
    return made


async def signs_in(service: Service, email: str, password: str) -> bool:
    """Return whether the password is valid for signing in."""
    found = await service.database.read(lambda tx: SELLERS.find(tx, email))
    return await passwords.verify_password(found.password_hash if found else None, password)


async def signed_in(service: Service, seller_id: int) -> str:
    """Begin a session of the seller and return its cookie."""
    now_ms = service.clock.now_ms()

    async def work(tx: Transaction) -> Secret | None:
        row = await tx.one("SELECT password FROM sellers WHERE seller_id = $1", seller_id)
        assert row is not None
        return await SELLERS.begin(tx, seller_id, password_hash=row[0], now_ms=now_ms, expires_ms=now_ms + 3_600_000)

    cookie = await service.database.write(work)
    assert cookie is not None
    return cookie.reveal()


async def is_signed_in(service: Service, cookie: str) -> bool:
    """Return whether the session is valid."""
    now_ms = service.clock.now_ms()
    return await service.database.write(lambda tx: SELLERS.current(tx, cookie, now_ms, idle_ms=IDLE_MS)) is not None


async def test_patch_changes_only_the_fields_sent(service: Service) -> None:
    """Each change is audited with before and after; a change to the same value is not audited."""
    owner = await operator(service)
    made = await registered(owner)
    path = f"sellers/{made['user_id']}"
    assert await owner.did("GET", path) == made
    renamed = await owner.did("PATCH", path, {"name": "Ana María"})
    assert renamed == {**made, "name": "Ana María"}
    moved = await owner.did("PATCH", path, {"email": "ANA@other.example"})
    assert moved == {**renamed, "email": "ana@other.example"}
    assert await owner.did("PATCH", path, {"email": "Ana@Other.example", "name": "Ana María"}) == moved
    assert await owner.did("GET", path) == moved
    lines = (await audited(service))[1:]
    assert [(line.action, line.subject, line.before, line.after) for line in lines] == [
        ("sellers.change", str(made["user_id"]), made, renamed),
        ("sellers.change", str(made["user_id"]), renamed, moved),
    ]


async def test_email_is_unique(service: Service) -> None:
    """The comparison ignores case; an address is free again after its seller changed it."""
    owner = await operator(service)
    ana, bea = await registered(owner), await registered(owner, "bea@shop.example")
    path = f"sellers/{bea['user_id']}"
    taken = await owner.ask("PATCH", path, {"email": "ANA@shop.example", "name": "Not stored"})
    assert (taken.status, taken.code) == (409, "email_taken")
    assert taken.details == ["'$.email' - must not be another seller's"]
    assert await owner.did("GET", path) == bea
    await owner.did("PATCH", f"sellers/{ana['user_id']}", {"email": "ana@other.example"})
    assert (await owner.did("PATCH", path, {"email": "ANA@shop.example"}))["email"] == "ana@shop.example"


@pytest.mark.on_postgres
async def test_concurrent_requests_for_one_email_have_one_winner(service: Service) -> None:
    """Changes and a registration at once; the others return 409."""
    owner = await operator(service)
    made = [await registered(owner, f"seller{number}@shop.example") for number in range(4)]
    count = len((await owner.did("GET", "sellers"))["data"])
    wanted = "wanted@shop.example"
    requests = [owner.ask("PATCH", f"sellers/{one['user_id']}", {"email": wanted}) for one in made]
    requests += [owner.ask("POST", "sellers", {**SELLER, "email": wanted, "password": "long enough for this"})]
    replies = await asyncio.gather(*requests)
    assert sorted(reply.status for reply in replies)[1:] == [409] * 4
    assert {reply.code for reply in replies if reply.status == 409} == {"email_taken"}
    listed = (await owner.did("GET", "sellers"))["data"]
    assert [one["email"] for one in listed].count(wanted) == 1
    assert len(listed) == count + sum(reply.status == 201 for reply in replies)
    assert min(one["user_id"] for one in listed) > 0


async def test_concurrent_changes_of_different_fields_all_apply(service: Service) -> None:
    """Two concurrent requests change one field each, five times."""
    owner = await operator(service)
    path = f"sellers/{(await registered(owner))['user_id']}"
    for number in range(5):
        name, email = f"Ana {number}", f"ana{number}@shop.example"
        await asyncio.gather(*(owner.did("PATCH", path, change) for change in ({"name": name}, {"email": email})))
        seen = await owner.did("GET", path)
        assert (seen["name"], seen["email"]) == (name, email)


async def test_password_is_replaced(service: Service) -> None:
    """A generated password is returned, a given one is not; the previous one is refused."""
    owner = await operator(service)
    path, email = f"sellers/{(await registered(owner))['user_id']}", "ana@shop.example"
    first = await owner.did("POST", f"{path}/password")
    assert await signs_in(service, email, first["password"])
    given = "correct horse battery staple"
    second = await owner.ask("POST", f"{path}/password", {"password": given})
    assert (second.status, "password" in second.body) == (200, False)
    assert await signs_in(service, email, given)
    assert not await signs_in(service, email, first["password"])
    lines = [line for line in await audited(service) if line.action == "sellers.password"]
    assert [(line.subject, line.before, line.after) for line in lines] == [(path.rpartition("/")[2], None, None)] * 2


async def test_password_and_suspension_end_signed_in_sessions(service: Service) -> None:
    """All sessions of the seller end permanently, and no session of another seller."""
    owner = await operator(service)
    ana, bea = await registered(owner), await registered(owner, "bea@shop.example")
    path, other = f"sellers/{ana['user_id']}", await signed_in(service, bea["user_id"])
    for act in ("password", "suspend"):
        cookies = [await signed_in(service, ana["user_id"]) for _ in range(2)]
        await owner.did("PATCH", path, {"name": f"Ana before {act}"})
        assert [await is_signed_in(service, cookie) for cookie in cookies] == [True, True]
        await owner.did("POST", f"{path}/{act}")
        assert [await is_signed_in(service, cookie) for cookie in cookies] == [False, False]
    await owner.did("POST", f"{path}/resume")
    assert [await is_signed_in(service, cookie) for cookie in (*cookies, other)] == [False, False, True]


COMMON = ("password1234", "P@ssw0rd1234", "passwordpassword", "aaaaaaaaaaaa", "Passw0rd!Passw0rd!", "minhasenha123",
          "Contraseña2024!", "Gabriel-19901231", "qwertyuiop123", "abcdefghijkl")  # fmt: skip


async def test_a_common_password_is_refused(service: Service) -> None:
    """At registration and later, with advice; nothing changes."""
    owner = await operator(service)
    made = await registered(owner)
    count = len((await owner.did("GET", "sellers"))["data"])
    for password in COMMON:
        for path, body in (
            (f"sellers/{made['user_id']}/password", {}),
            ("sellers", {**SELLER, "email": "b@b.example"}),
        ):
            refused = await owner.ask("POST", path, {**body, "password": password})
            assert (refused.status, refused.code) == (400, "property_value"), password
            assert refused.details[0].startswith("'$.password' - must not be a common word or name")
            assert "use several unrelated words" in refused.details[0]
            assert password.encode() not in refused.raw
    assert len((await owner.did("GET", "sellers"))["data"]) == count
    assert len(await audited(service)) == 1


async def test_a_password_with_few_letters_is_refused(service: Service) -> None:
    """The message names the rule."""
    owner = await operator(service)
    for password in ("123456789012", "Xk7-9912-8831-0042"):
        refused = await owner.ask("POST", "sellers", {**SELLER, "password": password})
        assert (refused.status, refused.code) == (400, "property_value")
        assert refused.details[0].startswith(
            "'$.password' - must contain at least 4 letters besides digits and symbols; use several unrelated words"
        )
    await owner.did("POST", "sellers", {**SELLER, "password": "Xkwq-9912-8831-0042"})


async def test_password_with_local_part_of_email_is_refused(service: Service) -> None:
    """The comparison ignores case; local parts of fewer than four characters are allowed."""
    owner = await operator(service)
    email = "Rosa.Lima@shop.example"
    for password in ("rosa.lima tomou banho", "x9x9 ROSA.LIMA x9x9", "meu-Rosa.Lima-2024"):
        new = await owner.ask("POST", "sellers", {**SELLER, "email": email, "password": password})
        assert (new.status, new.code) == (400, "property_value")
        assert "before the @" in new.details[0]
    made = await owner.did("POST", "sellers", {**SELLER, "email": email, "password": "rosa e lima no mercado"})
    path = f"sellers/{made['user_id']}"
    assert await owner.refused("POST", f"{path}/password", {"password": "x9x9 ROSA.LIMA x9x9"}) == (
        400,
        "property_value",
    )
    assert await signs_in(service, email, "rosa e lima no mercado")
    await owner.did("PATCH", path, {"email": "bea@shop.example"})
    await owner.did("POST", f"{path}/password", {"password": "a beast of a password"})


@pytest.mark.on_postgres
async def test_withdraw_all_ends_every_authorization_of_the_seller(service: Service) -> None:
    """Tokens are refused, each application is notified, the audit trail has the ids; other sellers are unaffected."""
    owner, path = await operator(service), f"sellers/{service.seller_id}/password"
    kiosk = await other_application(service)
    await service.scene.code()
    other = await other_seller(service)
    kept = await owner.did("POST", path)
    assert (kept["authorizations"], "withdrawn" in kept) == (5, False)
    assert (await service.request("GET", "/terminals/v1/list")).status == 200
    active = {one["id"] for one in (await owner.did("GET", f"grants?seller={service.seller_id}"))["data"]}
    ended = await owner.did("POST", path, {"withdraw_all": True, "password": "several words that are mine"})
    assert (ended["authorizations"], ended["withdrawn"], "password" in ended) == (0, 5, False)
    for one in (service, kiosk):
        assert (await one.request("GET", "/terminals/v1/list")).status == 401
    assert (await other.request("GET", "/terminals/v1/list")).status == 200
    listed = (await owner.did("GET", f"grants?seller={service.seller_id}"))["data"]
    assert all("withdrawn_date" in one for one in listed)
    again = await owner.did("POST", path, {"withdraw_all": True})
    assert (again["authorizations"], again["withdrawn"]) == (0, 0)
    events = "SELECT count(*) FROM application_events WHERE action = 'application.deauthorized' AND application_id = $1"
    assert await service.scene.value(events, service.scene.application.application_id) == 3
    assert await service.scene.value(events, kiosk.scene.application.application_id) == 2
    first, second, third = [line.after for line in await audited(service) if line.action == "sellers.password"]
    assert (first, third) == (None, {"withdrawn": []})
    assert sorted(second["withdrawn"]) == sorted(active)
    assert await check.check(service.database, service.clock.now_ms()) == []


async def test_invalid_change_returns_400_and_has_no_effect(service: Service) -> None:
    """The detail names the path; neither the seller nor the audit trail changes."""
    owner = await operator(service)
    made = await registered(owner)
    path = f"sellers/{made['user_id']}"
    wrong: list[tuple[str, str, Any, str, str]] = [
        ("PATCH", path, {}, "minimum_properties", "'$' - must have one of email, name"),
        ("PATCH", path, {"email": "ana"}, "property_value", "'$.email'"),
        ("PATCH", path, {"email": "a@b c"}, "property_value", "'$.email'"),
        ("PATCH", path, {"email": None}, "property_type", "'$.email'"),
        ("PATCH", path, {"email": "a@" + "b" * 253}, "property_value", "'$.email'"),
        ("PATCH", path, {"name": ""}, "property_value", "'$.name'"),
        ("PATCH", path, {"name": ["Ana"]}, "property_type", "'$.name'"),
        ("PATCH", path, {"currency": "BRL"}, "unsupported_properties", "'$.currency'"),
        ("PATCH", path, {"password": "long enough for this"}, "unsupported_properties", "'$.password'"),
        ("POST", f"{path}/password", {"password": "short"}, "property_value", "'$.password'"),
        ("POST", f"{path}/password", {"password": 123456789012}, "property_type", "'$.password'"),
        ("POST", f"{path}/password", {"password": "x" * 201}, "property_value", "'$.password'"),
        ("POST", f"{path}/password", {"withdraw_all": "yes"}, "property_type", "'$.withdraw_all'"),
    ]
    for method, where, body, code, detail in wrong:
        reply = await owner.ask(method, where, body)
        assert (reply.status, reply.code) == (400, code), body
        assert reply.details[0].startswith(detail), reply.details
        assert b"long enough" not in reply.raw
    assert await owner.did("GET", path) == made
    assert len(await audited(service)) == 1


async def test_suspended_seller_is_refused_until_resumed(service: Service) -> None:
    """Tokens are refused at once and accepted after `resume`; repeated calls are not audited."""
    owner, path = await operator(service), f"sellers/{service.seller_id}"
    assert (await service.request("GET", "/terminals/v1/list")).status == 200
    suspended = await owner.did("POST", f"{path}/suspend")
    assert await owner.did("POST", f"{path}/suspend") == suspended
    assert (await service.request("GET", "/terminals/v1/list")).status == 403
    resumed = await owner.did("POST", f"{path}/resume")
    assert await owner.did("POST", f"{path}/resume") == resumed
    assert "suspended_date" not in resumed
    assert (await service.request("GET", "/terminals/v1/list")).status == 200
    assert [line.action for line in await audited(service)] == ["sellers.suspend", "sellers.resume"]


async def test_support_cannot_change_sellers(service: Service) -> None:
    """Support reads; the role operator may make every change here."""
    support, other = await operator(service, "support"), await operator(service, "operator")
    path = f"sellers/{service.seller_id}"
    attempts: list[tuple[str, str, Any]] = [
        ("PATCH", path, {"name": "Mine"}),
        ("POST", f"{path}/password", {}),
        ("POST", f"{path}/suspend", None),
        ("POST", f"{path}/resume", None),
    ]
    seen = await support.did("GET", path)
    for method, where, body in attempts:
        assert await support.refused(method, where, body) == (403, "forbidden")
    assert await support.did("GET", path) == seen
    assert await audited(service) == []
    for method, where, body in attempts:
        await other.did(method, where, body)


@each("seller_id", ["-1", "x", "9" * 19])
async def test_malformed_seller_returns_400(owner: Operator, seller_id: str) -> None:
    """It is not asked for."""
    assert await owner.refused("GET", f"sellers/{seller_id}") == (400, "invalid_path_param")
