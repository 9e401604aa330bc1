"""The pages without a database: languages, texts, the checks of authorization requests, and addresses."""

from __future__ import annotations

import re
import string
import tomllib
import urllib.parse
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest

import paydesk.engine.oauth.pages
import paydesk.platform.web
from oauth_scene import ALL_SCOPES, CHALLENGE, REDIRECT_URI
from paydesk.core.errors import Refusal
from paydesk.engine.oauth.clients.authentication import Application
from paydesk.engine.oauth.consent import authorization
from paydesk.engine.oauth.pages.operations import OPERATIONS
from paydesk.platform.http.refusals.error_responses import may_answer
from paydesk.platform.web.language import LANGUAGES, choose, texts
from paydesk_dev.virtual.operations import PAGE_OPERATIONS as VIRTUAL
from tables import each

CLIENT_ID = 1234567890123456
APPLICATION = Application(
    application_id=CLIENT_ID,
    name="Till",
    redirect_uris=(REDIRECT_URI,),
    scopes=ALL_SCOPES,
    pkce_required=False,
    on_replay="revoke",
    test_tokens=False,
    public_key_live="",
    public_key_test="",
    suspended_ms=None,
    created_ms=0,
)
GOOD = {"client_id": str(CLIENT_ID), "response_type": "code", "redirect_uri": REDIRECT_URI, "state": "s"}


def _fault(application: Application = APPLICATION, /, **parameters: str) -> tuple[str, str] | None:
    request = authorization.read(urllib.parse.urlencode({**GOOD, **parameters}))
    found = authorization.find_fault(request, application)
    return (found.error, found.description.partition(" ")[0]) if found is not None else None


@each(
    "header, language",
    [
        ("", "en"),
        ("pt-BR,pt;q=0.9,en-US;q=0.8,en;q=0.7", "pt"),
        ("es-419", "es"),
        ("ES", "es"),
        ("de-DE,de;q=0.9,es;q=0.5,en;q=0.4", "es"),
        ("de", "en"),
        ("en;q=0.1, pt;q=0.2", "pt"),
        ("en;q=0, pt;q=0.001", "pt"),
        ("pt;q=0, es;q=0", "en"),
        ("*", "en"),
        ("en;q=0.2, *;q=0.5", "pt"),
        ("pt;q=nan, es;q=0.1", "es"),
        ("pt;q=9, es;q=0.1", "es"),
        (";;,,=,q=1", "en"),
        ("pt;q=" + "9" * 5000, "en"),
    ],
)
def test_the_language_with_the_highest_weight(header: str, language: str) -> None:
    """Whatever the country; English if none is available."""
    assert choose(header) == language


