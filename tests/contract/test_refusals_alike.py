"""Unknown credentials and wrong ones cost the same statements and hashes. Timing: `bench.refusals`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from argon2 import PasswordHasher
from bench.refusals import auc

from conftest import CHEAP
from operator_people import SIGN_IN, make_person
from page_scene import PASSWORD, Browser, browser
from paydesk.engine.sellers.passwords import REFUSED_EVERY_SECONDS, hash_password
from paydesk.platform.http.endpoint import REFUSED_SECRETS_EVERY_SECONDS
from paydesk.platform.storage.database import Database
from recording_database import RecordingDatabase, RecordingTransaction
from service import Service, running
from skipped_waits import skipped_waits
from waiting import timer

UNKNOWN = "1234567890123456"
CURRENT = "m={1},t={0},p={2}".format(*CHEAP)
"""The parameters of a hash that is made now."""


@dataclass
class Cost:
    """The statements, in order, and the parameters of each Argon2 hash."""

    statements: list[str] = field(default_factory=list)
    hashes: list[str] = field(default_factory=list)


@dataclass
class Scene:
    """A service whose costs are recorded."""

    service: Service
    monkeypatch: pytest.MonkeyPatch

    async def has_password(self, stored: str) -> None:
        """Store this hash as the seller's password."""
        seller_id = self.service.seller_id
        await self.service.scene.run("UPDATE sellers SET password = $2 WHERE seller_id = $1", seller_id, stored)

    @contextmanager
    def cost(self) -> Iterator[Cost]:
        """Record the cost of the block."""
        cost, ask, verify = Cost(), RecordingTransaction.one, PasswordHasher.verify
        ask_all = RecordingTransaction.all

        def one(tx: RecordingTransaction, sql: str, *args: Any) -> Any:
            cost.statements.append(sql)
            return ask(tx, sql, *args)

        def every(tx: RecordingTransaction, sql: str, *args: Any) -> Any:
            cost.statements.append(sql)
            return ask_all(tx, sql, *args)

        def counted(hasher: PasswordHasher, stored: str, password: str) -> bool:
            # A malformed hash is refused before anything is computed.
            cost.hashes += stored.split("$")[3:4]
            return verify(hasher, stored, password)

        with self.monkeypatch.context() as patched:
            patched.setattr(RecordingTransaction, "one", one)
            patched.setattr(RecordingTransaction, "all", every)
            patched.setattr(PasswordHasher, "verify", counted)
            yield cost


