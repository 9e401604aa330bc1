"""The HTTP adapter against a switch on loopback that answers, cuts, garbles, redirects, is late or is not there."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog

from free_port import refusing_port
from moved_time import advance
from paydesk.engine.payments.acquirer import Approved, Declined, LedgerEntry, NotFound, NotSent, Result, Unknown
from paydesk.engine.payments.adapters.context import AdapterContext
from paydesk.engine.payments.http.adapter import HttpAcquirer, LedgerUnreadable
from played_switch import APPROVED, CARD, OTHER_SECRET, PAYMENT, SECRET, PlayedSwitch, Reply, http_acquirer, playing
from tables import each
from waiting import until

REFUSED = {"error": "bad_request", "message": "No such currency."}


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCH_KEY", SECRET)
    monkeypatch.setenv("OLD_KEY", OTHER_SECRET)
    # No request may take the way of these.
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")


async def authorized(acquirer: HttpAcquirer) -> Result:
    """Return the result of an authorization."""
    return await acquirer.authorize(PAYMENT, CARD, blob=b"\x00")


async def test_every_operation_sends_its_own_message() -> None:
    """Each with a signature and, but for the inquiry, with its key."""
    switch = PlayedSwitch()
    async with playing(switch) as acquirer:
        payment_id = PAYMENT.payment_id
        results = [
            await authorized(acquirer),
            await acquirer.confirm(PAYMENT, key="CNF1", reference_id="77", chip_data=b"\x01"),
            await acquirer.inquire(PAYMENT),
            await acquirer.reverse(PAYMENT, key=payment_id, amount_minor=2490, reference_id="77", chip_data=b"\x02"),
            await acquirer.refund(PAYMENT, key="REF1", amount_minor=500, reference_id="77"),
        ]
    assert all(isinstance(result, Approved) for result in results)
    assert [(one.method, one.target) for one in switch.requests] == [
        ("POST", f"/paydesk/{name}") for name in ("authorize", "confirm", "inquire", "reverse", "refund")
    ]
    keys = [one.headers.get("idempotency-key") for one in switch.requests]
    assert keys == [payment_id, "CNF1", None, payment_id, "REF1"]
    documents = [one.document for one in switch.requests]
    own = [{name: one[name] for name in one if name not in documents[2]} for one in documents]
    assert own == [
        {
            "entry_mode": "contactless",
            "card": {"first_digits": "503143", "last_digits": "6351"},
            "encrypted_data": "AA==",
        },
        {"reference_id": "77", "chip_data": "AQ=="},
        {},
        {"reference_id": "77", "chip_data": "Ag=="},
        {"refund_minor": 500, "reference_id": "77"},
    ]
    assert {one.headers["content-type"] for one in switch.requests} == {"application/json"}
    assert {one.headers["accept-encoding"] for one in switch.received} == {"identity"}
    assert all(one.headers["paydesk-signature"].startswith("t=") for one in switch.received)
    assert (switch.connections, switch.echoes) == (1, 1)


async def test_a_repeated_request_has_the_same_body_and_key() -> None:
    """The switch compares them."""
    switch = PlayedSwitch()
    async with playing(switch) as acquirer:
        await authorized(acquirer)
        await authorized(acquirer)
    first, second = switch.requests
    assert (first.body, first.headers["idempotency-key"]) == (second.body, second.headers["idempotency-key"])


@each(
    "reply, expected",
    [
        (Reply({"outcome": "declined", "code": "51"}), Declined("insufficient_amount")),
        *((Reply(REFUSED, status), "not sent") for status in (400, 401, 403, 422, 429, 503)),
        *((Reply(REFUSED, status), "unknown") for status in (404, 405, 406, 408, 413, 500, 502, 504)),
        *((Reply(REFUSED, status, signed=False), "unknown") for status in (400, 401, 403, 404, 422, 429, 503)),
        (Reply(b"<html>", 404, signed=False, media_type="text/html"), "unknown"),
        (Reply(b"<html>", 502, signed=False, media_type="text/html"), "unknown"),
        (Reply(b"no document", 400), "unknown"),
        (Reply({"message": "without a code"}, 400), "unknown"),
        (Reply(REFUSED, 400, media_type="text/plain"), "unknown"),
        (Reply({"error": "in_progress", "message": ""}, 409), "unknown"),
        (Reply(APPROVED, signed=False), "unknown"),
        (Reply({"outcome": "declined"}, signed=False), "unknown"),
        (Reply({"outcome": "declined"}, 201), "unknown"),
        (Reply({"outcome": "declined"}, media_type="text/html"), "unknown"),
        (Reply({"outcome": "declined"}, media_type=""), "unknown"),
        (Reply({"outcome": "declined"}, headers=("Content-Encoding: gzip",)), Declined("rejected_other_reason")),
        (Reply(b"\x1f\x8b not JSON", headers=("Content-Encoding: gzip",)), "unknown"),
        *(
            (Reply(status=status, headers=("Location: /paydesk/elsewhere",)), "unknown")
            for status in (301, 302, 307, 308)
        ),
        *((Reply(APPROVED, cut=count), "unknown") for count in (0, 5, 40, 200, 320)),
        (Reply(b" " * 70_000 + b"{}"), "unknown"),
        (Reply(b'{"outcome": "declined"' + b" " * 60_000 + b"}"), Declined("rejected_other_reason")),
        (Reply(APPROVED, headers=("X: " + "x" * 100_000,)), "unknown"),
    ],
)
async def test_only_a_trusted_answer_is_more_than_unknown(reply: Reply, expected: object) -> None:
    """A proxy's answer says nothing of the payment; no redirect is followed, nothing is sent a second time."""
    switch = PlayedSwitch(reply)
    async with playing(switch, details={"51": "insufficient_amount"}) as acquirer:
        result = await authorized(acquirer)
    if expected == "not sent":
        assert result == NotSent("bad_request: No such currency", again=False)
    elif expected == "unknown":
        assert isinstance(result, Unknown)
    else:
        assert result == expected
    assert [one.target for one in switch.requests] == ["/paydesk/authorize"]


