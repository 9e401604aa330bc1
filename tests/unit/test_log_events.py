"""`docs/log-events.md` has every event that the code logs, and no other, each with what to do."""

from __future__ import annotations

import ast
import re

import pytest
from tools.docs import log_events
from tools.docs.generated import DOCS
from tools.docs.log_events import collected, sentences

from tables import each


def test_every_event_of_the_code_has_its_sentences_and_the_reverse() -> None:
    """Name an event that the code logs in `log_events.toml`, and remove one that it no longer logs."""
    assert sentences().keys() == collected().keys()


def test_the_page_has_every_event_of_the_code_and_no_other() -> None:
    """Each once, in its first column."""
    page = (DOCS / "log-events.md").read_text("utf-8")
    assert sorted(re.findall(r"^\| `([a-z_]+)`", page, re.MULTILINE)) == sorted(collected())


def test_every_event_says_what_happened_and_what_to_do() -> None:
    """In sentences; and it names the fields that the syntax does not show, if there are some."""
    for name, said in sentences().items():
        assert said.keys() <= {"happened", "do", "fields"}, name
        assert said["happened"].rstrip(")").endswith("."), name
        assert said["do"].rstrip(")").endswith("."), name
        assert not collected()[name].is_open or "fields" in said, name


@each(
    "name, levels, fields",
    [
        ("request", {"error", "info"}, {"method", "path", "status", "request_id", "reason"}),
        ("job_failed", {"error", "warning"}, {"job", "order", "seller_id", "reason"}),
        ("clock_jumped", {"error"}, {"seconds", "reason"}),
        ("inquiry_answered", {"info"}, {"order", "seller_id", "terminal_id", "attempt", "outcome"}),
        ("delivery_failed", {"warning"}, {"delivery", "order", "seller_id", "request_id", "next_attempt"}),
        ("webhook_paused", {"warning"}, {"subject", "message"}),
        ("throttled", {"warning"}, {"what", "count", "address", "terminal_id"}),
    ],
)
def test_levels_and_fields_are_those_of_the_calls(name: str, levels: set[str], fields: set[str]) -> None:
    """Also where the event, the level or the fields are in variables, parameters and properties."""
    event = collected()[name]
    assert event.levels == levels
    assert fields <= event.fields


def test_an_event_that_cannot_be_found_is_an_error() -> None:
    """Rather than missing on the page."""
    call = ast.parse("log.info(made_up())").body[0]
    assert isinstance(call, ast.Expr)
    assert isinstance(call.value, ast.Call)
    with pytest.raises(LookupError, match=re.escape("log.info(made_up())")):
        list(log_events._logged(call.value, None, log_events.Source()))
