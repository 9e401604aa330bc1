"""Signatures and bodies of notifications, against fixed values and the official validators."""

from __future__ import annotations

import json

import pytest
from mercadopago.webhook import InvalidWebhookSignatureError, WebhookSignatureValidator
from standardwebhooks import Webhook, WebhookVerificationError

from paydesk.core.keys import Keys
from paydesk.core.secrets import Secret
from paydesk.engine.orders import status
from paydesk.engine.orders.events import event_of
from paydesk.engine.orders.presentation import EXAMPLE_ORDER
from paydesk.engine.orders.status_labels import EXTENDED, PLAIN
from paydesk.engine.webhooks.schemas import ACTIONS
from paydesk.engine.webhooks.signatures import signature

SECRET = Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
SECONDS = 1_742_505_638


def test_secret_is_derived_and_masked() -> None:
    """It depends on subscription and generation, and `repr` masks it."""
    keys = Keys(1, {1: b"k" * 32})
    made = {signature.secret_of(keys, 1, *rest).reveal() for rest in [("a", 1), ("a", 1), ("a", 2), ("b", 1)]}
    assert len(made) == 3
    assert all(one.startswith("whsec_") and len(one) == 50 for one in made)
    assert repr(signature.secret_of(keys, 1, "a", 1)) == "***"


def test_x_signature_matches_the_vendors_validator() -> None:
    """The key is the whole secret as text; the id is that of the query."""
    header = signature.x_signature(SECRET, data_id="ord01", request_id="r-1", seconds=SECONDS)
    assert header.startswith(f"ts={SECONDS},v1=")
    WebhookSignatureValidator.validate(
        header, "r-1", "ord01", SECRET.reveal(), tolerance_seconds=300, now=lambda: SECONDS * 1000
    )
    with pytest.raises(InvalidWebhookSignatureError):
        WebhookSignatureValidator.validate(header, "r-1", "ORD01", SECRET.reveal())


def test_each_secret_signs_for_standard_webhooks() -> None:
    """Each of two secrets verifies the notification, and none verifies a changed body."""
    import time

    other = Secret("whsec_" + "QUJD" * 8)
    headers = signature.standard_headers([SECRET, other], message_id="m", seconds=int(time.time()), body='{"é":1}')
    for secret in (SECRET, other):
        assert Webhook(secret.reveal()).verify('{"é":1}'.encode(), headers) == {"é": 1}
        with pytest.raises(WebhookVerificationError):
            Webhook(secret.reveal()).verify(b"{}", headers)


DATA = (
    '{"id":"ORD01J67CQQH5904WDBVZEM4JMEP3","type":"point","external_reference":"ext_ref_1234",'
    '"status":"created","status_detail":"created","version":1,"transactions":{"payments":['
    '{"id":"PAY01J67CQQH5904WDBVZEM4JMEP3","amount":"24.90","status":"created","status_detail":"created"}]}}'
)
"""The example order in notifications."""


def test_notification_has_the_documented_fields_in_order() -> None:
    """Ids are strings, times have milliseconds, and `data` is last."""
    event = event_of(status.CREATE, EXAMPLE_ORDER, 1_769_869_602_109, PLAIN)
    assert list(json.loads(event.body).items()) == [
        ("id", event.event_id),
        ("action", "order.created"),
        ("api_version", "v1"),
        ("application_id", "3676047501096810"),
        ("type", "order"),
        ("user_id", "1160535239"),
        ("live_mode", True),
        ("date_created", "2026-01-31T14:26:42.109Z"),
        ("data", json.loads(DATA)),
    ]
    assert event.body.endswith(f'"data":{DATA}}}')


def test_actions_are_those_of_the_table_of_moves() -> None:
    """The actions that can be subscribed are those of the moves."""
    extended = {f"order.{word}" for word in EXTENDED.extended.values()}
    assert set(ACTIONS) == {*(move.action for move in status.MOVES), *extended}
