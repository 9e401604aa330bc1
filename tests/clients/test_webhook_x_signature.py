"""The receiver that verifies X-Signature, beside a running `paydesk dev`: it acts on the order that it gets."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

import dev_thread
from command_line import command
from free_port import free_port
from paydesk.core.secrets import Secret
from paydesk.engine.webhooks.signatures import signature
from paydesk_process import credentials, request
from receiver_process import ReceiverProcess, receiver
from tables import each

SECONDS_MAX = 30


@dataclass
class Scene:
    """A service with a subscription to the receiver, whose secret is known."""

    folder: Path
    process: ReceiverProcess
    secret: Secret

    def wait(self, change: tuple[str, str, int], times: int = 1) -> None:
        """Wait until the receiver has printed this change so many times."""
        deadline = time.monotonic() + SECONDS_MAX
        while self.process.changes.count(change) < times:
            assert time.monotonic() < deadline, self.process.changes
            time.sleep(0.05)

    def post(self, data_id: str, *, signed_id: str | None = None, age_seconds: int = 0, **changes: Any) -> int:
        """Send a notification of a refund that never happened, signed as Paydesk does; return the answer's status."""
        request_id = str(uuid.uuid4())
        header = signature.x_signature(
            changes.get("secret", self.secret),
            data_id=data_id if signed_id is None else signed_id,
            request_id=request_id,
            seconds=int(time.time()) - age_seconds,
        )
        return requests.post(
            self.process.url,
            params={"data.id": data_id, "type": changes.get("type", "order")},
            json={"action": "order.refunded", "data": {"id": data_id.upper(), "status": "refunded", "version": 99}},
            headers={"X-Request-Id": request_id, "X-Signature": changes.get("header", header)},
            timeout=SECONDS_MAX,
            proxies={"http": ""},
        ).status_code


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A service and the receiver."""
    folder, port = tmp_path_factory.mktemp("service"), free_port()
    with dev_thread.dev(folder):
        known = credentials(folder)
        _, made = request(
            "POST",
            f"{known['base_url']}/operator/v1/subscriptions",
            known["operator"]["token"],
            {"client_id": int(known["client_id"]), "url": f"http://127.0.0.1:{port}/webhooks"},
        )
        variables = {
            "WEBHOOK_SECRET": made["secret"],
            "BASE_URL": known["base_url"],
            "ACCESS_TOKEN": known["test"]["access_token"],
        }
        with receiver("verify_x_signature.py", tmp_path_factory.mktemp("receiver"), port=port, **variables) as process:
            yield Scene(folder, process, Secret(made["secret"]))


@pytest.fixture(scope="module")
def paid(scene: Scene) -> str:
    """The id of an order that is paid."""
    done = command("pay", "24.90", folder=scene.folder)
    found = re.search(r"ORD[0-9A-Z]{26}", done.stdout)
    assert found is not None, done.stderr
    return found[0]


def test_deliveries_of_a_payment_are_accepted(scene: Scene, paid: str) -> None:
    """The last one has the order's end."""
    scene.wait((paid, "processed", 3))


def test_a_forged_body_has_no_effect(scene: Scene, paid: str) -> None:
    """The signature is valid, as it does not cover the body; the receiver prints the state that it got."""
    scene.wait((paid, "processed", 3))
    before = scene.process.changes.count((paid, "processed", 3))
    assert scene.post(paid.lower()) == 200
    scene.wait((paid, "processed", 3), before + 1)
    assert "refunded" not in [status for _, status, _ in scene.process.changes]


@each(
    "changes",
    [
        {"secret": Secret("whsec_" + "YW5vdGhlciBzZWNyZXQsIHVua25vd24gdG8gdGhlbQ==")},
        {"age_seconds": 360},
        {"age_seconds": -360},
        {"signed_id": "ord01j67cqqh5904wdbvzem4jmep4"},
        {"signed_id": "ORD01J67CQQH5904WDBVZEM4JMEP3"},
        {"header": ""},
        {"header": "ts=,v1="},
        {"header": "ts=1;v1=2"},
        {"header": f"ts={int(time.time())},v1={'é' * 64}".encode()},
    ],
    # Without the time: every process must collect the same names.
    ids=lambda changes: " ".join(
        f"{name}={'bytes' if isinstance(value, bytes) else str(value)[:30]}" for name, value in changes.items()
    ),
)
def test_refused_with_401(scene: Scene, changes: dict[str, Any]) -> None:
    """Another secret, an old or a later time, another id, upper case, a malformed or missing header."""
    assert scene.post("ord01j67cqqh5904wdbvzem4jmep3", **changes) == 401


def test_an_order_that_does_not_exist_is_answered_500(scene: Scene) -> None:
    """So that the notification is sent again, if the order can't be read for another reason."""
    assert scene.post("ord01j67cqqh5904wdbvzem4jmep3") == 500


def test_other_types_are_answered_200(scene: Scene) -> None:
    """A consent is no order."""
    assert scene.post("1160535239", type="mp-connect") == 200
