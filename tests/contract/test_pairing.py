"""Pairing over HTTP: a terminal asks for codes, an operator approves one, and the terminal gets its device token."""

from __future__ import annotations

import re
from typing import Any

import pytest

from accounts import other_seller
from operator_calls import Operator, audited, operator
from pairing_scene import MODEL, ask_to_pair, pair, poll, send
from paydesk.core.clock import MovableClock
from paydesk.core.keys import Keys
from paydesk.core.secrets import digest
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from service import KEYS, Service, Terminal, approved, running
from tables import each

PAIRED = "NEWLAND_N950__N950-1"
OTHER_KEYS = Keys(2, {2: b"o" * 32})
SAME_VERSION = Keys(1, {1: b"o" * 32})


async def refused(service: Service, codes: dict[str, Any]) -> tuple[int, str]:
    """Return status and code of a poll that must be refused."""
    reply = await poll(service, codes)
    return reply.status, reply.code


def path_of(codes: dict[str, Any]) -> str:
    """Return the path of the pairing for operators."""
    return f"pairings/{codes['user_code']}"


async def test_terminal_is_paired_with_a_code(service: Service, owner: Operator) -> None:
    """The operator sees what asks to be paired. The token is returned until its first use."""
    codes = await ask_to_pair(service, PAIRED)
    assert (codes["expires_in"], codes["interval"], "verification_uri" in codes) == (300, 3, False)
    assert await refused(service, codes) == (400, "authorization_pending")
    seen = await owner.did("GET", path_of(codes))
    assert seen.pop("expires_date")
    assert seen == {
        "model": MODEL,
        "serial": "N950-1",
        "terminal_id": PAIRED,
        "address": "127.0.0.1",
        "paired": False,
    }
    made = await owner.did("POST", path_of(codes), {"seller_id": service.seller_id})
    assert (made["id"], made["kind"], made["live_mode"]) == (PAIRED, "terminal", True)
    assert made["operating_mode"] == "UNDEFINED"
    assert (await owner.did("GET", "terminals"))["data"] == [made]
    first, second = [await poll(service, codes) for _ in range(2)]
    assert (first.status, first.headers["Cache-Control"]) == (200, "no-store")
    assert first.body == second.body
    assert first.body["terminal_id"] == made["id"]
    token = first.body["device_token"]
    assert re.fullmatch(f"PDT-[0-9a-f]{{40}}-{service.seller_id}", token)
    await service.device(Terminal(made["id"], token))
    assert await refused(service, codes) == (400, "expired_token")
    assert await owner.refused("GET", path_of(codes)) == (404, "pairing_not_found")
    (line,) = await audited(service)
    assert (line.action, line.subject, line.after["address"]) == ("pairings.approve", PAIRED, "127.0.0.1")
    place = {name: made[name] for name in ("seller_id", "store_id", "pos_id", "operating_mode", "kind")}
    assert {"id": PAIRED, **place}.items() <= line.after["terminal"].items()
    for secret in (token, codes["device_code"], codes["user_code"]):
        assert secret not in str(line)


async def test_codes_and_tokens_are_stored_as_digests(service: Service, owner: Operator) -> None:
    """Neither code is in the table, nor is the token in any."""
    codes = await ask_to_pair(service)
    await owner.did("POST", path_of(codes), {"seller_id": service.seller_id})
    token = (await poll(service, codes)).body["device_token"]
    rows = [
        *await service.database.read(lambda tx: tx.all("SELECT * FROM pairings")),
        *await service.database.read(lambda tx: tx.all("SELECT * FROM device_tokens")),
    ]
    stored = {value for row in rows for value in row}
    assert not {codes["device_code"], codes["user_code"], codes["user_code"].replace("-", ""), token} & stored
    assert {digest(codes["device_code"]), digest(codes["user_code"]), digest(token)} <= stored


