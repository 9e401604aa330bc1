"""Secrets and card numbers are masked in log lines; similar harmless values are not."""

from __future__ import annotations

import io
import json
import logging
import re
import time
from collections.abc import Iterator

import pytest
import structlog

from kept_logging import kept_logging
from paydesk.core.errors import NOT_FOUND, NOT_READY, SERVICE_UNAVAILABLE, Refusal
from paydesk.core.secrets import Secret
from paydesk.core.text.redaction import redacted
from paydesk.platform import logs
from paydesk.platform.http import request_log
from tables import each

HEX32, HEX40 = "fbad3ab32ad4f89bf1c385141ba5626a", "6500883a5f70750001bc46d26500883a5f707500"

SECRETS = [
    f"APP_USR-3676047501096810-091211-{HEX32}-1160535239",
    f"TEST-3676047501096810-091211-{HEX32}-1160535239",
    f"TG-{HEX40}-1160535239",
    f"PDT-{HEX40}-1160535239",
    f"PDO-{HEX40}",
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "BCDF-GHJK",
    HEX40 + HEX32,
    "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQ$RdescudvJCsgt3ub+b4dWRWJTmaaJObG",
    "4111111111111111",
    "4111 1111 1111 1111",
    "3782-822463-10005",
    "6304000000000000000",
]

HARMLESS = ["ORD01J67CQQH5904WDBVZEM4JMEP3", "PAYDESK_VIRTUAL__7F3A21", "2026-01-31T14:26:42.109Z",
            "3f0b9d4e-6c1a-4a8e-9c55-0d6b7a1e2f3c", "9f86d081884c7d659a2feaa0c55ad015", "4111111111111112",
            "1742505638", "TG-less", "POST /v1/orders 201"]  # fmt: skip


@each("secret", SECRETS)
def test_secret_is_masked(secret: str) -> None:
    """Alone, in a sentence, in a URL, and in a nested value."""
    for value in (secret, f"got {secret}, refused", {"body": [{"text": f"x={secret}"}]}, (secret,)):
        assert secret not in json.dumps(redacted(value))
        assert "***" in json.dumps(redacted(value))


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_text_is_not_masked(text: str) -> None:
    """Ids, times and numbers that are not card numbers are kept."""
    assert redacted(text) == text


@each(
    "name",
    ["password", "client_secret", "access_token", "refresh_token", "Authorization", "set-cookie", "code_verifier",
     "device_code", "user_code", "webhook_secret", "card_number", "pan"],
)  # fmt: skip
def test_value_of_a_secret_name_is_masked(name: str) -> None:
    """Whatever the value is."""
    assert redacted({name: "plain"}) == {name: "***"}


@pytest.mark.parametrize("name", ["code", "error", "status_detail", "x-idempotency-key", "token_type"])
def test_value_of_another_name_is_not_masked(name: str) -> None:
    """Names without secrets keep their values."""
    assert redacted({name: "invalid_grant"}) == {name: "invalid_grant"}


def test_card_number_as_a_number_is_masked() -> None:
    """An application's number is kept, even if it passes the Luhn check."""
    assert redacted({"seen": 4111111111111111}) == {"seen": "***"}
    assert redacted({"client_id": 4111111111111111, "user_id": 5}) == {"client_id": 4111111111111111, "user_id": 5}


