"""The receivers of "Receive webhooks" as processes: the real worker's deliveries, and requests that they refuse."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import msgspec
import pytest
import requests

import webhooks_scene as scene
from free_port import free_port
from paydesk.core.clock import MovableClock
from paydesk.core.secrets import Secret
from paydesk.engine.orders import events, status
from paydesk.engine.orders.presentation import EXAMPLE_ORDER
from paydesk.engine.orders.status_labels import PLAIN
from paydesk.engine.webhooks import outbox
from paydesk.engine.webhooks.schemas import AUTHORIZED, CONNECT_TOPIC
from paydesk.engine.webhooks.signatures import signature
from paydesk.platform.storage.database import Database, Transaction
from receiver_process import ReceiverProcess, receiver
from tables import each

NAMES = ("receiver_starlette.py", "receiver_flask.py", "receiver_express.mjs")
SECRET = Secret("whsec_" + "c2VjcmV0IG9mIHRoZSB0ZXN0cyBvZiByZWNlaXZlcnM=")
OTHER_SECRET = Secret("whsec_" + "YW5vdGhlciBzZWNyZXQsIHVua25vd24gdG8gdGhlbQ==")
AGAIN = "UPDATE deliveries SET status = 'pending', next_ms = 0, ended_ms = NULL WHERE seller_id = $1 AND order_id = $2"
SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
"""A receiver doesn't depend on the database."""

STATUSES = {1: status.CREATED, 2: status.AT_TERMINAL, 3: status.PROCESSED}
MOVES = {1: status.CREATE, 2: status.ACKNOWLEDGE, 3: status.APPROVE}


def event(order_id: str, version: int) -> outbox.OrderEvent:
    """Return an event of the example order, which at version 3 is paid."""
    state = STATUSES[version]
    order = msgspec.structs.replace(
        EXAMPLE_ORDER,
        order_id=order_id,
        live=0,
        version=version,
        status=state.status,
        status_detail=state.detail,
        payment_status_detail=state.payment_detail,
    )
    return events.event_of(MOVES[version], order, 0, PLAIN)


async def announce(database: Database, order_id: str, version: int) -> None:
    """Insert an event with its deliveries."""

    async def work(tx: Transaction) -> None:
        outbox.announce(tx, event(order_id, version))

    await database.write(work)


@pytest.fixture(scope="module", params=NAMES)
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReceiverProcess]:
    """A receiver that runs during all tests of requests."""
    with receiver(request.param, tmp_path_factory.mktemp("receiver"), WEBHOOK_SECRET=SECRET.reveal()) as process:
        yield process


def post(
    to: ReceiverProcess,
    body: str,
    *,
    secrets: tuple[Secret, ...] = (SECRET,),
    age_seconds: int = 0,
    sent: str | bytes | None = None,
    without: str = "",
    changed: Mapping[str, str] | None = None,
) -> int:
    """Sign `body` as Paydesk does and send it, or `sent` in its place; return the status of the answer."""
    seconds = int(time.time()) - age_seconds
    headers = signature.standard_headers(secrets, message_id="a notification", seconds=seconds, body=body)
    headers = {name: value for name, value in headers.items() if name != without} | dict(changed or {})
    given = body if sent is None else sent
    return requests.post(
        to.url,
        given.encode() if isinstance(given, str) else given,
        headers={"Content-Type": "application/json", **headers},
        timeout=30,
        proxies={"http": ""},
    ).status_code


def changes(of: ReceiverProcess, order_id: str) -> list[tuple[str, str, int]]:
    """Return the order's changes so far. A last notification, printed after all others, shows that they are read."""
    last = scene.order_id()
    assert post(of, event(last, 1).body) == 200
    deadline = time.monotonic() + 20
    while (last, "created", 1) not in of.changes:
        assert time.monotonic() < deadline, of.changes
        time.sleep(0.005)
    return [change for change in of.changes if change[0] == order_id]


def test_valid_notification_changes_its_order_once(running: ReceiverProcess) -> None:
    """Sent twice, it is answered 200 twice and applied once."""
    order_id = scene.order_id()
    body = event(order_id, 3).body
    assert [post(running, body), post(running, body)] == [200, 200]
    assert changes(running, order_id) == [(order_id, "processed", 3)]


def test_a_notification_is_recognized_by_its_id(running: ReceiverProcess) -> None:
    """Under an id that was stored, not even a newer version has an effect: consents have no version at all."""
    order_id = scene.order_id()
    first, later = (msgspec.json.decode(event(order_id, version).body) for version in (1, 3))
    for document in (first, {**later, "id": first["id"]}):
        assert post(running, msgspec.json.encode(document).decode()) == 200
    assert changes(running, order_id) == [(order_id, "created", 1)]


def test_older_version_is_answered_200_and_changes_nothing(running: ReceiverProcess) -> None:
    """After version 3, version 2 has no effect; neither has another notification with version 3."""
    order_id = scene.order_id()
    assert [post(running, event(order_id, version).body) for version in (1, 3, 2, 3)] == [200] * 4
    assert [version for _, _, version in changes(running, order_id)] == [1, 3]


def test_either_secret_of_a_rotation_is_accepted(running: ReceiverProcess) -> None:
    """The receiver's secret may be the first or the second that signed."""
    for secrets in ((SECRET, OTHER_SECRET), (OTHER_SECRET, SECRET)):
        assert post(running, event(scene.order_id(), 1).body, secrets=secrets) == 200


