"""The token endpoints over HTTP: the formats of a request, and what is refused before authentication."""

from __future__ import annotations

import gzip
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote_plus, urlencode

import pytest
from structlog.testing import capture_logs

from oauth_scene import Scene
from paydesk.core.clock import MovableClock
from paydesk.core.errors import INVALID_REQUEST
from paydesk.platform.http.request import SANDBOX_HEADER_GONE
from paydesk.platform.storage.connect import open_database
from service import Reply, Service, running

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
PATHS = ("/oauth/token", "/oauth/revoke", "/oauth/introspect")
KIB = 1024
VERIFIER_RULE = "must be 43 to 128 characters out of letters, digits and - . _ ~"

every_path = pytest.mark.parametrize("path", PATHS)


@pytest.fixture
async def wired(sqlite_url: str) -> AsyncIterator[Service]:
    """A service whose scene has the service's clock; what is checked here comes before any database."""
    database, clock = await open_database(sqlite_url), MovableClock()
    async with running(database, clock=clock, workers=False) as service:
        service.scene.clock = clock
        yield service
    await database.close()


async def body_for(scene: Scene, path: str) -> dict[str, Any]:
    """A request without a fault."""
    token = (await scene.tokens())["refresh_token"]
    return scene.refresh(token) if path == "/oauth/token" else scene.presented(token)