@each(
    "reply", [Reply(APPROVED, secret=OTHER_SECRET), Reply(APPROVED, seconds_off=-301), Reply(APPROVED, seconds_off=310)]
)
async def test_an_answer_that_cannot_be_trusted_is_unknown_and_opens_the_breaker(reply: Reply) -> None:
    """Then nothing is sent but echoes."""
    switch = PlayedSwitch(reply)
    async with playing(switch) as acquirer:
        assert isinstance(await authorized(acquirer), Unknown)
        second = await authorized(acquirer)
        assert isinstance(second, NotSent)
        assert not second.again
        assert acquirer.state.breaker == "open"
    assert len(switch.requests) == 1


@each(
    "echo",
    [
        Reply(secret=OTHER_SECRET),
        Reply(signed=False),
        Reply({"error": "bad_signature", "message": "Compare the secrets."}, 401),
        Reply(
            {"error": "clock_skew", "message": "The clocks differ.", "time": "2026-01-31T00:00:00Z"},
            401,
            seconds_off=900,
        ),
        Reply(b"<html>", 502, signed=False, media_type="text/html"),
        Reply({"time": "2026-01-31T14:26:43.702"}),
        Reply({"time": None}),
        Reply(cut=20),
    ],
)
async def test_without_a_trusted_echo_no_payment_is_sent(echo: Reply) -> None:
    """So a wrong secret declines sales, and none of them is unknown."""
    switch = PlayedSwitch()
    switch.echo = echo
    async with playing(switch) as acquirer:
        for _ in range(3):
            result = await authorized(acquirer)
            assert isinstance(result, NotSent)
            assert not result.again
        assert acquirer.state.reason is not None
    assert switch.requests == []
    assert switch.echoes <= 2, "the HTTP client repeats a GET whose answer is cut, once"


async def test_a_refusal_because_of_the_clocks_is_one_whatever_the_clock_in_it() -> None:
    """The switch refused before it acted; any other answer of another time is unknown."""
    skew = {"error": "clock_skew", "message": "The clocks differ by over 300 s.", "time": "2026-01-31T00:00:00Z"}
    switch = PlayedSwitch(Reply(skew, 401, seconds_off=900), Reply(REFUSED, 401, seconds_off=900))
    async with playing(switch) as acquirer:
        assert await authorized(acquirer) == NotSent("clock_skew: The clocks differ by over 300 s", again=False)
        assert isinstance(await authorized(acquirer), Unknown)


async def test_during_a_change_both_secrets_are_accepted() -> None:
    """Requests are signed with the first."""
    switch = PlayedSwitch(Reply(APPROVED, secret=OTHER_SECRET), Reply(APPROVED))
    async with playing(switch, secret=["env:SWITCH_KEY", "env:OLD_KEY"]) as acquirer:
        assert [type(await authorized(acquirer)) for _ in range(2)] == [Approved, Approved]


async def test_a_switch_that_is_not_there_was_sent_nothing() -> None:
    """The first call waits for the echo, whose fault is the reason."""
    with refusing_port() as port:
        acquirer = http_acquirer(port, AdapterContext())
        result = await authorized(acquirer)
        echo = await acquirer.echo()
        await acquirer.close()
    assert isinstance(result, NotSent)
    assert not result.again
    assert echo.fault is not None
    assert "refuses connections" in echo.fault