@pytest.mark.on_postgres
async def test_denied_pairing_ends(service: Service, owner: Operator) -> None:
    """The terminal gets `access_denied`; the code can't be used any more."""
    codes = await ask_to_pair(service, PAIRED)
    assert (await owner.ask("DELETE", path_of(codes))).status == 204
    assert await refused(service, codes) == (400, "access_denied")
    for method, body in (("GET", None), ("POST", {"seller_id": service.seller_id}), ("DELETE", None)):
        assert await owner.refused(method, path_of(codes), body) == (404, "pairing_not_found")
    assert [(line.action, line.subject) for line in await audited(service)] == [("pairings.deny", PAIRED)]


async def test_user_code_is_accepted_however_it_is_typed(service: Service, owner: Operator) -> None:
    """In lower case, without the hyphen, with a blank; anything else is malformed."""
    codes = await ask_to_pair(service)
    letters = codes["user_code"].replace("-", "")
    for typed in (codes["user_code"].lower(), letters, letters.lower(), f"{letters[:4]}%20{letters[4:]}"):
        assert (await owner.did("GET", f"pairings/{typed}"))["model"] == MODEL
    for typed in ("BCDF-GHJ", "ABCD-FGHJ", f"{letters}B", "token"):
        assert await owner.refused("GET", f"pairings/{typed}") == (400, "invalid_path_param")


async def test_pending_poll_that_comes_too_early_gets_slow_down(service: Service, owner: Operator) -> None:
    """But an approval is answered at once."""
    codes = await ask_to_pair(service)
    answers = [await refused(service, codes) for _ in range(3)]
    assert answers == [(400, "authorization_pending"), (400, "slow_down"), (400, "slow_down")]
    await owner.did("POST", path_of(codes), {"seller_id": service.seller_id})
    assert (await poll(service, codes)).status == 200


@pytest.mark.on_postgres
async def test_codes_expire(database: Database) -> None:
    """After five minutes for both sides. An approved pairing has ten minutes more to fetch its token."""
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        owner = await operator(service)
        pending, approved_late, denied = [await ask_to_pair(service) for _ in range(3)]
        await owner.ask("DELETE", path_of(denied))
        clock.advance(299_999)
        await owner.did("POST", path_of(approved_late), {"seller_id": service.seller_id})
        assert await refused(service, pending) == (400, "authorization_pending")
        clock.advance(1)
        for codes in (pending, denied):
            assert await refused(service, codes) == (400, "expired_token")
        body = {"seller_id": service.seller_id}
        assert await owner.refused("POST", path_of(pending), body) == (404, "pairing_not_found")
        clock.advance(599_998)
        assert (await poll(service, approved_late)).status == 200
        clock.advance(1)
        assert await refused(service, approved_late) == (400, "expired_token")


async def test_place_and_kind_are_chosen(service: Service, owner: Operator) -> None:
    """By default a point of sale named after the terminal, in the seller's first store, which is made if needed."""
    first = await pair(service, owner, PAIRED)
    (made,) = (await owner.did("GET", "terminals"))["data"]
    (shop,) = (await owner.did("GET", "stores"))["data"]
    (pos,) = (await owner.did("GET", "pos"))["data"]
    assert (shop["name"], pos["external_pos_id"], pos["name"]) == ("Store", first.id, first.id)
    assert (made["store_id"], made["pos_id"]) == (shop["store_id"], pos["pos_id"])
    other = await owner.did("POST", "stores", {"seller_id": service.seller_id, "name": "Other"})
    chosen = {"store_id": other["store_id"], "kind": "service", "live_mode": False}
    await pair(service, owner, "M__B", **chosen)
    await pair(service, owner, "M__C", pos_id=pos["pos_id"])
    listed = {one["id"]: one for one in (await owner.did("GET", "terminals"))["data"]}
    assert listed["M__C"]["pos_id"] == pos["pos_id"]
    assert {name: listed["M__B"][name] for name in chosen} == chosen


