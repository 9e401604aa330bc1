"""The options of the HTTP adapter: each fault is one sentence that says what to change."""

from __future__ import annotations

import re
from datetime import time
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from paydesk.core.secrets import Secret
from paydesk.engine.payments.adapters.context import AcquirerState, AdapterContext, AdapterRefused
from paydesk.engine.payments.adapters.options import capabilities_of, secret_of
from paydesk.engine.payments.capabilities import Capabilities, DayClose
from paydesk.engine.payments.http.options import create
from tables import each

VALID = {"url": "https://switch.example/paydesk/", "key_id": "shop-1", "secret": "env:SWITCH_KEY"}


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCH_KEY", "0f" * 32)
    monkeypatch.setenv("SHORT_KEY", "0f" * 8)


def test_valid_options_make_an_acquirer() -> None:
    """It connects to nothing yet."""
    acquirer = create(
        "main", {**VALID, "capabilities": {"answer_seconds": 5}, "details": {"51": "high_risk"}}, AdapterContext()
    )
    assert acquirer.state == AcquirerState("https://switch.example/paydesk", "shop-1", "untested")
    assert acquirer.capabilities == Capabilities(answer_seconds=5)


@each(
    "options, sentence",
    [
        ({"url": None}, "Object missing required field `url`"),
        ({"url": "switch.example"}, "`url` must be like https://switch.example/paydesk"),
        ({"url": "https://a:b@switch.example"}, "`url` must be like"),
        ({"url": "https://switch.example?x=1"}, "`url` must be like"),
        ({"url": "https://switch.example:x"}, "`url` must be like"),
        ({"url": "http://switch.example"}, "payments would be sent unencrypted. Use https://"),
        ({"url": "http://127.0.0.1", "ca_file": "ca.pem"}, "need an https address"),
        ({"urls": "x"}, "unknown field `urls`: it has ca_file, capabilities, client_certificate, client_key, details,"),
        ({"capabilities": {"at_deadline": "x"}}, "at `$.at_deadline`: use confirms, undoes, blocks"),
        ({"capabilities": {"idempotent": ["x"]}}, "at `$.idempotent[0]`: use authorize, confirm, reverse, refund"),
        ({"key_id": None}, "`key_id` is needed"),
        ({"key_id": "a,b"}, "`key_id` is needed"),
        ({"secret": None}, "`secret` is missing, and there is no `client_certificate`"),
        ({"secret": "0f0f"}, '`secret` must be "file:PATH" or "env:NAME"'),
        ({"secret": ["env:SWITCH_KEY"] * 3}, "may have two values"),
        ({"secret": "env:NO_KEY"}, "the secret in env:NO_KEY is missing or empty"),
        ({"secret": "env:SHORT_KEY"}, "has fewer than 32 characters: create one with `openssl rand -hex 32`"),
        ({"secret": "file:/none/key"}, "/none/key cannot be read: No such file or directory"),
        ({"details": {"51": "poor"}}, "`details` has `poor`; a detail is one of rejected_by_issuer"),
        ({"capabilities": {"can_ask": True}}, "`capabilities` has an unknown field `can_ask`: it has after_reverse"),
        ({"capabilities": {"can_inquire": 1}}, "`capabilities`: Expected `bool`, got `int` - at `$.can_inquire`"),
        ({"client_certificate": "/none.pem"}, "/none.pem cannot be read"),
        ({"ca_file": "/none.pem"}, "`ca_file` /none.pem cannot be used"),
    ],
)
def test_a_fault_is_refused_with_what_to_change(options: dict[str, object], sentence: str) -> None:
    """The message has no secret."""
    given = {name: value for name, value in {**VALID, **options}.items() if value is not None}
    with pytest.raises(AdapterRefused, match=re.escape(sentence)) as refused:
        create("main", given, AdapterContext())
    assert "0f0f" not in str(refused.value)


def test_capabilities_have_the_form_of_the_port() -> None:
    """Lists are sets, a closing hour has a time zone."""
    given = {
        "needs_confirmation": True,
        "confirm_before": {"time": "00:00", "zone": "America/Sao_Paulo"},
        "reverse_until": 3600,
        "at_deadline": "confirms",
        "idempotent": ["confirm", "reverse"],
        "currencies": ["BRL"],
    }
    assert capabilities_of(given) == Capabilities(
        needs_confirmation=True,
        confirm_before=DayClose(time(0), ZoneInfo("America/Sao_Paulo")),
        reverse_until=3600,
        at_deadline="confirms",
        idempotent=frozenset({"confirm", "reverse"}),
        currencies=frozenset({"BRL"}),
    )


@each(
    "value, sentence",
    [
        ({"time": "00:00"}, "`confirm_before` must be a number of seconds, or a closing hour such as"),
        ({"time": "25:00", "zone": "UTC"}, "`time` of `confirm_before` must be an hour of the day such as 00:00"),
        ({"time": "00:00Z", "zone": "UTC"}, "must have no offset"),
        ({"time": "00:00", "zone": "America/Nowhere"}, "must be a time zone such as America/Sao_Paulo"),
        ({"time": "00:00", "zone": "../etc/passwd"}, "must be a time zone such as America/Sao_Paulo"),
        ("midnight", "`confirm_before` must be a number of seconds, or a closing hour such as { time = "),
    ],
)
def test_a_closing_hour_is_an_hour_in_a_time_zone(value: object, sentence: str) -> None:
    """Each part is checked."""
    with pytest.raises(AdapterRefused, match=re.escape(sentence)):
        capabilities_of({"confirm_before": value})


def test_a_secret_is_in_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    """Without the spaces around it."""
    file = tmp_path / "switch.key"
    file.write_text(f"{'a' * 32}\n")
    file.chmod(0o640)
    with pytest.raises(AdapterRefused, match=f"other users of this machine can read {file}. Run: chmod 600 {file}"):
        secret_of(f"file:{file}")
    file.chmod(0o600)
    assert secret_of(f"file:{file}") == Secret("a" * 32)
