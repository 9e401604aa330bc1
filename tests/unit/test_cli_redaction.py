"""Whatever looks like a secret or a card number is masked in a log line; what only resembles one stays readable."""

from __future__ import annotations

import io
import json
import logging
import re
import time
from collections.abc import Iterator

import pytest
import structlog

from paydesk import logs
from paydesk.core.errors import NOT_FOUND, SERVICE_UNAVAILABLE, Refusal
from paydesk.core.redaction import redacted
from paydesk.core.secrets import Secret
from paydesk.health.errors import NOT_READY
from paydesk.http import request_log

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

HARMLESS = [
    "ORD01J67CQQH5904WDBVZEM4JMEP3",
    "PAYDESK_VIRTUAL__7F3A21",
    "2026-01-31T14:26:42.109Z",
    "3f0b9d4e-6c1a-4a8e-9c55-0d6b7a1e2f3c",
    "9f86d081884c7d659a2feaa0c55ad015",
    "4111111111111112",
    "1742505638",
    "TG-less",
    "POST /v1/orders 201",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_masks(secret: str) -> None:
    """A secret is masked alone, within a sentence, within a URL, and deep inside a value."""
    for value in (secret, f"got {secret}, refused", {"body": [{"text": f"x={secret}"}]}, (secret,)):
        assert secret not in json.dumps(redacted(value))
        assert "***" in json.dumps(redacted(value))


@pytest.mark.parametrize("text", HARMLESS)
def test_leaves(text: str) -> None:
    """Ids, times and numbers that are no cards are written as they are."""
    assert redacted(text) == text


@pytest.mark.parametrize(
    "name",
    ["password", "client_secret", "access_token", "refresh_token", "Authorization", "set-cookie", "code_verifier",
     "device_code", "user_code", "webhook_secret", "card_number", "pan"],
)  # fmt: skip
def test_masks_by_name(name: str) -> None:
    """A value under a secret's name is masked whatever it looks like."""
    assert redacted({name: "plain"}) == {name: "***"}


@pytest.mark.parametrize("name", ["code", "error", "status_detail", "x-idempotency-key", "token_type"])
def test_leaves_by_name(name: str) -> None:
    """Names that carry no secret keep their value."""
    assert redacted({name: "invalid_grant"}) == {name: "invalid_grant"}


def test_numbers() -> None:
    """A card number that comes as a number is masked; an application's number is not, though it may pass Luhn."""
    assert redacted({"seen": 4111111111111111}) == {"seen": "***"}
    assert redacted({"client_id": 4111111111111111, "user_id": 5}) == {"client_id": 4111111111111111, "user_id": 5}


def test_other_values() -> None:
    """Bytes show their length only, secrets their mask, and whatever else its masked text."""
    assert redacted(b"TG-...") == "<6 bytes>"
    assert redacted(Secret("hidden")) == "***"
    assert redacted(ValueError(f"bad PDO-{HEX40}")) == "bad PDO-***"


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Logs go into a text for the test, and afterwards where they went before."""
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    yield io.StringIO()
    structlog.reset_defaults()
    request_log.configure(enabled=True, json_stream=None)
    root.handlers[:], root.level = before
    logging.getLogger("uvicorn.access").disabled = False


def test_json_lines(stream: io.StringIO) -> None:
    """Elsewhere than on a terminal a line is one JSON object, secrets of its traceback masked."""
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


def test_text_lines(stream: io.StringIO) -> None:
    """For people a line is text, masked in the same way."""
    logs.configure("text", stream)
    structlog.get_logger("request").info("POST /oauth/token", status=200, token="x")
    assert "POST /oauth/token" in stream.getvalue()
    assert "status=200" in stream.getvalue()
    assert "token=***" in stream.getvalue()


def test_standard_library(stream: io.StringIO) -> None:
    """What libraries log comes out in the same form, masked too; their chatter does not."""
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
    """With `warning` other lines are left out, that of a node that is not ready too: its balancer asks all the time."""
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


def test_request_lines(stream: io.StringIO) -> None:
    """A request's line is JSON with the fields that structlog would write, in the same order."""
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
    """What a path or a reason carries of a secret is masked in a request's line as everywhere else."""
    logs.configure("json", stream)
    _request_line(f"/v1/orders/{secret}", NOT_FOUND.with_reason(f"{secret} is unknown"))
    assert secret not in stream.getvalue()
    line = json.loads(stream.getvalue())
    assert "***" in line["path"]
    assert "***" in line["reason"]


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_warnings_alone(stream: io.StringIO, log_format: logs.LogFormat) -> None:
    """At the level `warning` a request writes no line, and what goes wrong is still told."""
    logs.configure(log_format, stream, level="warning")
    _request_line("/v1/orders")
    structlog.get_logger("serve").info("listening")
    assert not stream.getvalue()
    structlog.get_logger("serve").warning("slow")
    assert "slow" in stream.getvalue()