def _flat(document: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in document.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


def _document(language: str) -> dict[str, Any]:
    return _flat(tomllib.loads(files("paydesk.platform.web").joinpath("texts", f"{language}.toml").read_text("utf-8")))


def _places(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_every_text_exists_in_every_language() -> None:
    """With the same placeholders and twelve months; and none is the same in all languages."""
    documents = {language: _document(language) for language in LANGUAGES}
    english = documents["en"]
    for language, document in documents.items():
        assert set(document) == set(english), language
        assert len(document["months"]) == 12
        for name, text in document.items():
            if isinstance(text, str):
                assert text.strip() == text != "", (language, name)
                assert _places(text) == _places(english[name]), (language, name)
    for name, text in english.items():
        assert any(document[name] != text for document in documents.values()), name


def test_every_text_is_used_and_every_used_one_exists() -> None:
    """The names in templates and handlers are those of the texts, and no text is unused."""
    folders = [Path(package.__file__ or "").parent for package in (paydesk.engine.oauth.pages, paydesk.platform.web)]
    sources = [path for folder in folders for path in (*folder.glob("*.py"), *folder.glob("templates/*.html"))]
    written = "\n".join(source.read_text("utf-8") for source in sources)
    named = set(re.findall(r'(?<!\w)(?:t|words|self)\("([\w.]+)"[,)]', written))
    notices = {f"sign_in.{name}" for name in ("failed", "throttled", "outdated", "ended")}
    scopes = {f"scope.{name}" for name in ALL_SCOPES.split(" ")}
    codes = {kind.code for row in (*OPERATIONS, *VIRTUAL) for kind in may_answer(row)} | {"method_not_allowed"}
    shown = {f"error.{code}.{part}" for code in codes for part in ("title", "text")}
    there = set(_document("en")) - {"months"}
    assert named | notices | scopes <= there
    assert there <= named | notices | scopes | shown


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_error_of_the_pages_has_its_text(language: str) -> None:
    """An error that only pages answer has its own text for sellers."""
    words = texts(language)
    own = {kind.code for row in OPERATIONS for kind in row.errors}
    assert [code for code in own if f"error.{code}.title" not in words] == []


@each(
    "parameters, fault",
    [
        ({}, None),
        ({"platform_id": "mp"}, None),
        ({"scope": "read"}, None),
        ({"scope": ""}, None),
        ({"state": ""}, None),
        ({"state": "s" * 2048}, None),
        ({"state": "ção \U0001f600 <>&\"' %+"}, None),
        ({"code_challenge": CHALLENGE, "code_challenge_method": "S256"}, None),
        ({"code_challenge": CHALLENGE, "code_challenge_method": "s256"}, None),
        ({"state": "s" * 2049}, ("invalid_request", "state")),
        ({"state": "a\nb"}, ("invalid_request", "state")),
        ({"state": "a\x00"}, ("invalid_request", "state")),
        ({"response_type": ""}, ("invalid_request", "response_type")),
        ({"response_type": "token"}, ("unsupported_response_type", "response_type")),
        ({"response_type": "code token"}, ("unsupported_response_type", "response_type")),
        ({"response_type": "CODE"}, ("unsupported_response_type", "response_type")),
        ({"code_challenge": CHALLENGE}, ("invalid_request", "code_challenge")),
        ({"code_challenge_method": "S256"}, ("invalid_request", "code_challenge")),
        (
            {"code_challenge": CHALLENGE, "code_challenge_method": "plain"},
            ("invalid_request", "code_challenge_method"),
        ),
        (
            {"code_challenge": CHALLENGE[:-1], "code_challenge_method": "S256"},
            ("invalid_request", "code_challenge"),
        ),
        (
            {"code_challenge": CHALLENGE[:-1] + "=", "code_challenge_method": "S256"},
            ("invalid_request", "code_challenge"),
        ),
        (
            {"code_challenge": CHALLENGE[:-1] + "é", "code_challenge_method": "S256"},
            ("invalid_request", "code_challenge"),
        ),
        ({"scope": "read read"}, ("invalid_scope", "scope")),
        ({"scope": "read  write"}, ("invalid_scope", "scope")),
        ({"scope": " read"}, ("invalid_scope", "scope")),
        ({"scope": "admin"}, ("invalid_scope", "scope")),
        ({"scope": "READ"}, ("invalid_scope", "scope")),
        # Of two faults the earlier one.
        ({"state": "s" * 2049, "response_type": "token"}, ("invalid_request", "state")),
        ({"response_type": "", "scope": "admin"}, ("invalid_request", "response_type")),
        ({"code_challenge": CHALLENGE, "response_type": "token"}, ("invalid_request", "code_challenge")),
        ({"response_type": "token", "scope": "admin"}, ("unsupported_response_type", "response_type")),
    ],
)
def test_the_first_failed_check_is_sent_to_the_application(
    parameters: dict[str, str], fault: tuple[str, str] | None
) -> None:
    """In the order of the checks."""
    assert _fault(**parameters) == fault


def test_an_application_must_use_required_pkce_and_its_own_scopes() -> None:
    """PKCE can be required by application, and the scopes are at most the application's."""
    strict = msgspec.structs.replace(APPLICATION, pkce_required=True, scopes="read")
    challenge = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}
    assert _fault(strict) == ("invalid_request", "code_challenge")
    assert _fault(strict, **challenge) is None
    assert _fault(strict, **challenge, scope="read write") == ("invalid_scope", "scope")
    assert authorization.scope(authorization.read(""), strict) == "read"


def test_a_state_that_is_not_utf_8_is_returned_unchanged() -> None:
    """It is refused, and the refusal has the same bytes."""
    request = authorization.read("state=%FF%00x")
    assert authorization.find_fault(request, APPLICATION) is not None
    address = authorization.response_uri(REDIRECT_URI, state=request.state, issuer="i", error="invalid_request")
    assert address.endswith("&state=%FF%00x&iss=i")


@pytest.mark.parametrize(
    "query",
    [
        "client_id=1&client_id=1",
        "state=&state=s",
        "unknown=1&unknown=2",
        "client%5Fid=1&client_id=2",
        "&=&=",
    ],
)
def test_a_repeated_parameter_is_refused(query: str) -> None:
    """However it is encoded, known or unknown."""
    with pytest.raises(Refusal) as refused:
        authorization.read(query)
    assert refused.value.kind.code == "doubled_parameter"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://till.example/cb", "https://till.example/cb?code=C&state=s&iss=https%3A%2F%2Fpay.example"),
        ("https://till.example/cb?a=1", "https://till.example/cb?a=1&code=C&state=s&iss=https%3A%2F%2Fpay.example"),
        ("https://till.example/cb?", "https://till.example/cb?code=C&state=s&iss=https%3A%2F%2Fpay.example"),
        ("https://till.example", "https://till.example?code=C&state=s&iss=https%3A%2F%2Fpay.example"),
    ],
)
def test_the_response_is_added_to_the_redirect_uri(address: str, expected: str) -> None:
    """The address keeps its own query."""
    assert authorization.response_uri(address, state="s", issuer="https://pay.example", code="C") == expected


def test_an_authorization_request_survives_as_a_path() -> None:
    """The path has all parameters and is read as the same request."""
    request = authorization.read(urllib.parse.urlencode({**GOOD, "state": "ção &?#/<", "scope": "read write"}))
    path = request.path()
    assert path.startswith("/authorization?")
    assert path.isascii()
    assert authorization.read(path.partition("?")[2]) == request
