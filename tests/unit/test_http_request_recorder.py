"""What is kept of a request: how many a second, without secrets, and within bounds."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

from paydesk.core.errors import NOT_FOUND
from paydesk.platform.http.recording import recorder as request_recorder
from paydesk.platform.http.recording.recorder import BODY_CHARACTERS_MAX, BURST_SECONDS, WAITING_MAX, RequestRecorder
from paydesk.platform.http.recording.store import Recorded
from paydesk.platform.http.reply import Reply
from paydesk.platform.http.request import Request
from paydesk.platform.operation import Caller

ORDER_ID = "ORD01J67CQQH5904WDBVZEM4JMEP3"
HEX = "0123456789abcdef0123456789abcdef01234567"
SECRETS = {
    "client_secret": f"{HEX}{HEX[:24]}",
    "access_token": f"APP_USR-3676047501096810-091211-{HEX[:32]}-1160535239",
    "refresh_token": f"TG-{HEX}-1160535239",
    "code": f"TG-{HEX[::-1]}-1160535239",
    "password": "correct horse battery",
    "token": f"PDT-{HEX}-1160535239",
    "code_verifier": "a-verifier-of-a-client-that-is-long-enough-000",
    "card_number": "4509953566233704",
    "description": "card 4509 9535 6623 3704, token PDO-" + HEX,
}
PARTS = [SECRETS["password"], SECRETS["code_verifier"], HEX[:12], HEX[::-1][:12], "9535", "3566233"]
"""What nothing that is kept may contain."""
BEGAN = time.perf_counter()


def request(
    path: str = "/v1/orders",
    query: str = "",
    body: bytes = b"",
    *,
    method: str = "POST",
    caller: Caller | None = None,
    **headers: str,
) -> Request:
    """Return a request that was read."""
    made = Request(
        {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()],
        }
    )
    made.raw, made.caller = body, caller
    return made


def kept(sent: Request, reply: Reply | None = None, *, development: bool = True, **options: Any) -> Recorded:
    """Return what is kept of one request."""
    recorder = RequestRecorder(development=development)
    identity = options.get("identity", "own-id")
    recorder.note("create_order", sent, reply or Reply(200), identity, "203.0.113.9", time.perf_counter())
    (row,) = recorder.take(1_700_000_000_000)
    return row


def note(
    recorder: RequestRecorder, status: int, *, count: int = 1, authenticated: bool = True, seconds: float = 0
) -> None:
    """Leave requests that were answered with the status, so many seconds after this module was imported."""
    for _ in range(count):
        sent = request(caller=Caller(7, 1) if authenticated else None)
        recorder.note("create_order", sent, Reply(status), "own-id", "203.0.113.9", BEGAN + seconds)


def test_in_production_each_kind_of_request_has_its_rate() -> None:
    """Requests beyond it are counted; those of one kind take nothing from the others."""
    recorder, seconds = RequestRecorder(), 0
    rates = {
        200: request_recorder.SUCCEEDED_PER_SECOND,
        404: request_recorder.FAILED_PER_SECOND,
        401: request_recorder.UNAUTHENTICATED_PER_SECOND,
    }
    for restored, pause in ((BURST_SECONDS, 1), (1, 60), (BURST_SECONDS, 1)):
        for status in rates:
            note(recorder, status, count=500, authenticated=status != 401, seconds=seconds)
        seconds += pause
        rows = list(recorder.take(1))
        found = {status: sum(row.status == status for row in rows) for status in rates}
        assert found == {status: rate * restored for status, rate in rates.items()}
    assert recorder.dropped == 3 * 3 * 500 - (2 * BURST_SECONDS + 1) * sum(rates.values())


def test_a_burst_after_a_pause_is_kept() -> None:
    """Whether or not the waiting requests were taken in between: no worker takes them if there are none."""
    recorder = RequestRecorder()
    note(recorder, 200, count=BURST_SECONDS * request_recorder.SUCCEEDED_PER_SECOND)
    recorder.take(1)
    note(recorder, 200, count=BURST_SECONDS * request_recorder.SUCCEEDED_PER_SECOND, seconds=60)
    assert recorder.dropped == 0


def test_in_production_no_body_is_kept() -> None:
    """A buyer's data stays where it belongs."""
    row = kept(request(body=b'{"a": 1}', caller=Caller(7, 1)), Reply(201, b'{"id": "x"}'), development=False)
    assert (row.request_body, row.response_body) == (None, None)


def test_in_development_all_are_kept() -> None:
    """As long as they are written now and then."""
    recorder = RequestRecorder(development=True)
    note(recorder, 200, count=WAITING_MAX + 3)
    assert (len(list(recorder.take(1))), recorder.dropped) == (WAITING_MAX, 3)
    note(recorder, 200)
    recorder.forget()
    assert list(recorder.take(1)) == []


def test_the_worker_is_woken_by_what_is_kept() -> None:
    """And by nothing else."""
    woken: list[int] = []
    recorder = RequestRecorder()
    recorder.wake = lambda: woken.append(1)
    note(recorder, 200, count=1000)
    assert len(woken) == request_recorder.SUCCEEDED_PER_SECOND * BURST_SECONDS


@pytest.mark.parametrize("document", [SECRETS, {"outer": [SECRETS]}], ids=["flat", "nested"])
def test_no_secret_of_a_body_is_kept(document: Any) -> None:
    """Of the request or of the answer: as JSON, as a form, or cut off."""
    for body in (json.dumps(document).encode(), json.dumps(json.dumps(document)).encode(), form(SECRETS)):
        for sent in (body, body[:-20], b"x" * (BODY_CHARACTERS_MAX - 300) + b" " + body):
            row = kept(request(body=sent), Reply(200, sent))
            for text in (row.request_body, row.response_body):
                assert text is not None
                assert [part for part in PARTS if part in text] == []
                assert len(text) <= BODY_CHARACTERS_MAX


