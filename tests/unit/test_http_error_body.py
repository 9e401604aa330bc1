"""The body of an error: what `message` and `cause` say of its details."""

from __future__ import annotations

from paydesk.core.errors import PROPERTY_VALUE, REQUIRED_PROPERTIES, SERVICE_UNAVAILABLE, UNAUTHORIZED, Fault, Refusal
from paydesk.platform.http.error_body import described, flat, listed
from tables import each

MISSING, VALUE = "A required property is missing.", "A property has a value that is not allowed."
UNKNOWN = "A property is unknown."


@each(
    "message, detail, expected",
    [
        (MISSING, "'$.type' - is required", "A required property is missing: '$.type'."),
        (
            MISSING,
            "'$.code_challenge' - must be sent with code_challenge_method",
            "A required property is missing: '$.code_challenge' must be sent with code_challenge_method.",
        ),
        (UNKNOWN, """'$["a' - b"]' - is not known here""", """A property is unknown: '$["a' - b"]'."""),
        (VALUE, "'$.a' - must be above zero", f"{VALUE[:-1]}: '$.a' must be above zero."),
        (VALUE, "'$.a' - must end with a point.", f"{VALUE[:-1]}: '$.a' must end with a point."),
        (VALUE, "'$' - one - two", f"{VALUE[:-1]}: '$' one - two."),
        ("It is busy.", "the order is created; cancel it", "It is busy: the order is created; cancel it."),
        ("It is busy. Wait.", "the order is created", "It is busy. Wait. The order is created."),
        ("It is busy. Wait.", "boot_id is unknown", "It is busy. Wait. boot_id is unknown."),
        ("It is busy. Wait.", "'$.a' - is unknown", "It is busy. Wait. '$.a' is unknown."),
        ("It is busy. Wait.", "Resume it first: now", "It is busy. Wait. Resume it first: now."),
        ("Missing: X-Key.", "send it", "Missing: X-Key. Send it."),
        ("invalid access token", "it has expired", "invalid access token: it has expired."),
    ],
)
def test_a_message_with_a_detail_reads_as_sentences(message: str, detail: str, expected: str) -> None:
    """A single sentence continues with the detail; several are followed by it."""
    assert described(message, detail) == expected


def test_an_error_without_details_is_its_message() -> None:
    """In `message` and in the only cause; an empty detail counts as none."""
    for details in ((), ("",)):
        body = listed(SERVICE_UNAVAILABLE.with_reason("down", *details))
        message = SERVICE_UNAVAILABLE.message
        assert (body["message"], body["status"]) == (message, 503)
        assert body["cause"] == [{"code": "service_unavailable", "description": message}]
        assert body["errors"][0]["message"] == message


def test_every_detail_is_a_cause() -> None:
    """In order, those of one error and of several; the list of errors has messages and details apart."""
    body = listed(PROPERTY_VALUE.with_reason("two", "'$.a' - is wrong", "'$.b' - is wrong", message="Wrong."))
    assert body["cause"] == [
        {"code": "property_value", "description": "Wrong: '$.a' is wrong."},
        {"code": "property_value", "description": "Wrong: '$.b' is wrong."},
    ]
    assert body["message"] == "Wrong: '$.a' is wrong."
    assert body["errors"] == [
        {"code": "property_value", "message": "Wrong.", "details": ["'$.a' - is wrong", "'$.b' - is wrong"]}
    ]
    faults = (Fault(REQUIRED_PROPERTIES, "'$.a' - is required"), Fault(PROPERTY_VALUE, "'$.b' - is wrong", "Wrong."))
    body = listed(Refusal(REQUIRED_PROPERTIES, "two", faults=faults))
    assert [cause["description"] for cause in body["cause"]] == [f"{MISSING[:-1]}: '$.a'.", "Wrong: '$.b' is wrong."]
    assert (body["error"], body["message"]) == ("required_properties", f"{MISSING[:-1]}: '$.a'.")
    assert [error["message"] for error in body["errors"]] == [MISSING, "Wrong."]


def test_the_message_of_a_401_is_constant() -> None:
    """Clients compare it; the detail is in the cause."""
    body = listed(UNAUTHORIZED.with_reason("expired", "it has expired"))
    assert (body["message"], body["code"]) == ("invalid access token", "unauthorized")
    assert body["cause"] == [{"code": "unauthorized", "description": "invalid access token: it has expired."}]


def test_further_members_are_added() -> None:
    """`extra` stays beside them."""
    refusal = PROPERTY_VALUE.with_reason("x")
    refusal.extra = {"recorded": True}
    assert listed(refusal)["recorded"] is True


def test_a_flat_body_has_one_text() -> None:
    """`message` and `error_description` are equal, and there is no cause."""
    body = flat(PROPERTY_VALUE.with_reason("x", message="state is not a known parameter."))
    assert body["message"] == body["error_description"] == "state is not a known parameter."
    assert body["cause"] == []
