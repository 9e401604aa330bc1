"""No secret, token, code or card number is in a log or, in clear, in the database: wherever it was sent."""

from __future__ import annotations

import base64
import json
import random
import urllib.parse
import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import counted
from node_process import NodeProcess
from oauth_scene import make_scene
from paydesk.core.clock import SystemClock
from paydesk.operators.accounts.credentials import add_operator, new_token
from paydesk.platform.storage.connect import open_database
from postgres_server import PostgresServer
from service import KEYS, Device, Service, access_token, approved, order_body
from webhooks_scene import Receiver, receiver, subscribe, until

PASSWORD = "correct-Horse+battery-" + uuid.uuid4().hex[:8]
DECLINED = {"outcome": "declined", "status_detail": "insufficient_amount"}
# Every result is kept: what is refused unread can't leak.
VARIABLES = {"PAYDESK_RESULTS_PER_LEASE_MAX": "1000"}


@dataclass
class Used:
    """Every secret that this test used, by what it is."""

    tokens: dict[str, str] = field(default_factory=dict)
    """With a look of their own: known for what they are wherever they stand."""
    others: dict[str, str] = field(default_factory=dict)
    card_numbers: list[str] = field(default_factory=list)
    server_key: str = KEYS._keys[1].decode()
    """It is looked for, but not sent: no client has it, and of letters alone it would pass for a word."""

    def found_in(self, content: bytes) -> list[str]:
        """The names of the secrets that stand in `content`, as they are or in a usual encoding."""
        lowered = content.lower()
        named = [*self.tokens.items(), *self.others.items(), ("server key", self.server_key)]
        named += [("card number", one) for one in self.card_numbers]
        return [name for name, secret in named if any(form.lower() in lowered for form in _forms(secret))]


def _forms(secret: str) -> Iterable[bytes]:
    raw = secret.encode()
    return raw, urllib.parse.quote(secret, safe="").encode(), base64.b64encode(raw).rstrip(b"="), raw.hex().encode()


