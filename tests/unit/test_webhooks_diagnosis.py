"""Why a signature is not valid: each usual mistake is named, and nothing wrong is called valid."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import replace
from typing import Any

import pytest

from paydesk.core.secrets import Secret
from paydesk.engine.orders import samples
from paydesk.engine.webhooks.delivery import send
from paydesk.engine.webhooks.delivery.notice import Notice
from paydesk.engine.webhooks.signatures import signature
from paydesk.engine.webhooks.signatures.diagnosis import Verdict, verify
from paydesk.engine.webhooks.signatures.mistakes import NamedSecret, Recorded
from tables import each

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + "QUJD" * 8
NAMED = [NamedSecret("the secret", SECRET)]
NOW = 1_769_869_602
ORDER = "ORD01J67CQQH5904WDBVZEM4JMEP3"


def recorded(secret: str = SECRET, **headers: str) -> Recorded:
    """Return a notification as the service sends it, with other headers."""
    made = samples.sample("order.processed", now_ms=NOW * 1000)
    notice = Notice(made.event_id, made.action, made.seller_id, made.source_id, made.body)
    sent = send.request(notice.message("http://a/hook", 1), [Secret(secret)], NOW).headers
    lower = {name.lower(): value for name, value in sent.items()} | headers
    return Recorded(lower, made.body.encode(), ORDER.lower())


def verdicts(request: Recorded, *secrets: str, now: float | None = NOW + 1) -> tuple[Verdict, Verdict]:
    """Return both verdicts."""
    return verify(request, [NamedSecret(f"secret {place}", one) for place, one in enumerate(secrets)] or NAMED, now)


def test_a_delivery_of_the_service_is_valid() -> None:
    """Both signatures, with the secret's name."""
    for verdict in verdicts(recorded()):
        assert (verdict.is_valid, verdict.reasons, verdict.remarks) == (True, (), ("Signed with the secret.",))


def test_the_matching_secret_is_named() -> None:
    """Of several; during a rotation both are in webhook-signature."""
    assert verdicts(recorded(), OTHER, SECRET)[0].remarks == ("Signed with secret 1.",)
    request = recorded()
    both = signature.standard_headers(
        [Secret(SECRET), Secret(OTHER)], message_id=samples.EVENT_ID, seconds=NOW, body=request.body.decode()
    )
    rotated = replace(request, headers={**request.headers, **both})
    x_signature, standard = verdicts(rotated, OTHER)
    assert standard.is_valid
    assert any("2 signatures" in remark for remark in standard.remarks)
    assert not x_signature.is_valid
    assert "primary secret only" in x_signature.reasons[0]


def test_another_secret_is_not_valid() -> None:
    """And no mistake explains it."""
    for verdict in verdicts(recorded(), OTHER):
        assert not verdict.is_valid
        assert verdict.reasons[0].startswith("The secret, ")


@pytest.mark.parametrize("change", ["body", "webhook-id", "webhook-timestamp", "data_id", "x-request-id"])
def test_a_changed_part_is_not_valid(change: str) -> None:
    """The signature that covers it."""
    request = recorded()
    if change == "body":
        request = replace(request, body=request.body.replace(b"24.90", b"24.91"))
    elif change == "data_id":
        request = replace(request, data_id="ord01j67cqqh5904wdbvzem4jmep4", body=b"{}")
    else:
        request = replace(request, headers={**request.headers, change: str(NOW + 2)})
    x_signature, standard = verdicts(request)
    assert x_signature.is_valid == (change not in ("data_id", "x-request-id"))
    assert standard.is_valid == (change not in ("body", "webhook-id", "webhook-timestamp") and change != "data_id")


X_MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"data_id": ORDER}, "use data.id of the query, which is in lower case"),
    ({"data_id": ""}, "data.id is missing in the query"),
    ({"data_id": None}, "data.id is missing in the query"),
    ({"data_id": "ord123"}, "that of the body was signed"),
]


@pytest.mark.parametrize(("changes", "reason"), X_MISTAKES)
def test_mistakes_of_data_id_are_named(changes: dict[str, Any], reason: str) -> None:
    """The id of the query belongs to the signed text, in lower case."""
    x_signature, standard = verdicts(replace(recorded(), **changes))
    assert standard.is_valid
    assert not x_signature.is_valid
    assert reason in x_signature.reasons[0]


