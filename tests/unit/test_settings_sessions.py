"""The settings of sellers' sessions: their defaults, and that a wrong one is named."""

from __future__ import annotations

import pytest

from paydesk.platform.settings import Settings, SettingsError, load


def test_a_session_lasts_12_hours_and_30_minutes_without_use() -> None:
    """Unless the settings say otherwise."""
    settings = Settings()
    assert (settings.session_hours, settings.session_idle_minutes) == (12, 30)


@pytest.mark.parametrize(
    ("text", "said"),
    [("4", "greater than or equal to 5"), ("525601", "less than or equal to 525600"), ("PT30M", "valid integer")],
)
def test_an_invalid_idle_time_is_named(text: str, said: str) -> None:
    """With what was expected; less than 5 minutes would be less than the last use is exact."""
    with pytest.raises(SettingsError, match=f"PAYDESK_SESSION_IDLE_MINUTES: .*{said}"):
        load({"PAYDESK_SESSION_IDLE_MINUTES": text})