def card_number(chance: random.Random) -> str:
    """A random number that looks in every way like a card's."""
    digits = [4, *(chance.randrange(10) for _ in range(14))]
    doubled = (digit * (1 + (place % 2 == 0)) for place, digit in enumerate(digits))
    total = sum(number // 10 + number % 10 for number in doubled)
    return "".join(map(str, (*digits, -total % 10)))


@pytest.fixture
async def inbox() -> AsyncIterator[Receiver]:
    """A receiver of notifications."""
    async with receiver() as made:
        yield made


@pytest.mark.on_postgres
async def test_no_secret_is_in_a_log_or_in_the_database(
    request: pytest.FixtureRequest, database_url: str, tmp_path: Path, inbox: Receiver
) -> None:
    """Every kind of secret is used, in its right place and in wrong ones; then logs and files are searched."""
    used = Used()
    with closing(NodeProcess(database_url, tmp_path, **VARIABLES)) as node:
        async with _served(node, database_url, inbox, used) as (service, device):
            await _use_in_right_places(service, device, used)
            await _use_in_wrong_places(service, device, used)
            await _use_card_numbers(service, device, used)
            await until(lambda: len(inbox.got) >= 3)
            assert used.found_in(_database_files(request, database_url, tmp_path)) == []
        node.end()
    log = node.log.read_bytes()
    assert log.count(b'"event":"request"') > 100, "there is a log to search"
    assert used.found_in(log) == []


def test_the_search_finds_planted_secrets() -> None:
    """A secret is found as it is, percent-encoded, in base64 and in hexadecimal digits."""
    used = Used({"code": "TG-0a/1b"}, {"key": "+ +"}, ["4111111111111111"])
    assert used.found_in(b"nothing") == []
    assert used.found_in(used.server_key.encode()) == ["server key"]
    assert used.found_in(b"x TG-0a/1b x %2B%20%2B 4111111111111111") == ["code", "key", "card number"]
    assert used.found_in(base64.b64encode(b"TG-0a/1b") + b"2b202b") == ["code", "key"]


@asynccontextmanager
async def _served(
    node: NodeProcess, database_url: str, inbox: Receiver, used: Used
) -> AsyncIterator[tuple[Service, Device]]:
    database, clock = await open_database(database_url), SystemClock()
    try:
        scene = await make_scene(database)
        test, live = [await access_token(scene, clock.now_ms(), live=live) for live in (False, True)]
        timeout = aiohttp.ClientTimeout(10)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            service = Service(node.base_url, database, clock, scene, session, test, live)
            device = Device(service, await service.terminal(), str(uuid.uuid4()))
            _, webhook_secret = await subscribe(database, inbox.url, application_id=scene.application.application_id)
            operator = new_token()
            await database.write(lambda tx: add_operator(tx, operator, "anna", "owner", clock.now_ms()))
            used.tokens |= {
                "client secret": scene.secret,
                "code": await _code(service),
                "unused code": await _code(service),
                "test access token": test,
                "live access token": live,
                "device token": device.terminal.token,
                "operator token": operator.reveal(),
                "webhook secret": webhook_secret.reveal(),
            }
            used.others["password"] = PASSWORD
            await database.close()
            node.start()
            yield service, device
    finally:
        await database.close()


async def _code(service: Service) -> str:
    scene, now_ms = service.scene, service.clock.now_ms()
    scene.clock.frozen_ms = now_ms
    return await scene.code()


async def _use_in_right_places(service: Service, device: Device, used: Used) -> None:
    scene = service.scene
    for test_token in ("true", "false"):
        code = used.tokens["code"] if test_token == "true" else used.tokens["unused code"]
        exchanged = await _post_token(service, scene.exchange(code, test_token=test_token))
        refreshed = await _post_token(service, scene.refresh(exchanged["refresh_token"]))
        for name, answered in (("exchanged", exchanged), ("refreshed", refreshed)):
            used.tokens |= {
                f"{name} {kind}, test_token={test_token}": answered[kind] for kind in ("access_token", "refresh_token")
            }
    seller = {"email": counted.email(), "name": "Shop", "country": "BRA", "currency": "BRL"}
    made = await _as_operator(service, used, "sellers", {**seller, "password": PASSWORD})
    assert "password" not in made
    invented = await _as_operator(service, used, "sellers", {**seller, "email": counted.email()})
    used.others["invented password"] = invented["password"]
    application = {"name": "Till", "redirect_uris": ["https://till.example/callback"]}
    registered = await _as_operator(service, used, "applications", application)
    used.tokens["second client secret"] = registered["client_secret"]
    secrets = f"applications/{registered['client_id']}/secrets"
    rotated = await _as_operator(service, used, secrets, {"others_expire_in": "1h"})
    used.tokens["rotated client secret"] = rotated["client_secret"]
    reset = await _as_operator(service, used, f"sellers/{made['user_id']}/password", {})
    used.others["reset password"] = reset["password"]
    other = await _as_operator(service, used, "operators", {"name": "bea", "role": "support"})
    used.tokens["second operator token"] = other["token"]
    assert (await device.post("/hello", {"boot_id": device.boot_id, "app_version": "1", "journal": []})).status == 200
    order = (await service.create(device.terminal)).body
    assert (await device.ack(order["id"][3:])).status == 200
    assert (await device.approve(order["id"][3:])).status == 200


async def _post_token(service: Service, body: dict[str, Any]) -> dict[str, Any]:
    reply = await service.request("POST", "/oauth/token", body, token=None, key=None)
    assert reply.status == 200, reply
    answered: dict[str, Any] = reply.body
    return answered


async def _as_operator(service: Service, used: Used, noun: str, body: dict[str, Any]) -> dict[str, Any]:
    token = used.tokens["operator token"]
    reply = await service.request("POST", f"/operator/v1/{noun}", body, token=token, key=None)
    assert reply.status in (200, 201), reply
    answered: dict[str, Any] = reply.body
    return answered


async def _use_in_wrong_places(service: Service, device: Device, used: Used) -> None:
    order = (await service.create(device.terminal)).body
    for secret in [*used.tokens.values(), *used.others.values()]:
        await _in_queries(service, secret)
        await _in_headers(service, secret)
        await _in_bodies(service, device, secret)
    for secret in used.tokens.values():
        await _in_paths_and_names(service, device, order["id"][3:], secret)
    await device.result(order["id"][3:], **DECLINED)


async def _in_queries(service: Service, secret: str) -> None:
    query = urllib.parse.urlencode({"access_token": secret, secret: "1"})
    for path in ("/oauth/token", "/v1/orders", "/authorization", "/livez"):
        await service.request("POST", f"{path}?{query}")
    for path in ("/terminals/v1/list", "/operator/v1/sellers", f"/device/v1/next?boot_id={secret[:36]}"):
        await service.request("GET", f"{path}{'&' if '?' in path else '?'}{query}")


async def _in_headers(service: Service, secret: str) -> None:
    named = ("Authorization", "Cookie", "User-Agent", "X-Forwarded-For", "X-Test-Token", "X-Client-Secret", "Referer")
    for name in named:
        await service.request("GET", "/terminals/v1/list", token=None, headers={name: secret})
    for path in ("/terminals/v1/list", "/operator/v1/sellers", "/device/v1/next", "/v1/orders/none"):
        await service.request("GET", path, token=secret)
    basic = base64.b64encode(f"1:{secret}".encode()).decode()
    await service.request("POST", "/oauth/token", token=None, headers={"Authorization": f"Basic {basic}"})
    await service.request("GET", "/livez", headers={"X-Request-Id": uuid.uuid4().hex, "Host": f"{secret}.example"})


async def _in_bodies(service: Service, device: Device, secret: str) -> None:
    names = ("grant_type", "client_id", "client_secret", "code", "redirect_uri", "refresh_token", "scope", "test_token")
    await service.request("POST", "/oauth/token", dict.fromkeys(names, secret), token=None)
    await service.request("POST", "/oauth/token", {**service.scene.credentials(), secret: secret}, token=None)
    order = order_body(device.terminal.id)
    for body in ({**order, "secret": secret}, {**order, "type": secret}, order_body(secret), secret, [secret]):
        await service.request("POST", "/v1/orders", body)
    await service.request("POST", "/v1/orders", data=json.dumps(order).encode() + secret.encode())
    await service.request("PATCH", "/terminals/v1/setup", {"terminals": [{"id": secret, "operating_mode": "PDV"}]})
    await service.request("POST", "/operator/v1/sellers", {"email": secret, "password": secret, "country": secret})
    await device.post("/hello", {"boot_id": secret, "journal": [{"lease_id": secret}]})


async def _in_paths_and_names(service: Service, device: Device, lease_id: str, secret: str) -> None:
    quoted = urllib.parse.quote(secret, safe="")
    for path in (f"/{quoted}", f"/v1/orders/{quoted}", f"/operator/v1/orders/{quoted}", f"/device/v1/{quoted}"):
        await service.request("GET", path)
    await service.request("POST", f"/v1/orders/{quoted}/cancel")
    await device.ack(quoted)
    await service.request("POST", "/v1/orders", {**order_body(device.terminal.id), secret: secret})
    await device.result(lease_id, quoted, **DECLINED)
    await device.result(lease_id, **{**approved(), "outcome": secret})
    await service.request("GET", "/livez", headers={"X-Request-Id": secret})


async def _use_card_numbers(service: Service, device: Device, used: Used) -> None:
    chance = random.Random()
    order = (await service.create(device.terminal)).body or {}
    lease_id = str(order.get("id", "ORD" + "0" * 26))[3:]
    for write in (str, _in_groups("-"), _in_groups(" ")):
        number = card_number(chance)
        used.card_numbers += [number, write(number)]
        refused = await service.create(device.terminal, description=f"paid with {write(number)}, thanks")
        assert refused.code == "property_value"
        result = {**approved(), "pan": write(number), "card": {"number": write(number)}}
        assert (await device.result(lease_id, **result)).status == 409
        journal = [{"lease_id": lease_id, "last_step": "authorizing", "result": result}]
        boot = {"boot_id": device.boot_id, "app_version": "1", "journal": journal}
        assert (await device.post("/hello", boot)).status == 200
        await service.request("GET", f"/v1/orders/{number}?card={number}", headers={"X-Request-Id": number})


def _in_groups(between: str) -> Any:
    return lambda number: between.join(number[place : place + 4] for place in range(0, 16, 4))


def _database_files(request: pytest.FixtureRequest, database_url: str, folder: Path) -> bytes:
    """The very bytes on the disk: of SQLite the file and its log, of PostgreSQL all files of the server."""
    if database_url.startswith("sqlite:"):
        return b"".join(file.read_bytes() for file in sorted(folder.glob("paydesk.db*")))
    server: PostgresServer = request.getfixturevalue("postgres_server")
    data = Path(server.sql("CHECKPOINT", "SHOW data_directory"))
    name = urllib.parse.urlsplit(database_url).path.removeprefix("/")
    number = server.sql(f"SELECT oid FROM pg_database WHERE datname = '{name}'")
    files = [*(data / "base" / number).iterdir(), *(data / "pg_wal").glob("0*")]
    return b"".join(file.read_bytes() for file in files if file.is_file())