async def test_invalid_place_is_refused_and_changes_nothing(service: Service, owner: Operator) -> None:
    """Also the code: it can be used afterwards."""
    foreign = await other_seller(service)
    theirs = await foreign.terminal()
    codes = await ask_to_pair(service, PAIRED)
    their_pos = (await owner.did("GET", f"terminals?seller={foreign.seller_id}"))["data"][0]["pos_id"]
    mine = await owner.did("POST", "stores", {"seller_id": service.seller_id, "name": "Shop"})
    my_other = await owner.did("POST", "stores", {"seller_id": service.seller_id, "name": "Other"})
    till = await owner.did(
        "POST", "pos", {"seller_id": service.seller_id, "store_id": mine["store_id"], "external_pos_id": "T1"}
    )
    for body, answer in (
        ({"seller_id": 1}, (404, "seller_not_found")),
        ({"store_id": 1}, (404, "store_not_found")),
        ({"pos_id": their_pos}, (404, "pos_not_found")),
        ({"pos_id": till["pos_id"], "store_id": my_other["store_id"]}, (400, "property_value")),
        ({"kind": "virtual"}, (400, "property_value")),
        ({"replace": "yes"}, (400, "property_type")),
        ({"device_token": "PDT-1"}, (400, "unsupported_properties")),
    ):
        asked = {"seller_id": service.seller_id, **body}
        assert await owner.refused("POST", path_of(codes), asked) == answer, body
    assert [one["id"] for one in (await owner.did("GET", "terminals"))["data"]] == [theirs.id]
    assert await refused(service, codes) == (400, "authorization_pending")
    assert await owner.did("POST", path_of(codes), {"seller_id": service.seller_id, "pos_id": till["pos_id"]})


async def test_virtual_terminal_is_always_test(service: Service, owner: Operator) -> None:
    """A live one is refused; without `live_mode` it is a test terminal."""
    codes = await ask_to_pair(service, "PAYDESK_VIRTUAL__ab12")
    live = await owner.ask("POST", path_of(codes), {"seller_id": service.seller_id, "live_mode": True})
    assert (live.status, live.code, live.details[0][:13]) == (400, "property_value", "'$.live_mode'")
    made = await owner.did("POST", path_of(codes), {"seller_id": service.seller_id})
    assert (made["id"], made["live_mode"]) == ("PAYDESK_VIRTUAL__ab12", False)


@pytest.mark.on_postgres
async def test_pairing_anew_replaces_the_token(service: Service, owner: Operator) -> None:
    """Only with `replace` and without a live order. What is not sent stays, but the mode; sessions go on."""
    before = await pair(service, owner, PAIRED, kind="service", live_mode=False)
    place = (await owner.did("GET", "terminals"))["data"][0]
    await owner.did("PATCH", f"terminals/{PAIRED}", {"operating_mode": "PDV"})
    device = await service.device(before)
    codes = await ask_to_pair(service, PAIRED)
    assert (await owner.did("GET", path_of(codes)))["paired"]
    body = {"seller_id": service.seller_id}
    assert await owner.refused("POST", path_of(codes), body) == (409, "terminal_already_paired")
    order_id = (await service.create(before)).body["id"]
    busy = await owner.ask("POST", path_of(codes), {**body, "replace": True})
    assert (busy.status, busy.code, order_id in busy.details[0]) == (409, "in_use", True)
    assert (await service.cancel(order_id)).status == 200
    made = await owner.did("POST", path_of(codes), {**body, "replace": True})
    assert made == {**place, "operating_mode": "UNDEFINED", "app_version": made["app_version"]}
    after = Terminal(made["id"], (await poll(service, codes)).body["device_token"])
    assert after.token != before.token
    assert (await device.next(0)).status == 401
    await service.device(after)