def test_data_id_is_taken_from_the_body_if_the_query_is_unknown() -> None:
    """With a remark."""
    x_signature, _ = verdicts(replace(recorded(), data_id=None, has_query=False))
    assert x_signature.is_valid
    assert "taken from the body" in x_signature.remarks[0]


def signed(key: bytes, data_id: str, request_id: str, seconds: str) -> str:
    """Return an X-Signature that another sender made, or the same one by mistake."""
    parts = (("id", data_id), ("request-id", request_id), ("ts", seconds))
    text = "".join(f"{name}:{value};" for name, value in parts if value)
    return f"ts={seconds},v1={hmac.new(key, text.encode(), hashlib.sha256).hexdigest()}"


REQUEST_ID = recorded().headers["x-request-id"]
LOWER = ORDER.lower()


@each(
    "header, reason",
    [
        (signed(SECRET.encode(), ORDER, REQUEST_ID, str(NOW)), "signed in upper case"),
        (signed(SECRET.encode(), "", REQUEST_ID, str(NOW)), "without data.id"),
        (signed(SECRET.encode(), LOWER, "", str(NOW)), "without X-Request-Id"),
        (signed(SECRET.encode(), LOWER, samples.EVENT_ID, str(NOW)), "webhook-id was signed"),
        (signed(SECRET[6:].encode(), LOWER, REQUEST_ID, str(NOW)), "without whsec_"),
        (signed(base64.b64decode(SECRET[6:]), LOWER, REQUEST_ID, str(NOW)), "decoded from base64"),
        (signed(SECRET.encode(), LOWER, REQUEST_ID, f"{NOW}000"), "ts is in milliseconds: it must be in seconds"),
        (
            signed(SECRET.encode(), LOWER, REQUEST_ID, str(NOW)).replace(f"ts={NOW}", f"ts={NOW}123"),
            "in milliseconds, but was signed in seconds",
        ),
        (
            signed(SECRET.encode(), LOWER, REQUEST_ID, f"{NOW}000").replace(f"ts={NOW}000", f"ts={NOW}"),
            "in seconds, but was signed in milliseconds",
        ),
        (f"v1={'0' * 64}", "has no ts="),
        (f"ts={NOW}", "has no v1="),
        ("nonsense", "has no ts="),
        ("", "X-Signature is missing"),
        (f"ts={NOW},v1=short", "is not the one that was signed"),
        (f"ts={NOW},v1=\N{SNOWMAN}", "is not the one that was signed"),
        (f"ts={'9' * 5000},v1=0", "is not the one that was signed"),
    ],
)
def test_mistakes_of_x_signature_are_named(header: str, reason: str) -> None:
    """None of them is valid."""
    x_signature, _ = verdicts(recorded(**{"x-signature": header}))
    assert not x_signature.is_valid
    assert reason in x_signature.reasons[0]


def test_a_secret_without_its_prefix_is_named() -> None:
    """Its base64 is right for webhook-signature, but X-Signature needs the whole text."""
    x_signature, standard = verdicts(recorded(), SECRET.removeprefix("whsec_"))
    assert standard.is_valid
    assert "lacks whsec_" in x_signature.reasons[0]


def bodies() -> list[tuple[bytes, str]]:
    """Return the body as it is changed on its way."""
    body = recorded().body
    document = json.loads(body)
    return [
        (body + b"\n", "white space at its end"),
        (body + b"\r\n", "white space at its end"),
        (json.dumps(document).encode(), "parsed and written again"),
        (json.dumps(document, indent=2).encode(), "parsed and written again"),
        (json.dumps(document, indent=2).replace("\n", "\r\n").encode(), "parsed and written again"),
    ]


@pytest.mark.parametrize(("body", "reason"), bodies())
def test_a_changed_body_is_explained(body: bytes, reason: str) -> None:
    """X-Signature does not cover it and stays valid."""
    x_signature, standard = verdicts(replace(recorded(), body=body))
    assert x_signature.is_valid
    assert not standard.is_valid
    assert reason in standard.reasons[0]


