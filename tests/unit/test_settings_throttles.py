"""The settings that throttle: all of them can be turned off, and development throttles failures alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from paydesk.platform.settings import THROTTLES, UNTHROTTLED, Settings, SettingsError, load
from paydesk_dev.dev.service import Options, overrides
from tables import each

OPTIONS = Options("127.0.0.1", 8377, Path(".paydesk"), Path("credentials.json"))


def in_development(**variables: str) -> Settings:
    """The settings of `paydesk dev` in that environment."""
    given = load(variables)
    return load(variables, **overrides(given, OPTIONS))


def test_development_throttles_failures_alone() -> None:
    """Requests are not limited; failed authentications are, with the default limits."""
    settings, production = in_development(), Settings()
    for name in THROTTLES:
        expected = getattr(production, name) if "failures" in name else 0
        assert getattr(settings, name) == expected, name


def test_explicit_settings_apply_in_development() -> None:
    """A rate that the environment sets is that rate."""
    settings = in_development(PAYDESK_TOKEN_REQUESTS_PER_SECOND="7")
    assert (settings.token_requests_per_second, settings.client_requests_per_second) == (7, 0)


def test_every_limit_can_be_turned_off() -> None:
    """Each that is named is a setting, whose name has its unit, and takes 0."""
    settings = load({}, **UNTHROTTLED)
    for name in THROTTLES:
        assert getattr(settings, name) == 0
        assert "_per_" in name


@each("name", THROTTLES)
def test_an_invalid_limit_is_named(name: str) -> None:
    """Below zero is refused, by the variable's name."""
    with pytest.raises(SettingsError, match=f"PAYDESK_{name.upper()}"):
        load({f"PAYDESK_{name.upper()}": "-1"})