async def test_a_connection_that_fails_is_tried_again_until_the_breaker_opens() -> None:
    """The fifth failure in a row ends that, and the event has the reason."""
    reports: list[tuple[bool, str]] = []

    async def report(is_reachable: bool, reason: str) -> None:  # noqa: FBT001
        reports.append((is_reachable, reason))

    async with playing(PlayedSwitch(), AdapterContext(report=report)) as acquirer:
        assert isinstance(await authorized(acquirer), Approved)
        with refusing_port() as port:
            acquirer._exchange.url = f"http://127.0.0.1:{port}/paydesk"
            results = [await authorized(acquirer) for _ in range(6)]
        assert all(isinstance(result, NotSent) for result in results)
        assert [result.again for result in results if isinstance(result, NotSent)] == [True] * 5 + [False]
        await until(lambda: len(reports) > 1)
    assert [is_reachable for is_reachable, _ in reports] == [True, False]
    assert "refuses connections" in reports[1][1]


async def test_a_silent_switch_is_unknown_after_its_time_and_opens_the_breaker() -> None:
    """Before the engine's own limit; later sales are declined without waiting, until an echo is answered."""
    switch = PlayedSwitch(Reply(silent=True))
    async with playing(switch, capabilities={"answer_seconds": 4}) as acquirer:
        for _ in range(5):
            switch.arrived.clear()
            call = asyncio.create_task(authorized(acquirer))
            await switch.arrived.wait()
            advance(4)
            assert await call == Unknown("no answer within 4 s")
        assert isinstance(await authorized(acquirer), NotSent)
        switch.replies = [Reply(APPROVED)]
        await until(lambda: acquirer.state.breaker == "open" and switch.echoes == 1)
        await asyncio.sleep(0)
        advance(5.1)
        await until(lambda: acquirer.state.breaker == "closed")
        assert isinstance(await authorized(acquirer), Approved)
    assert len(switch.requests) == 6


async def test_a_silent_echo_holds_the_first_sale_up_for_3_seconds() -> None:
    """It is declined then; the next ones at once."""
    switch = PlayedSwitch()
    switch.echo = Reply(silent=True)
    async with playing(switch) as acquirer:
        call = asyncio.create_task(authorized(acquirer))
        await until(lambda: switch.echoes == 1)
        advance(3.1)
        assert await call == NotSent("the circuit breaker is open: no answer within 3 s", again=False)
        assert isinstance(await authorized(acquirer), NotSent)


async def test_a_kept_connection_that_the_switch_closed_leaves_the_outcome_unknown() -> None:
    """The request may have been sent: the engine asks again, on a new connection."""
    switch = PlayedSwitch(Reply(APPROVED), Reply(cut=0), Reply(APPROVED))
    async with playing(switch) as acquirer:
        results = [await authorized(acquirer) for _ in range(3)]
    assert [type(result) for result in results] == [Approved, Unknown, Approved]
    assert (switch.connections, len(switch.requests)) == (2, 3)


async def test_a_reused_key_is_an_error_in_the_log() -> None:
    """All attempts have one body, so it is a defect; the outcome is unknown."""
    switch = PlayedSwitch(Reply({"error": "key_reused", "message": "Another body."}, 409))
    async with playing(switch) as acquirer:
        with structlog.testing.capture_logs() as logged:
            result = await authorized(acquirer)
    assert result == Unknown("status 409: key_reused: Another body")
    [line] = logged
    assert (line["event"], line["log_level"]) == ("acquirer_key_reused", "error")
    assert line["payment"] == PAYMENT.payment_id


async def test_a_request_over_64_kib_is_not_sent() -> None:
    """It never can be."""
    switch = PlayedSwitch()
    async with playing(switch) as acquirer:
        result = await acquirer.authorize(PAYMENT, CARD, blob=b"\x00" * 50_000)
    assert result == NotSent("the request has more than 65536 bytes", again=False)
    assert switch.received == []


@each(
    "reply, difference",
    [
        (Reply(), 0),
        (Reply(seconds_off=120), 120),
        (Reply(signed=False, headers=("Date: Thu, 01 Jan 2026 00:00:00 GMT",)), None),
    ],
)
async def test_an_echo_tells_the_difference_of_the_clocks(reply: Reply, difference: int | None) -> None:
    """By the signature; an unsigned answer is a fault, whose `Date` may help nevertheless."""
    switch = PlayedSwitch()
    switch.echo = reply
    async with playing(switch) as acquirer:
        echo = await acquirer.echo()
    assert echo.difference_seconds is not None
    if difference is None:
        assert echo.fault == "status 200 without a signature"
    else:
        assert echo.fault is None
        assert abs(echo.difference_seconds - difference) <= 60


ENTRY = {
    "entry_id": "000000000001",
    "time": "2026-01-31T14:26:42.109Z",
    "kind": "payment",
    "payment_id": PAYMENT.payment_id,
    "key": PAYMENT.payment_id,
    "amount_minor": 2490,
    "currency": "BRL",
    "reference_id": "77",
    "outcome": "provisional",
}


