"""The settings of unknown outcomes: a payment is not given up while its terminal may still make it."""

from __future__ import annotations

import pytest

from paydesk.engine.payments.acquirer import RESPONSE_SECONDS_MAX
from paydesk.platform.settings import Settings, SettingsError, load


def test_a_payment_that_is_not_found_is_given_up_two_minutes_after_the_permit() -> None:
    """That is longer than the permit and the acquirer's response take."""
    settings = Settings()
    assert settings.inquiry_not_found_seconds == 120
    assert settings.inquiry_not_found_seconds >= settings.grant_seconds + RESPONSE_SECONDS_MAX


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"PAYDESK_INQUIRY_NOT_FOUND_SECONDS": "89"}, "PAYDESK_INQUIRY_NOT_FOUND_SECONDS: must be at least 90"),
        ({"PAYDESK_GRANT_SECONDS": "91"}, "inquiry_not_found_seconds: must be at least 121"),
        (
            {"PAYDESK_GRANT_SECONDS": "300", "PAYDESK_INQUIRY_NOT_FOUND_SECONDS": "300"},
            "PAYDESK_INQUIRY_NOT_FOUND_SECONDS: must be at least 330: grant_seconds and 30 s for the acquirer's answer",
        ),
    ],
)
def test_a_payment_must_not_be_given_up_while_it_may_be_made(variables: dict[str, str], said: str) -> None:
    """Also if only the permit's setting was raised."""
    with pytest.raises(SettingsError, match=said):
        load(variables)


def test_both_settings_can_be_raised_together() -> None:
    """The shortest wait is the permit and the acquirer's response."""
    settings = load({"PAYDESK_GRANT_SECONDS": "120", "PAYDESK_INQUIRY_NOT_FOUND_SECONDS": "150"})
    assert (settings.grant_seconds, settings.inquiry_not_found_seconds) == (120, 150)


def test_an_invalid_permit_is_named_alone() -> None:
    """The wait that depends on it is not judged by it."""
    with pytest.raises(SettingsError, match=r"^PAYDESK_GRANT_SECONDS: ") as refused:
        load({"PAYDESK_GRANT_SECONDS": "0"})
    assert "\n" not in str(refused.value)
