"""What is wrong with a form of the console is said at the field that it is about, without the path in the request."""

from __future__ import annotations

import pytest

from paydesk.console.api import ApiRefused
from paydesk.console.field import Field
from paydesk.console.form_faults import broken, faults_of

FIELDS = (
    Field("amount", "Amount in BRL", noun="amount"),
    Field("tips", "Percentages", sets=("tip_percentages",), required=False),
    Field("url", "URL", required=False),
    Field("key", "X-Idempotency-Key", required=False, maxlength=5),
    Field("anew", "Pair it again", "checkbox"),
)


def refused(*details: str) -> ApiRefused:
    """Return the refusal of a request with these details."""
    return ApiRefused(400, "property_value", "A property has a value that is not allowed.", details, "1")


@pytest.mark.parametrize(
    ("detail", "name", "sentence"),
    [
        ("'$.transactions[0].amount' - must be at most 21.40", "amount", "The amount must be at most 21.40."),
        ("'$.tip_percentages[1]' - must be below 100", "tips", "The percentages must be below 100."),
        ("'$.url' - is required", "url", "The URL is needed."),
        ("'key' - is taken", "key", "The X-Idempotency-Key is taken."),
        ("'anew' - is required", "anew", "Set this check mark to go on."),
    ],
)
def test_a_broken_rule_is_at_its_field(detail: str, name: str, sentence: str) -> None:
    """By the last name in the path that a field has."""
    found = faults_of(FIELDS, refused(detail))
    assert (dict(found.at), list(found.others), found.first) == ({name: sentence}, [], name)


def test_other_rules_are_said_of_the_form() -> None:
    """Also without a path; a refusal without rules says its message."""
    found = faults_of(FIELDS, refused("'$.seller_id' - must be a seller's", "'$' - must have one of name, url"))
    assert list(found.others) == ["Seller id: must be a seller's.", "The request must have one of name, url."]
    assert list(faults_of(FIELDS, refused("it is paid")).others) == [refused().message, "It is paid."]


def test_fields_are_in_the_order_of_the_form() -> None:
    """The first one gets the focus."""
    found = faults_of(FIELDS, refused("'$.url' - is wrong", "'$.amount' - is wrong", "'$.amount' - is too much"))
    assert (list(found.at), found.first, found.at["amount"]) == (["amount", "url"], "amount", "The amount is wrong.")


def test_a_long_text_is_refused_with_its_length() -> None:
    """It is not cut; an empty optional field is nothing."""
    sent = {"amount": "1", "key": "123456", "anew": "yes"}
    assert broken(FIELDS, sent) == ["'key' - has 6 characters; at most 5 are possible"]
    assert broken(FIELDS, {"amount": "1", "anew": ""}) == ["'anew' - is required"]