async def test_the_ledger_is_read_page_by_page() -> None:
    """From the given time, with the cursor of each page."""
    pages: list[dict[str, Any]] = [
        {"entries": [ENTRY, ENTRY], "next": "2 /"},
        {"entries": [], "next": "3"},
        {"entries": [ENTRY]},
    ]
    switch = PlayedSwitch(*(Reply(page) for page in pages))
    since = datetime(2026, 1, 31, tzinfo=UTC)
    async with playing(switch) as acquirer:
        entries = [entry async for entry in acquirer.ledger(since)]
    at = datetime(2026, 1, 31, 14, 26, 42, 109_000, tzinfo=UTC)
    payment_id = PAYMENT.payment_id
    assert (
        entries
        == [LedgerEntry("000000000001", at, "payment", payment_id, payment_id, 2490, "BRL", "77", "provisional")] * 3
    )
    first, second, third = (one.target for one in switch.requests)
    assert first == "/paydesk/ledger?since=2026-01-31T00%3A00%3A00.000%2B00%3A00&limit=100"
    assert (second, third) == (f"{first}&cursor=2+%2F", f"{first}&cursor=3")


@each(
    "reply",
    [
        Reply({"entries": []}, signed=False),
        Reply({"entries": [{**ENTRY, "kind": "fee"}]}),
        Reply({"outcome": "pending"}),
        Reply(REFUSED, 400),
        Reply({"entries": []}, cut=30),
    ],
)
async def test_an_unreadable_ledger_raises(reply: Reply) -> None:
    """An empty one would hide what is missing."""
    async with playing(PlayedSwitch(reply)) as acquirer:
        with pytest.raises(LedgerUnreadable):
            [entry async for entry in acquirer.ledger(datetime(2026, 1, 31, tzinfo=UTC))]


async def test_nothing_logged_or_shown_has_a_secret() -> None:
    """Neither the secret nor the signature made with it, nor what the terminal encrypted."""
    switch = PlayedSwitch(
        Reply(APPROVED), Reply({"error": "key_reused", "message": SECRET}, 409), Reply(APPROVED, secret=OTHER_SECRET)
    )
    with structlog.testing.capture_logs() as logged:
        async with playing(switch) as acquirer:
            results = [await acquirer.authorize(PAYMENT, CARD, blob=b"encrypted") for _ in range(4)]
            shown = repr((results, acquirer.state, vars(acquirer), vars(acquirer._exchange), logged))
    signatures = [one.headers["paydesk-signature"].rpartition("=")[2] for one in switch.received]
    assert len(signatures) == 4
    for secret in (SECRET, "ZW5jcnlwdGVk", *signatures):
        assert secret not in shown


def certificate(folder: Path, name: str) -> Path:
    """Return a file with a new certificate for 127.0.0.1, which signs itself, and its key."""
    file = folder / f"{name}.pem"
    subject = ("-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1")
    command = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    key = folder / f"{name}.key"
    subprocess.run((*command, "-keyout", key, "-out", file, *subject), check=True, capture_output=True)
    file.write_bytes(file.read_bytes() + key.read_bytes())
    file.chmod(0o600)
    return file


async def test_a_client_certificate_stands_for_signatures(tmp_path: Path) -> None:
    """On both sides. Without it, or with a server that is not trusted, no payment is sent."""
    server, client = certificate(tmp_path, "server"), certificate(tmp_path, "client")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=client)
    tls.load_cert_chain(server)
    tls.verify_mode = ssl.CERT_REQUIRED
    unsigned = PlayedSwitch(Reply(APPROVED, signed=False), Reply(REFUSED, 400, signed=False))
    unsigned.echo = Reply(signed=False)
    certified: dict[str, Any] = {"client_certificate": str(client), "ca_file": str(server)}
    async with playing(unsigned, tls=tls, secret=None, key_id=None, **certified) as acquirer:
        assert isinstance(await authorized(acquirer), Approved)
        assert await authorized(acquirer) == NotSent("bad_request: No such currency", again=False)
    assert not any("paydesk-signature" in one.headers for one in unsigned.received)
    lacking: list[dict[str, Any]] = [{"ca_file": str(server)}, {"client_certificate": str(client)}]
    for options in lacking:
        switch = PlayedSwitch()
        async with playing(switch, tls=tls, **options) as acquirer:
            assert isinstance(await authorized(acquirer), NotSent)
        assert switch.received == []


async def test_an_inquiry_finds_no_payment_for_now_or_for_good() -> None:
    """`final` says that it is no longer accepted."""
    switch = PlayedSwitch(Reply({"outcome": "not_found"}), Reply({"outcome": "not_found", "final": True}))
    async with playing(switch) as acquirer:
        assert [await acquirer.inquire(PAYMENT) for _ in range(2)] == [NotFound(), NotFound(is_final=True)]