@pytest.fixture
async def scene(database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """A service on a recording database."""
    with skipped_waits(database):
        async with running(RecordingDatabase(database), workers=False) as service:
            yield Scene(service, monkeypatch)


async def test_an_unknown_client_costs_what_a_wrong_secret_costs(scene: Scene) -> None:
    """The same statements and response, also right after a successful authentication."""
    service, costs, answers = scene.service, list[list[str]](), list[bytes]()
    good = {**service.scene.refresh("TG-1"), **service.scene.credentials()}
    for _ in range(2):
        for wrong in ({"client_id": UNKNOWN}, {"client_secret": "0" * 64}):
            early = timer(REFUSED_SECRETS_EVERY_SECONDS * 0.9)
            with scene.cost() as cost:
                reply = await service.request("POST", "/oauth/token", {**good, **wrong}, token=None, key=None)
            assert early.is_set()
            costs.append(cost.statements)
            answers.append(reply.raw)
        reply = await service.request("POST", "/oauth/token", good, token=None, key=None)
        assert reply.code == "invalid_grant"
    assert len(costs[0]) == 1
    assert costs == [costs[0]] * 4
    assert answers == [answers[0]] * 4


@pytest.mark.usefixtures("production_hash")
async def test_an_unknown_e_mail_costs_what_a_wrong_password_costs(scene: Scene) -> None:
    """The same statements, one Argon2 hash with the current parameters, and the same page except for the address."""
    seller = await browser(scene.service)
    await scene.has_password(await hash_password(PASSWORD))
    email, costs, pages = scene.service.scene.seller.email, list[Cost](), list[str]()
    unknown = "x" * (len(email) - len("@shop.example")) + "@shop.example"
    for address in (unknown, email):
        form = (await seller.get("/sign-in")).form("/sign-in")
        with scene.cost() as cost:
            page = await seller.submit(form, email=address, password=PASSWORD.upper())
        costs.append(cost)
        pages.append(page.html.replace(address, "").replace(page.form("/sign-in").fields["form_token"], ""))
    assert costs[0] == costs[1]
    assert costs[0].hashes == ["m=65536,t=3,p=4"]
    assert pages[0] == pages[1]


async def test_no_operator_can_be_told_from_an_unknown_one(scene: Scene) -> None:
    """A wrong password, no password yet, a revoked operator with the right one: one cost, one page, on the half second.

    So do a suspended seller and a seller without a usable password, as long as the password is wrong.
    """
    service, stored = scene.service, await hash_password(PASSWORD)
    emails = {name: f"{name:x>10}@shop.example" for name in ("valid", "invited", "revoked", "unknown")}
    for name in ("valid", "invited", "revoked"):
        eva = await make_person(service, email=emails[name])
        await service.scene.run("UPDATE operators SET password = $2 WHERE operator_id = $1", eva.operator_id, stored)
    await service.scene.run("UPDATE operators SET password = NULL WHERE email = $1", emails["invited"])
    await service.scene.run("UPDATE operators SET revoked_ms = 1 WHERE email = $1", emails["revoked"])
    tries = [(emails[name], PASSWORD if name == "revoked" else PASSWORD.upper()) for name in emails]
    await _assert_alike(scene, SIGN_IN, tries)
    email, seller_id = service.scene.seller.email, service.seller_id
    unknown = "x" * (len(email) - len("@shop.example")) + "@shop.example"
    for change in ("password = '!'", "password = ''", "suspended_ms = 1"):
        await scene.has_password(stored)
        await service.scene.run(f"UPDATE sellers SET {change} WHERE seller_id = $1", seller_id)
        await _assert_alike(scene, "/sign-in", [(unknown, "password of no account"), (email, "password of no account")])


async def _assert_alike(scene: Scene, path: str, tries: list[tuple[str, str]]) -> None:
    """Sign in with each e-mail address and password: all must be refused, with the same costs and pages."""
    costs, pages = list[Cost](), set[str]()
    for email, password in tries:
        opened = Browser(scene.service)
        form, early = (await opened.get(path)).form(path), timer(REFUSED_EVERY_SECONDS * 0.98)
        with scene.cost() as cost:
            page = await opened.submit(form, email=email, password=password)
        assert early.is_set()
        assert page.status == 403
        costs.append(cost)
        pages.add(page.html.replace(email, "").replace(page.form(path).fields["form_token"], ""))
    assert costs == [costs[0]] * len(tries)
    assert costs[0].hashes == [CURRENT]
    assert len(pages) == 1


async def test_an_old_hash_is_rejected_no_sooner(scene: Scene) -> None:
    """A seller with cheaper hash parameters waits as long for the rejection, and can sign in."""
    seller = await browser(scene.service)
    old = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)
    await scene.has_password(old)
    early = timer(REFUSED_EVERY_SECONDS * 0.98)
    assert (await seller.sign_in("/applications", password="wrong")).status == 403
    assert early.is_set()
    assert (await seller.sign_in("/applications")).status == 303


def test_the_measure_of_timing_differences() -> None:
    """One half for equal distributions, one or zero for disjoint ones, ties in the middle."""
    assert auc([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]) == 0.5
    assert auc([4.0, 5.0], [1.0, 2.0, 3.0]) == 1.0
    assert auc([1.0], [2.0, 3.0]) == 0.0
    assert auc([2.0], [1.0, 2.0, 3.0, 4.0]) == 0.375