def standard_of(key: bytes, message_id: str, body: bytes) -> str:
    """Return a webhook-signature that another sender made."""
    text = b"%b.%d.%b" % (message_id.encode(), NOW, body)
    return "v1," + base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()


@pytest.mark.parametrize(
    ("key", "message_id", "reason"),
    [
        (SECRET.encode(), samples.EVENT_ID, "as text"),
        (SECRET[6:].encode(), samples.EVENT_ID, "not decoded"),
        (base64.b64decode(SECRET[6:]), REQUEST_ID, "X-Request-Id was signed in the place of webhook-id"),
    ],
)
def test_mistakes_of_webhook_signature_are_named(key: bytes, message_id: str, reason: str) -> None:
    """The key, and the id."""
    header = standard_of(key, message_id, recorded().body)
    _, standard = verdicts(recorded(**{"webhook-signature": header}))
    assert not standard.is_valid
    assert reason in standard.reasons[0]


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_missing_header_is_named(name: str) -> None:
    """Of Standard Webhooks; X-Signature does not need it."""
    request = recorded()
    lacking = replace(request, headers={key: value for key, value in request.headers.items() if key != name})
    x_signature, standard = verdicts(lacking)
    assert x_signature.is_valid
    assert standard.reasons == (f"The header {name} is missing.",)


def test_a_missing_request_id_is_named() -> None:
    """It is part of the signed text."""
    request = recorded()
    lacking = {key: value for key, value in request.headers.items() if key != "x-request-id"}
    assert "X-Request-Id is missing" in verdicts(replace(request, headers=lacking))[0].reasons[0]


@pytest.mark.parametrize(
    ("now", "reason"),
    [(NOW + 301, "5 minutes old"), (NOW + 90_000, "25 hours old"), (NOW - 301, "in the future")],
)
def test_an_old_signature_is_refused_for_its_age(now: int, reason: str) -> None:
    """It matches; with any age it is valid. The limit is 5 minutes, in the future too."""
    for verdict in verdicts(recorded(), now=now):
        assert not verdict.is_valid
        assert verdict.reasons[0].startswith("The signature matches, but its time is ")
        assert reason in verdict.reasons[0]
    for within in (None, NOW + 300, NOW - 300):
        assert all(verdict.is_valid for verdict in verdicts(recorded(), now=within))


def test_any_body_gets_a_verdict() -> None:
    """Even one that is no JSON."""
    for body in (b"", b"\xff\xfe", b"[" * 100_000, b'"\\ud800"', b'{"data": {"id": "\\ud800"}}', b"{}"):
        for request in (replace(recorded(), body=body), replace(recorded(), body=body, data_id=None, has_query=False)):
            assert not verdicts(request)[1].is_valid, body[:60]


def test_any_webhook_signature_gets_a_verdict() -> None:
    """However it is malformed."""
    for header in ("v1", "v1,", "v2,abc", "v1,\N{SNOWMAN}", ",", "v1,abc " * 1000):
        assert not verdicts(recorded(**{"webhook-signature": header}))[1].is_valid, header[:60]


def test_any_secret_gets_a_verdict() -> None:
    """However it is malformed."""
    for secret in ("", "x", "whsec_", "whsec_!", "\N{SNOWMAN}", "a" * 100_000):
        assert not any(verdict.is_valid for verdict in verdicts(recorded(), secret)), secret[:60]


def test_a_large_body_gets_a_verdict_soon() -> None:
    """Within the time that a case may take, though many mistakes are tried."""
    assert not verdicts(replace(recorded(), body=b'{"a":"' + b"x" * 4_000_000 + b'"}'))[1].is_valid


def test_a_valid_x_signature_shows_that_the_secret_is_right() -> None:
    """So the body differs; with another secret for both, neither signature says more."""
    request = recorded()
    changed = replace(request, body=request.body.replace(b"accredited", b"refunded"))
    x_signature, standard = verdicts(changed)
    assert (x_signature.is_valid, standard.is_valid) == (True, False)
    assert standard.reasons[0].startswith("The body, webhook-id or webhook-timestamp is not the one")
    assert "the secret is right" in standard.reasons[0]
    assert verdicts(changed, OTHER)[1].reasons[0].startswith("The secret, the body,")