def test_no_value_of_an_unknown_field_is_kept() -> None:
    """Nor one of a `User-Agent`: it may be a verification value."""
    row = kept(request(body=b'{"card": {"cvvCode": "737"}, "type": "point"}', user_agent="shop/7 cvn=737"))
    assert (row.request_body, row.user_agent) == ('{"card": {"cvvCode": "***"}, "type": "point"}', "shop/7 cvn=***")


@pytest.mark.parametrize(
    "name", [r"code\u005fverifier", r"code\u005Fverifier", r"code\u002dverifier", r"c\u006fde_verifier"]
)
def test_no_secret_of_an_escaped_name_is_kept(name: str) -> None:
    """JSON may write any character of a name as an escape."""
    row = kept(request(body=f'{{"{name}": "plain words"}}'.encode()))
    assert row.request_body is not None
    assert "plain" not in row.request_body


def form(fields: dict[str, str]) -> bytes:
    """Return the body of a form."""
    return "&".join(f"{name}={value.replace(' ', '+')}" for name, value in fields.items()).encode()


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_no_secret_of_a_head_is_kept(name: str) -> None:
    """In the path or the query, also escaped once or twice; in headers, the request id and the reason."""
    value = SECRETS[name]
    escaped = "".join(f"%{byte:02X}" for byte in value.encode())
    twice = escaped.replace("%", "%25")
    for text in (value, value.replace(" ", "+"), escaped, twice):
        query = f"since=2026-01-31&{name}={text}"
        sent = request(f"/v1/{text}", query, user_agent=value, x_idempotency_key=value)
        reply = Reply(404, refusal=NOT_FOUND.with_reason(value))
        whole = json.dumps(kept(sent, reply, identity=value))
        found = [part for part in PARTS if part in whole and name not in ("password", "code_verifier")]
        assert found == []
        path = kept(sent, reply).path
        assert re.search(rf"\?since=2026-01-31&{name}=.*\*\*\*", path)
        assert escaped not in path
        assert twice not in path


def test_a_secret_in_the_name_of_a_parameter_is_masked() -> None:
    """Nothing of the parameter is kept then."""
    sent = request(query=f"a=1&{'%70DT-'.replace('%70', 'P')}{HEX}=x&{HEX}{'%3D'}")
    path = kept(sent).path
    assert HEX[:12] not in path
    assert path.startswith("/v1/orders?a=1&")


def test_plain_targets_are_kept_as_they_were_sent() -> None:
    """So that the request can be sent again."""
    for query in ("limit=2&after=01J67CQQH5904WDBVZEM4JMEP3", "since=2026-01-31T00%3A00%3A00Z", "q=a+b&&x", "a=%E9"):
        assert kept(request(query=query)).path == f"/v1/orders?{query}"


def test_what_is_kept_is_bounded_and_can_be_stored() -> None:
    """PostgreSQL stores no NUL and no half of a surrogate pair."""
    sent = request(
        "/v1/\x00" + "x" * 9000, "q=\x00&page=" + "y" * 9000, b"\x00\xff" + b"z" * 999_999, method="M" * 999,
        user_agent="u\x00" * 999, x_idempotency_key="k" * 999,
    )  # fmt: skip
    row = kept(sent, Reply(404, refusal=NOT_FOUND.with_reason("\ud800" * 9000)))
    assert (len(row.method), len(row.path), len(row.user_agent), len(row.idempotency_key or "")) == (20, 500, 200, 64)
    assert len(row.request_body or "") == BODY_CHARACTERS_MAX
    assert len(row.reason or "") == 500
    assert "\x00" not in "".join(str(value) for value in row)
    json.dumps(row).encode()
    assert "".join(str(value) for value in row).encode()


@pytest.mark.parametrize(
    ("path", "status", "body", "order_id"),
    [
        (f"/v1/orders/{ORDER_ID}", 401, b"", ORDER_ID),
        (f"/v1/orders/{ORDER_ID.lower()}/refund", 201, b'{"id": "ORD01J67CQQH5904WDBVZEM4JMEP4"}', ORDER_ID),
        (f"/device/v1/leases/{ORDER_ID[3:]}/ack", 200, b"", ORDER_ID),
        ("/v1/orders", 201, f'{{"id":"{ORDER_ID}","type":"point"}}'.encode(), ORDER_ID),
        ("/v1/orders", 200, f'{{"data":[{{"id":"{ORDER_ID}"}}]}}'.encode(), None),
        ("/v1/orders", 400, b'{"errors": []}', None),
        ("/v1/orders/unknown", 404, b"", None),
        (f"/v1/orders/{ORDER_ID}x", 404, b"", None),
    ],
)  # fmt: skip
def test_the_order_is_that_of_the_path_or_the_created_one(
    path: str, status: int, body: bytes, order_id: str | None
) -> None:
    """Refused requests name it too."""
    assert kept(request(path), Reply(status, body)).order_id == order_id


def test_a_replayed_answer_is_marked() -> None:
    """It names the order that the first request created."""
    reply = Reply(201, f'{{"id":"{ORDER_ID}"}}'.encode(), (("x-idempotent-replayed", "true"),))
    row = kept(request(x_idempotency_key="key-1"), reply)
    assert (row.replayed, row.order_id, row.idempotency_key) == (1, ORDER_ID, "key-1")