async def post(service: Service, path: str, data: bytes, content_type: str | None, **headers: str) -> Reply:
    """A request of these bytes."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    skipped = {"Content-Type": content_type} if content_type is not None else {}
    return await service.request("POST", path, data=data, token=None, key=None, headers={**skipped, **sent})


@contextmanager
def reasons() -> Any:
    """The exact reasons that the log has of what is refused meanwhile."""
    found: list[str] = []
    with capture_logs() as lines:
        yield found
    found += [line["reason"] for line in lines if line["event"] == "request" and "reason" in line]
    assert not [line for line in lines if line["event"] in ("unhandled_exception", "undeclared_error")]


def as_form(body: dict[str, Any]) -> bytes:
    """The body as a form."""
    return urlencode(body).encode()


def as_json(body: Any) -> bytes:
    """The body as JSON."""
    return json.dumps(body).encode()


@every_path
async def test_json_and_forms_get_the_same_answer(wired: Service, path: str) -> None:
    """200 with flat JSON and `no-store`, each header once."""
    for content_type, encoded in (
        (JSON, as_json),
        ("application/json; charset=UTF-8", as_json),
        ("Application/JSON;charset=utf-8", as_json),
        (FORM, as_form),
        (f"{FORM}; charset=utf-8", as_form),
    ):
        reply = await post(wired, path, encoded(await body_for(wired.scene, path)), content_type)
        assert (reply.status, reply.headers["content-type"]) == (200, JSON), content_type
        assert reply.headers.getall("cache-control") == ["no-store"]
        assert reply.headers.getall("pragma") == ["no-cache"]


@every_path
async def test_headers_of_other_interfaces_are_ignored(wired: Service, path: str) -> None:
    """Official clients send their access token and an idempotency key here too, valid or not."""
    for headers in (
        {"Authorization": "Bearer APP_USR-nobodys"},
        {"X_Idempotency_Key": "x" * 100},
        {"X_Test_Token": "true", "X_Platform_Id": "x"},
    ):
        reply = await post(wired, path, as_json(await body_for(wired.scene, path)), JSON, **headers)
        assert reply.status == 200, headers


@every_path
async def test_an_unreadable_body_is_refused(wired: Service, path: str) -> None:
    """Row 2 of the table of errors: code, status and exact reason, without effect."""
    body = await body_for(wired.scene, path)
    form, document = as_form(body), as_json(body)
    large = as_json({**body, "client_secret": "x" * 64 * KIB})
    twice = b"a field was sent twice"
    cases: list[tuple[bytes, str | None, dict[str, str], str]] = [
        (b"", None, {}, "client_id is missing"),
        (b"", JSON, {}, "client_id is missing"),
        (b"{}", JSON, {}, "client_id is missing"),
        (document, "text/plain", {}, "content type 'text/plain'"),
        (document, "", {}, "content type ''"),
        (form, "multipart/form-data; boundary=x", {}, "content type 'multipart/form-data'"),
        (document, "application/json; charset=latin-1", {}, "charset is not UTF-8"),
        (form, f"{FORM}; charset=iso-8859-1", {}, "charset is not UTF-8"),
        (gzip.compress(document), JSON, {"Content_Encoding": "gzip"}, "content-encoding was sent"),
        (document, JSON, {"X_Test_Scope": "sandbox"}, "x-test-scope was sent"),
        (large, JSON, {}, "body of more than 65536 bytes"),
        (form + b"&scope=" + b"x" * 64 * KIB, FORM, {}, "body of more than 65536 bytes"),
        (form, JSON, {}, "expected"),
        (document, FORM, {}, "JSON sent as a form"),
        (form + b"&client_id=1", FORM, {}, twice.decode()),
        (form + b"&client%5Fid=1", FORM, {}, twice.decode()),
        (document[:-1] + b', "client_id": "1"}', JSON, {}, "Detected duplicate key"),
        (form + b"&" + b"a" * 129 + b"=1", FORM, {}, "long name"),
        (document[:-1] + b', "%s": "1"}' % (b"a" * 129), JSON, {}, "long name"),
        (form + b"&state=x", FORM, {}, "a parameter is unknown"),
        (document[:-1] + b', "state": "x"}', JSON, {}, "a parameter is unknown"),
        (form + b"&" + b"&".join(b"p%d=" % number for number in range(60)), FORM, {}, "the form is not well-formed"),
        (form + b"%00", FORM, {}, "the form contains control characters or invisible characters"),
        (form + b"%FF", FORM, {}, "the form is not well-formed"),
        (form + b"%ED%A0%80", FORM, {}, "the form is not well-formed"),
        ("é".encode() + form, FORM, {}, "the form is not well-formed"),
        (b"[" + document + b"]", JSON, {}, "the body is not an object"),
        (b"null", JSON, {}, "the body is not an object"),
        (document + b"x", JSON, {}, "trailing characters"),
        (document.decode().encode("utf-16"), JSON, {}, "expected"),
        (b"\xef\xbb\xbf" + document, JSON, {}, "expected"),
        (document[:-1] + b', "scope": "\\ud800"}', JSON, {}, "unexpected end of hex escape"),
        (document[:-1] + b', "scope": NaN}', JSON, {}, "expected"),
    ]
    for data, content_type, headers, expected in cases:
        with reasons() as found:
            reply = await post(wired, path, data, content_type, **headers)
        shown = (data[:80], content_type, headers, found)
        assert (reply.status, reply.code) == (400, "invalid_request"), shown
        assert set(reply.body) == {"message", "error", "error_description", "status", "cause"}, shown
        assert reply.body["message"] == reply.body["error_description"], shown
        assert any(expected in reason for reason in found), shown
    assert (await post(wired, path, document, JSON)).status == 200


@every_path
async def test_json_sent_as_a_form_is_named_without_its_values(wired: Service, path: str) -> None:
    """Read as a form, the beginning of the document with its values would be the name of a parameter."""
    body = {"code_verifier": "value-that-no-answer-has=", **await body_for(wired.scene, path)}
    indented = json.dumps(body, indent=2)
    documents = as_json(body), indented.encode(), f"\n {indented}".encode(), as_json([body])
    quoted = [quote_plus(document) for document in documents]
    sent = (*documents, *(text.encode() for text in quoted), *(f"{text}=".encode() for text in quoted))
    message = (
        "The body is JSON, but Content-Type says application/x-www-form-urlencoded:"
        " send Content-Type: application/json."
    )
    for data in sent:
        for content_type in (FORM, f"{FORM}; charset=UTF-8"):
            await _is_named(await post(wired, path, data, content_type), message, "value-that")


@every_path
async def test_the_message_names_the_parameter(wired: Service, path: str) -> None:
    """Missing, empty, unknown, repeated or malformed: named as JSON and as a form, masked, and never its value."""
    body = await body_for(wired.scene, path)
    without = {name: value for name, value in body.items() if name != "client_secret"}
    value = "never-in-a-response"
    long, card, odd = "x" * 70, "4509953566233704", 'a"b é'
    digits, unknown = "client_id must be a string of digits.", "is not a known parameter."
    last = "grant_type" if path == "/oauth/token" else "token"
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "client_id is missing."),
        (without, "client_secret is missing."),
        ({**body, "client_secret": ""}, "client_secret is missing."),
        ({name: sent for name, sent in body.items() if name != last}, f"{last} is missing."),
        ({**body, "state": value}, f"state {unknown}"),
        ({**body, long: value}, f'"{long[:64]}" {unknown}'),
        ({**body, card: value}, f'"***" {unknown}'),
        ({**body, odd: value}, f'"a\\"b \\u00e9" {unknown}'),
        ({**body, last: f"{value}\x00"}, f"{last} must not contain control characters or invisible characters."),
    ]
    if path == "/oauth/token":
        cases += [
            ({**body, "code": value}, "code must not be sent with grant_type refresh_token."),
            ({**body, "code_verifier": "short"}, f"code_verifier {VERIFIER_RULE}."),
            ({**body, "test_token": value}, "test_token must be true or false."),
        ]
    for sent, message in cases:
        for content_type, encoded in ((JSON, as_json), (FORM, as_form)):
            await _is_named(await post(wired, path, encoded(sent), content_type), message, value)
    for sent, message in (
        ({**body, "client_id": [value]}, digits),
        ({**body, "client_id": 1.5}, digits),
        ({**body, last: {value: value}}, f"{last} must be a string."),
        ({**body, "client_secret": None}, "client_secret must not be null."),
    ):
        await _is_named(await post(wired, path, as_json(sent), JSON), message, value)
    document, form = as_json(body), as_form(body)
    for data, content_type, message in (
        (document[:-1] + f', "{last}": "{value}"}}'.encode(), JSON, f"{last} is sent twice."),
        (document[:-1] + f', "{card}": 1, "{card}": "{value}"}}'.encode(), JSON, '"***" is sent twice.'),
        (form + f"&{last}={value}".encode(), FORM, f"{last} is sent twice."),
        (form + f"&{card}=1&{card}={value}".encode(), FORM, '"***" is sent twice.'),
        (form + f"&{'x' * 129}={value}".encode(), FORM, f'"{"x" * 64}" must be a name of at most 128 characters.'),
        (
            document[:-1] + f', "{card * 9}": "{value}"}}'.encode(),
            JSON,
            '"***" must be a name of at most 128 characters.',
        ),
    ):
        await _is_named(await post(wired, path, data, content_type), message, value)
    reply = await post(wired, f"{path}?{last}={value}", document, JSON)
    await _is_named(reply, f"{last} must be sent in the body, not in the query string.", value)
    reply = await post(wired, path, document, JSON, X_Test_Scope="sandbox")
    await _is_named(reply, SANDBOX_HEADER_GONE, value)


@every_path
async def test_an_unreadable_body_has_the_coarse_message(wired: Service, path: str) -> None:
    """A form in place of JSON, another type, no object: one sentence."""
    body = await body_for(wired.scene, path)
    for data, content_type in (
        (as_form(body), JSON),
        (as_json(body), "text/plain"),
        (as_json([body]), JSON),
        (b"{", JSON),
    ):
        await _is_named(await post(wired, path, data, content_type), INVALID_REQUEST.message, body["client_secret"])


async def _is_named(reply: Reply, message: str, value: str) -> None:
    """Check the flat body with this message, and that the value is not in it."""
    assert (reply.status, reply.body) == (
        400,
        {
            "message": message,
            "error": "invalid_request",
            "error_description": message,
            "status": 400,
            "cause": [],
        },
    )
    assert value.encode() not in reply.raw


@every_path
async def test_a_query_is_refused(wired: Service, path: str) -> None:
    """Addresses end up in logs, so not even a valid request may have a query."""
    document = as_json(await body_for(wired.scene, path))
    for query in ("client_secret=x", "x=", f"state={uuid.uuid4()}", "grant_type=refresh_token"):
        with reasons() as found:
            reply = await post(wired, f"{path}?{query}", document, JSON)
        assert (reply.status, reply.code, found) == (400, "invalid_request", ["parameters in the query string"])
    assert (await post(wired, f"{path}?", document, JSON)).status == 200


@every_path
async def test_an_unreadable_body_precedes_authentication(wired: Service, path: str) -> None:
    """An unknown client learns of a malformed request first, and otherwise only that it is unknown."""
    unknown = {**await body_for(wired.scene, path), "client_secret": "a guess"}
    malformed = await post(wired, path, as_json({**unknown, "state": "x"}), JSON)
    assert (malformed.status, malformed.code) == (400, "invalid_request")
    well_formed = await post(wired, path, as_json(unknown), JSON)
    assert (well_formed.status, well_formed.code) == (400, "invalid_client")