def test_other_types_are_masked() -> None:
    """Bytes as their length, secrets as a mask, anything else as masked text."""
    assert redacted(b"TG-...") == "<6 bytes>"
    assert redacted(Secret("hidden")) == "***"
    assert redacted(ValueError(f"bad PDO-{HEX40}")) == "bad PDO-***"


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Yield a stream for the logs of a test; restore the logging configuration afterwards."""
    with kept_logging():
        yield io.StringIO()


def test_log_line_is_json_without_a_terminal(stream: io.StringIO) -> None:
    """Secrets in a traceback are masked."""
    logs.configure("auto", stream)
    try:
        raise ValueError(f"unknown PDO-{HEX40}")
    except ValueError:
        structlog.get_logger("request").exception("failed", path=f"/?code=TG-{HEX40}-1")
    line = json.loads(stream.getvalue())
    assert line["event"] == "failed"
    assert line["level"] == "error"
    assert line["path"] == "/?code=TG-***"
    assert "ValueError: unknown PDO-***" in line["exception"]


def test_text_log_line_is_masked(stream: io.StringIO) -> None:
    """As JSON lines are."""
    logs.configure("text", stream)
    structlog.get_logger("request").info("POST /oauth/token", status=200, token="x")
    assert "POST /oauth/token" in stream.getvalue()
    assert "status=200" in stream.getvalue()
    assert "token=***" in stream.getvalue()


def test_standard_library_logs_have_the_same_format(stream: io.StringIO) -> None:
    """They are masked, and informational messages are dropped."""
    logs.configure("json", stream)
    logging.getLogger("uvicorn.error").info("Started server process")
    logging.getLogger("asyncio").error("Task failed: %s", f"TG-{HEX40}-1")
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["event"] == "Task failed: TG-***"
    assert json.loads(line)["logger"] == "asyncio"


def _request_line(path: str, refusal: Refusal | None = None) -> None:
    status = refusal.kind.status if refusal else 200
    request_log.write("GET", path, status, "own-id", time.perf_counter(), refusal, "203.0.113.9")


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_failed_requests_are_errors_at_every_level(stream: io.StringIO, log_format: logs.LogFormat) -> None:
    """At `warning` other request lines are dropped, also those of readiness checks by a load balancer."""
    for level, lines in (("warning", 1), ("info", 4)):
        stream.truncate(stream.seek(0))
        logs.configure(log_format, stream, level)  # type: ignore[arg-type]  # both are levels
        not_ready = NOT_READY.with_reason("draining")
        for refusal in (
            None,
            NOT_FOUND.with_reason("no such path"),
            not_ready,
            SERVICE_UNAVAILABLE.with_reason("disk full"),
        ):
            _request_line("/v1/orders", refusal)
        written = stream.getvalue().splitlines()
        assert len(written) == lines
        assert ["error" in line.split("request")[0] for line in written] == [False] * (lines - 1) + [True]
        assert "disk full" in written[-1]


def test_request_line_has_the_fields_of_structlog(stream: io.StringIO) -> None:
    """In the same order."""
    logs.configure("json", stream)
    structlog.get_logger("request").info("request", method="GET")
    _request_line("/v1/orders", NOT_FOUND.with_reason("no such path"))
    other, line = map(json.loads, stream.getvalue().splitlines())
    assert list(line)[:4] == list(other)
    assert (line["level"], line["event"], line["path"], line["status"]) == ("info", "request", "/v1/orders", 404)
    assert (line["request_id"], line["error"], line["reason"]) == ("own-id", "not_found", "no such path")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["timestamp"])


@pytest.mark.parametrize("secret", [f"TG-{HEX40}-1", "4111 1111 1111 1111", f"PDT-{HEX40}-1"])
def test_request_lines_are_masked(stream: io.StringIO, secret: str) -> None:
    """Secrets in the path and in the reason are masked."""
    logs.configure("json", stream)
    _request_line(f"/v1/orders/{secret}", NOT_FOUND.with_reason(f"{secret} is unknown"))
    assert secret not in stream.getvalue()
    line = json.loads(stream.getvalue())
    assert "***" in line["path"]
    assert "***" in line["reason"]


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_warning_level_drops_request_lines(stream: io.StringIO, log_format: logs.LogFormat) -> None:
    """Warnings are still written."""
    logs.configure(log_format, stream, level="warning")
    _request_line("/v1/orders")
    structlog.get_logger("serve").info("listening")
    assert not stream.getvalue()
    structlog.get_logger("serve").warning("slow")
    assert "slow" in stream.getvalue()