def test_unknown_types_and_fields_are_answered_200(running: ReceiverProcess) -> None:
    """A later version of Paydesk may send more."""
    unknown = {"id": str(uuid.uuid4()), "type": "terminal", "action": "terminal.new", "data": {"id": "1"}, "more": [1]}
    assert post(running, msgspec.json.encode(unknown).decode()) == 200


NOT_BASE64 = {"webhook-signature": "v1,*"}
NO_VERSION = {"webhook-signature": "abc"}
REFUSED = {
    "another secret": partial(post, secrets=(OTHER_SECRET,)),
    "six minutes old": partial(post, age_seconds=360),
    "six minutes ahead": partial(post, age_seconds=-360),
    "no webhook-id": partial(post, without="webhook-id"),
    "no webhook-timestamp": partial(post, without="webhook-timestamp"),
    "no webhook-signature": partial(post, without="webhook-signature"),
    "another id": partial(post, changed={"webhook-id": "another"}),
    "a later time than was signed": partial(post, changed={"webhook-timestamp": str(int(time.time()) + 7)}),
    "a time that is no number": partial(post, changed={"webhook-timestamp": "now"}),
    "a signature that is not base64": partial(post, changed=NOT_BASE64),
    "a signature without a version": partial(post, changed=NO_VERSION),
    "an empty body": partial(post, sent=b""),
    "a body that is not text": partial(post, sent=b"\xff\xfe"),
}


@each("attempt", REFUSED)
def test_refused_with_401_and_without_effect(running: ReceiverProcess, attempt: str) -> None:
    """Whatever is wrong with the signature; the genuine notification is accepted afterwards."""
    order_id = scene.order_id()
    body = event(order_id, 3).body
    assert REFUSED[attempt](running, body) == 401
    assert post(running, body) == 200
    assert changes(running, order_id) == [(order_id, "processed", 3)]


def test_changed_body_is_refused(running: ReceiverProcess) -> None:
    """Another status, and the same JSON with other spaces."""
    body = event(scene.order_id(), 1).body
    assert post(running, body, sent=body.replace('"created"', '"processed"')) == 401
    assert post(running, body, sent=body.replace(":", ": ")) == 401


def test_huge_body_is_refused(running: ReceiverProcess) -> None:
    """Before it fills the memory."""
    assert post(running, "{}", sent="x" * 1_000_001) in {401, 413}


def test_other_methods_and_paths_are_refused(running: ReceiverProcess) -> None:
    """Only POST to one path is answered 200."""
    session = requests.Session()
    session.trust_env = False
    assert session.get(running.url, timeout=30).status_code in {404, 405}
    assert session.post(f"{running.url}/other", timeout=30).status_code == 404


@SQLITE
@pytest.mark.parametrize("name", NAMES)
async def test_deliveries_of_the_worker(name: str, database: Database, clock: MovableClock, tmp_path: Path) -> None:
    """Both topics are delivered. What is sent again after a restart of the receiver, or late, changes nothing."""
    clock.freeze()
    port, order_id = free_port(), scene.order_id()
    subscription_id, secret = await scene.subscribe(database, f"http://127.0.0.1:{port}/webhooks")
    with receiver(name, tmp_path, port=port, WEBHOOK_SECRET=secret.reveal()) as process:
        async with scene.worker(database, clock) as worker:
            for version in (1, 3):
                await announce(database, order_id, version)
                assert await scene.step(worker) == 1
            process.restart()
            before = len(process.changes)
            # As if the worker had ended between sending and recording.
            await database.write(lambda tx: tx.run(AGAIN, scene.SELLER, order_id))
            await announce(database, order_id, 2)
            assert await scene.step(worker) == 3
    delivered = await scene.deliveries(database, order_id)
    assert [one.status for one in delivered] == ["delivered"] * 3
    assert {one.subscription_id for one in delivered} == {subscription_id}
    assert process.changes == [(order_id, "created", 1), (order_id, "processed", 3)]
    assert before == 2


@SQLITE
@pytest.mark.parametrize("name", NAMES)
async def test_consents_are_accepted(name: str, database: Database, clock: MovableClock, tmp_path: Path) -> None:
    """Notifications of topic mp-connect have numbers as ids and no version."""
    clock.freeze()
    port = free_port()
    _, secret = await scene.subscribe(database, f"http://127.0.0.1:{port}/webhooks", topic=CONNECT_TOPIC)
    with receiver(name, tmp_path, port=port, WEBHOOK_SECRET=secret.reveal()):
        async with scene.worker(database, clock) as worker:
            await database.write(
                lambda tx: outbox.announce_connect(
                    tx, seller_id=scene.SELLER, application_id=scene.APPLICATION, action=AUTHORIZED, now_ms=0
                )
            )
            assert await scene.step(worker) == 1
    (delivered,) = await scene.deliveries(database, str(scene.APPLICATION))
    assert delivered.status == "delivered"


@SQLITE
async def test_wrong_secret_is_visible_as_a_failed_attempt(
    running: ReceiverProcess, database: Database, clock: MovableClock
) -> None:
    """The attempt has the receiver's answer, and the delivery is tried again."""
    clock.freeze()
    order_id = scene.order_id()
    await scene.subscribe(database, running.url)
    async with scene.worker(database, clock) as worker:
        await announce(database, order_id, 1)
        assert await scene.step(worker) == 1
    assert changes(running, order_id) == []
    (delivery,) = await scene.deliveries(database, order_id)
    (attempt,) = await scene.attempts(database, delivery.delivery_id)
    assert (delivery.status, attempt.answer_status, attempt.answer_body) == (
        "pending",
        401,
        "The signature is not valid.",
    )