async def test_terminal_of_another_seller_must_be_deleted_there(service: Service, owner: Operator) -> None:
    """The error says so, `replace` or not; afterwards it can be paired."""
    theirs = (await (await other_seller(service)).terminal()).id
    codes = await ask_to_pair(service, theirs)
    for replace in (False, True):
        reply = await owner.ask("POST", path_of(codes), {"seller_id": service.seller_id, "replace": replace})
        assert (reply.status, reply.code) == (409, "terminal_already_paired")
        assert "paydesk terminals delete" in reply.details[0]
    assert (await owner.ask("DELETE", f"terminals/{theirs}")).status == 204
    assert (await owner.did("POST", path_of(codes), {"seller_id": service.seller_id}))["id"] == theirs


@each(
    "body, code, path",
    [
        ({}, "minimum_properties", "'$'"),
        ({"model": "N950"}, "required_properties", "'$.serial'"),
        ({"model": "n950", "serial": "1"}, "property_value", "'$.model'"),
        ({"model": "A__B", "serial": "1"}, "property_value", "'$.model'"),
        ({"model": "A" * 41, "serial": "1"}, "property_value", "'$.model'"),
        ({"model": "A", "serial": "1" * 31}, "property_value", "'$.serial'"),
        ({"model": "A", "serial": "1/2"}, "property_value", "'$.serial'"),
        ({"model": "A", "serial": ""}, "property_value", "'$.serial'"),
        ({"model": "A", "serial": 1}, "property_type", "'$.serial'"),
        ({"model": "A", "serial": "1", "seller_id": 1}, "unsupported_properties", "'$.seller_id'"),
    ],
)
async def test_invalid_request_is_refused(service: Service, body: Any, code: str, path: str) -> None:
    """With the path of the field; no row is inserted."""
    reply = await send(service, "", body)
    assert (reply.status, reply.code) == (400, code)
    assert reply.details[0].startswith(path)
    assert await service.scene.value("SELECT COUNT(*) FROM pairings") == 0


async def test_verification_uri_is_configured(database: Database) -> None:
    """It is where a person types the code."""
    settings = Settings(operator_public_url="https://pay.example")
    async with running(database, settings=settings, workers=False) as service:
        assert (await ask_to_pair(service))["verification_uri"] == "https://pay.example/console/pair"


@pytest.mark.parametrize("keys", [OTHER_KEYS, SAME_VERSION])
async def test_node_without_the_key_answers_503(database: Database, keys: Keys) -> None:
    """Another node may have it; the pairing stays as it is."""
    async with running(database, workers=False, keys=KEYS) as service:
        owner = await operator(service)
        codes = await ask_to_pair(service)
        await owner.did("POST", path_of(codes), {"seller_id": service.seller_id})
        async with running(database, workers=False, keys=keys) as other:
            assert await refused(other, codes) == (503, "service_unavailable")
        assert (await poll(service, codes)).status == 200


async def test_support_sees_pairings_and_decides_none(service: Service) -> None:
    """The code stays usable."""
    support = await operator(service, "support")
    codes = await ask_to_pair(service)
    await support.did("GET", path_of(codes))
    for method, body in (("POST", {"seller_id": service.seller_id}), ("DELETE", None)):
        assert await support.refused(method, path_of(codes), body) == (403, "forbidden")
    assert await refused(service, codes) == (400, "authorization_pending")


@pytest.mark.on_postgres
async def test_replaced_token_may_report_results(service: Service, owner: Operator) -> None:
    """A late result of its own lease is recorded, and nothing else is accepted."""
    before = await pair(service, owner, PAIRED, live_mode=False)
    await owner.did("PATCH", f"terminals/{PAIRED}", {"operating_mode": "PDV"})
    device = await service.device(before)
    order_id = (await service.create(before)).body["id"]
    assert (await device.ack(order_id[3:])).status == 200
    assert (await device.result(order_id[3:], outcome="canceled")).status == 200
    codes = await ask_to_pair(service, PAIRED)
    await owner.did("POST", path_of(codes), {"seller_id": service.seller_id, "replace": True})
    late = await device.result(order_id[3:], **approved())
    assert (late.status, late.code, late.body["recorded"]) == (409, "order_finished", True)
    assert (await device.post("/hello", {"boot_id": device.boot_id})).status == 401
