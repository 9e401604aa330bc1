"""The switch of examples/switch, as a process: every rule of docs/switch-openapi.json, with its signatures."""

from __future__ import annotations

import http.client
import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from docs_programs import blocks, run
from paydesk.core import ids
from switch_process import (
    DOCUMENT,
    FOLDER,
    KILLED_AFTER_COMMIT,
    KILLED_BEFORE_COMMIT,
    OLD_SECRET,
    SECRET,
    SwitchProcess,
    payment,
    sign,
    switch,
)
from tables import each

README = (FOLDER / "README.md").read_text()
KEYS = count(1)
SIGNED_WITH = re.findall(r"with the secret `(\w+)`", DOCUMENT["info"]["description"])[0]
_SIGNATURE = r"Paydesk-Signature: t=(\d+),k=shop-1,v1=(\w+)\n"
EXCHANGE = re.compile(
    rf"```\n(GET|POST) (\S+) HTTP/1.1\n{_SIGNATURE}(?:Idempotency-Key: (\w+)\n)?(?:\n(.+)\n)?"
    rf"\nHTTP/1.1 200 OK\n{_SIGNATURE}\n(.+)\n```"
)
"""A request and its answer in the description."""
LINES_MAX = {"switch.py": 200, "book.py": 300}


def new_ulid() -> str:
    """Return a key that no other request has."""
    return ids.ulid(next(KEYS))


@pytest.fixture
def host(tmp_path: Path) -> Iterator[SwitchProcess]:
    """A switch whose approvals are final."""
    with switch(tmp_path) as running:
        yield running


@pytest.fixture
def provisional(tmp_path: Path) -> Iterator[SwitchProcess]:
    """A switch whose approvals need a confirmation."""
    with switch(tmp_path, "--needs-confirmation") as running:
        yield running


def test_a_final_payment_is_in_the_ledger_and_found(host: SwitchProcess) -> None:
    """An approval has the payment's ids, amount and currency, and the card as it was presented."""
    card = {"first_digits": "503175", "last_digits": "6351"}
    body = payment(1, entry_mode="chip", card=card, payment_method={"id": "master", "type": "credit_card"})
    status, answer, _ = host.post("authorize", body)
    assert (status, answer["outcome"]) == (200, "approved")
    assert "needs_confirmation" not in answer
    assert answer["card"] == {**card, "entry_mode": "chip"}
    assert answer["payment_method"]["id"] == "master"
    assert host.post("inquire", body).body == answer
    (entry,) = host.ledger()
    assert {name: entry[name] for name in ("payment_id", "key", "amount_minor", "currency", "reference_id")} == {
        name: answer[name] for name in ("payment_id", "key", "amount_minor", "currency", "reference_id")
    }
    assert (entry["kind"], entry["outcome"]) == ("payment", "approved")


def test_the_amounts_of_the_readme_are_declined_as_it_says(host: SwitchProcess) -> None:
    """Each row of its table, with the issuer's answer for the chip; the decline is found, and nothing is moved."""
    rows = re.findall(r"^\| `(\d+)` \| (\d\d) \| `?([\w-]+)`? \| `?([\w-]+)`? \|$", README, re.MULTILINE)
    assert len(rows) == 11
    for number, (amount, *expected) in enumerate(rows):
        answer = host.post("authorize", payment(number, int(amount))).body
        assert [answer["code"], answer.get("detail", "-"), answer.get("advice", "-")] == expected
        assert answer["issuer_data"]
        assert host.post("inquire", payment(number, int(amount))).body == answer
        assert host.post("reverse", payment(number, int(amount))).outcome == "approved"
    assert host.ledger() == []


def test_a_pending_payment_is_approved_when_it_is_asked_again(host: SwitchProcess) -> None:
    """Its first answer is lost at the host; the money is moved once."""
    body = payment(1, 9_990_020)
    assert host.post("authorize", body).outcome == "pending"
    assert host.post("inquire", body).outcome == "approved"
    assert host.post("authorize", body).outcome == "approved"
    assert host.movements() == ["payment 1"]


def test_a_repeated_key_gets_the_stored_answer(host: SwitchProcess) -> None:
    """With its body, in any order of the fields; another body is refused, and another operation has its own keys."""
    body = payment(1)
    first = host.post("authorize", body)
    assert host.post("authorize", dict(reversed(body.items()))) == first
    for changed in ({**body, "amount_minor": 2500}, {**body, "terminal_id": "OTHER__1"}, payment(1, note="new field")):
        refused = host.post("authorize", changed)
        assert (refused.status, refused.body["error"]) == (409, "key_reused")
    reversed_ = host.post("reverse", body)
    assert (reversed_.outcome, reversed_.body["key"]) == ("approved", body["payment_id"])
    assert host.post("authorize", body) == first
    assert host.movements() == ["payment 1", "reversal 1"]


def test_a_decline_is_final_under_its_key(host: SwitchProcess) -> None:
    """A refund that was declined stays declined when there would be money for it."""
    body = payment(1)
    refund = {**body, "refund_minor": 100}
    assert host.post("refund", refund).outcome == "declined"
    host.post("authorize", body)
    assert host.post("refund", refund).outcome == "declined"
    assert host.post("refund", refund, key=new_ulid()).outcome == "approved"


def test_what_is_neither_effect_nor_decline_binds_no_key(host: SwitchProcess) -> None:
    """After `not_found` the same key confirms and reverses the payment, also with another body."""
    body = payment(1)
    assert host.post("confirm", {**body, "reference_id": "1"}).outcome == "not_found"
    assert host.post("reverse", {**body, "reference_id": "1"}).outcome == "not_found"
    reference_id = host.post("authorize", body).body["reference_id"]
    assert host.post("confirm", {**body, "reference_id": reference_id}).outcome == "approved"
    assert host.post("reverse", {**body, "reference_id": reference_id}).outcome == "approved"


def test_a_key_sent_many_times_at_once_takes_effect_once(provisional: SwitchProcess) -> None:
    """Every request gets the same answer."""

    def send_at_once(operation: str, body: dict[str, Any]) -> dict[str, Any]:
        with ThreadPoolExecutor(8) as threads:
            answers = [threads.submit(provisional.post, operation, body) for _ in range(8)]
        first, *others = (answer.result() for answer in answers)
        assert others == [first] * 7
        return first.body

    reference_id = send_at_once("authorize", payment(1))["reference_id"]
    send_at_once("confirm", payment(1, reference_id=reference_id))
    send_at_once("refund", payment(1, refund_minor=2490))
    send_at_once("authorize", payment(2))
    send_at_once("reverse", payment(2))
    assert provisional.movements() == ["payment 1", "confirmation 1", "refund 1", "payment 2", "reversal 2"]


@pytest.mark.parametrize("change", [KILLED_BEFORE_COMMIT, KILLED_AFTER_COMMIT], ids=["effect", "answer"])
def test_a_kill_leaves_the_effect_with_its_answer_or_neither(change: str, tmp_path: Path) -> None:
    """Killed between effect and commit, or between commit and answer: the repeated request takes effect once."""
    steps = {"authorize": "payment", "confirm": "confirmation", "refund": "refund", "reverse": "reversal"}
    with switch(tmp_path, "--needs-confirmation") as host:
        movements: list[str] = []
        references = {1: "", 2: ""}
        for operation, number in (("authorize", 1), ("confirm", 1), ("refund", 1), ("authorize", 2), ("reverse", 2)):
            body = payment(number, reference_id=references[number], refund_minor=100)
            host.kill()
            host.start(change)
            with pytest.raises((OSError, http.client.HTTPException)):
                host.post(operation, body)
            host.kill()
            host.start()
            expected = [*movements, f"{steps[operation]} {number}"]
            assert host.movements() == (movements if change == KILLED_BEFORE_COMMIT else expected)
            answer = host.post(operation, body).body
            assert answer["outcome"] == "approved"
            assert host.movements() == expected
            movements = expected
            references[number] = references[number] or answer["reference_id"]


def test_a_confirmation_makes_an_approval_final_once(provisional: SwitchProcess) -> None:
    """Before it an inquiry and the ledger say `provisional`; a second one under another key moves nothing."""
    body = payment(1)
    approval = provisional.post("authorize", body).body
    assert approval["needs_confirmation"] is True
    assert provisional.post("inquire", body).body["needs_confirmation"] is True
    assert [entry["outcome"] for entry in provisional.ledger()] == ["provisional"]
    assert provisional.post("refund", {**body, "refund_minor": 100}).outcome == "declined"
    confirm = {**body, "reference_id": approval["reference_id"], "chip_data": "nyYI"}
    assert provisional.post("confirm", confirm).body["reference_id"] == approval["reference_id"]
    assert provisional.post("confirm", confirm, key=new_ulid()).outcome == "approved"
    assert "needs_confirmation" not in provisional.post("inquire", body).body
    assert provisional.movements() == ["payment 1", "confirmation 1"]


def test_a_reversed_or_declined_payment_is_not_confirmed(provisional: SwitchProcess) -> None:
    """Neither moves anything."""
    for number, amount in ((1, 2490), (2, 9_990_002)):
        body = payment(number, amount)
        provisional.post("authorize", body)
        assert provisional.post("reverse", body).outcome == "approved"
        assert provisional.post("confirm", {**body, "reference_id": "1"}).outcome == "declined"
    assert provisional.movements() == ["payment 1", "reversal 1"]


def test_a_second_reversal_is_approved_and_moves_nothing(provisional: SwitchProcess) -> None:
    """Under another key too. The payment then counts as declined, and cannot be refunded."""
    body = payment(1)
    provisional.post("authorize", body)
    keys = [provisional.post("reverse", body, key=key).body["key"] for key in (new_ulid(), new_ulid(), "")]
    assert len(set(keys)) == 3
    assert provisional.post("inquire", body).body["code"] == "reversed"
    assert provisional.post("refund", {**body, "refund_minor": 1}).outcome == "declined"
    assert provisional.movements() == ["payment 1", "reversal 1"]


def test_a_reversal_before_the_payment(host: SwitchProcess, tmp_path: Path) -> None:
    """It blocks a later authorization where the switch declares it; elsewhere the payment is made, then reversed."""
    body = payment(1)
    assert host.post("reverse", body).body == {"outcome": "not_found"}
    assert host.post("inquire", body).body == {"outcome": "not_found"}
    assert host.post("authorize", body).outcome == "approved"
    assert host.post("reverse", body).outcome == "approved"
    folder = tmp_path / "blocking"
    folder.mkdir()
    with switch(folder, "--reversal-blocks") as blocking:
        assert [blocking.post("reverse", body, key=key).outcome for key in ("", new_ulid())] == ["approved"] * 2
        assert blocking.post("inquire", body).body == {"outcome": "not_found", "final": True}
        assert blocking.post("confirm", {**body, "reference_id": "1"}).body["final"] is True
        assert blocking.post("authorize", body).body["code"] == "blocked"
        assert blocking.ledger() == []


def test_a_reversal_names_the_payments_reference(host: SwitchProcess) -> None:
    """With another one the payment is not found; without one it is reversed whatever reference and amount it has."""
    body = payment(1)
    host.post("authorize", body)
    assert host.post("reverse", {**body, "reference_id": "another"}).outcome == "not_found"
    assert host.post("reverse", {**body, "amount_minor": 1}).body["amount_minor"] == body["amount_minor"]
    assert [entry["amount_minor"] for entry in host.ledger()] == [2490, 2490]


def test_refunds_never_exceed_what_was_paid(host: SwitchProcess) -> None:
    """Each is made once a key, and a payment that was refunded in part is not reversed."""
    body = payment(1)
    host.post("authorize", body)
    keys = [new_ulid() for _ in range(4)]
    amounts = (1000, 1491, 1490, 1)
    outcomes = [
        host.post("refund", {**body, "refund_minor": amount}, key=key).outcome
        for key, amount in zip(keys, amounts, strict=True)
    ]
    assert outcomes == ["approved", "declined", "approved", "declined"]
    assert host.post("refund", {**body, "refund_minor": 1000}, key=keys[0]).body["amount_minor"] == 1000
    assert [entry["amount_minor"] for entry in host.ledger()] == [2490, 1000, 1490]
    assert host.post("reverse", body).body["code"] == "refunded"


@pytest.mark.parametrize("option", ["--confirms-after", "--undoes-after"])
def test_the_host_decides_by_itself_at_its_deadline(option: str, tmp_path: Path) -> None:
    """The decision is in the ledger without a request and without a key. A late confirmation is `too_late`."""
    with switch(tmp_path, "--needs-confirmation", option, "600") as host:
        early, late = payment(1), payment(2)
        references = [host.post("authorize", body).body["reference_id"] for body in (early, late)]
        host.move_clock(500)
        assert host.post("confirm", {**early, "reference_id": references[0]}).outcome == "approved"
        host.move_clock(200)
        confirms = option == "--confirms-after"
        assert host.ledger()[3:][0]["kind"] == ("confirmation" if confirms else "reversal")
        assert host.ledger()[3:][0]["key"] == ""
        assert host.post("confirm", {**late, "reference_id": references[1]}).outcome == "too_late"
        assert host.post("inquire", late).outcome == ("approved" if confirms else "declined")
        assert "needs_confirmation" not in host.post("inquire", late).body
        assert host.post("reverse", late).outcome == "approved"
        assert host.movements()[2:] == [
            "confirmation 1",
            *(("confirmation 2",) if confirms else ()),
            "reversal 2",
        ]


def test_a_reversal_after_its_time_is_too_late(tmp_path: Path) -> None:
    """It has no effect, and binds no key."""
    with switch(tmp_path, "--reverse-until", "600") as host:
        for number in (1, 2):
            host.post("authorize", payment(number))
        host.move_clock(500)
        assert host.post("reverse", payment(1)).outcome == "approved"
        host.move_clock(200)
        assert host.post("reverse", payment(1), key=new_ulid()).outcome == "approved"
        assert host.post("reverse", payment(2)).outcome == "too_late"
        assert host.movements() == ["payment 1", "payment 2", "reversal 1"]


def test_a_host_without_inquiries_refuses_them(tmp_path: Path) -> None:
    """With a signed 403: a 404 could be a proxy's."""
    with switch(tmp_path, "--cannot-inquire") as host:
        host.post("authorize", payment(1))
        assert host.post("inquire", payment(1)).body["error"] == "cannot_inquire"


def test_another_payments_fields_are_refused_before_acting(provisional: SwitchProcess) -> None:
    """A confirmation or refund of another amount, currency or reference, and an authorization under a foreign key."""
    body = payment(1)
    reference_id = provisional.post("authorize", body).body["reference_id"]
    confirm = {**body, "reference_id": reference_id}
    for changed in ({"amount_minor": 2491}, {"currency": "CLP"}, {"reference_id": "another"}):
        refused = provisional.post("confirm", {**confirm, **changed})
        assert (refused.status, refused.body["error"]) == (422, "other_payment")
        assert next(iter(changed)) in refused.body["message"]
    provisional.post("confirm", confirm)
    assert provisional.post("refund", {**body, "amount_minor": 9990, "refund_minor": 100}).status == 422
    assert provisional.post("authorize", payment(2), key=body["payment_id"]).status == 409
    assert provisional.post("authorize", payment(2), key=payment(3)["payment_id"]).body["error"] == "key_differs"
    assert provisional.movements() == ["payment 1", "confirmation 1"]


def test_a_request_without_a_valid_signature_has_no_effect(host: SwitchProcess) -> None:
    """Its 401 is signed with the switch's own secret."""
    content = json.dumps(payment(1)).encode()
    key, path = payment(1)["payment_id"], "/authorize"
    signature = sign(SECRET, "1", "POST", "/paydesk/authorize", key, content=content)
    refusals: list[tuple[str, dict[str, Any]]] = [
        ("signature_missing", {"header": ""}),
        ("signature_missing", {"header": f"t=1,v1={signature}"}),
        ("signature_missing", {"header": f"t=1,k=shop-1,v1={signature.upper()}"}),
        ("unknown_key_id", {"key_id": "shop-2"}),
        ("bad_signature", {"secret": OLD_SECRET}),
        ("bad_signature", {"header": f"t=2,k=shop-1,v1={signature}"}),
        ("clock_skew", {"header": f"t=1,k=shop-1,v1={signature}"}),
        ("clock_skew", {"skew_seconds": -305}),
        ("clock_skew", {"skew_seconds": 305}),
    ]
    for error, changes in refusals:
        answer = host.send("POST", path, content, key, **changes)
        assert (answer.status, answer.body["error"], answer.secret) == (401, error, SECRET), changes
        assert ("time" in answer.body) == (error == "clock_skew")
    assert host.ledger() == []
    assert [host.send("GET", "/echo", skew_seconds=skew).status for skew in (-295, 295)] == [200, 200]


@each("part", ["method", "path", "query", "key", "body"])
def test_the_signature_covers_every_part(part: str) -> None:
    """A change of one gives another signature."""
    parts = {"method": "POST", "path": "/paydesk/refund", "query": "", "key": "K", "body": "{}"}

    def signature(parts: dict[str, str]) -> str:
        target = parts["path"] + parts["query"]
        return sign(SECRET, "1", parts["method"], target, parts["key"], content=parts["body"].encode())

    assert signature({**parts, part: parts[part] + "?"}) != signature(parts)


def test_two_secrets_are_accepted_during_a_change(tmp_path: Path) -> None:
    """Each answer is signed with the secret of its request, and what fits none with the first."""
    files = [option for name in ("new.key", "old.key") for option in ("--secret-file", str(tmp_path / name))]
    with switch(tmp_path, *files) as host:
        for secret in (SECRET, OLD_SECRET):
            answer = host.send("GET", "/echo", secret=secret)
            assert (answer.status, answer.secret) == (200, secret)
        refused = host.send("GET", "/echo", secret="neither")
        assert (refused.status, refused.secret) == (401, SECRET)


def test_malformed_requests_are_refused_before_acting(host: SwitchProcess) -> None:
    """A float or a string as an amount, a key with quotes, a body that is no object, or too large."""
    key = payment(1)["payment_id"]
    bodies: list[Any] = [
        *(payment(1, amount) for amount in (24.9, "2490", 0, -1, True, 10**15)),
        payment(1, currency="brl"),
        payment(1, payment_id="PAY1"),
        payment(1, card="5031"),
        [],
    ]
    for body in bodies:
        assert host.send("POST", "/authorize", json.dumps(body).encode(), key).body["error"] == "bad_request", body
    assert host.send("POST", "/authorize", b"{", key).body["error"] == "bad_request"
    assert host.send("POST", "/refund", json.dumps(payment(1)).encode(), key).body["error"] == "bad_request"
    for bad_key in ("", f'"{key}"', key.lower(), key + "0"):
        assert host.send("POST", "/authorize", json.dumps(payment(1)).encode(), bad_key).body["error"] == "bad_key"
    large = json.dumps(payment(1, note="x" * 65_536)).encode()
    assert host.send("POST", "/authorize", large, key).body["error"] == "body_too_large"
    for method, path in (("GET", "/authorize"), ("POST", "/capture"), ("POST", "/ledger"), ("GET", "/other")):
        assert host.send(method, path, b"{}", key).status == 404
    assert host.ledger() == []


def test_a_busy_database_is_refused_before_acting(host: SwitchProcess) -> None:
    """Another program holds its lock: 503, and the payment is made when it is free."""
    with sqlite3.connect(host.folder / "switch.db", isolation_level=None) as database:
        database.execute("BEGIN IMMEDIATE")
        assert host.post("authorize", payment(1)).status == 503
        database.execute("ROLLBACK")
    database.close()
    assert host.post("authorize", payment(1)).outcome == "approved"


def test_the_ledger_has_pages(host: SwitchProcess) -> None:
    """By cursor and limit, with `next` until the last page; `since` leaves out what is older."""
    for number in range(1, 6):
        host.post("authorize", payment(number))
        host.move_clock(60)
    everything = host.send("GET", "/ledger?cursor=&limit=1000").body
    assert "next" not in everything
    times = [entry["time"] for entry in everything["entries"]]
    assert sorted(times) == times
    assert times[-1] < everything["complete_until"]
    pages, cursor = [], ""
    while True:
        page = host.send("GET", f"/ledger?limit=2&cursor={cursor}").body
        pages.append(page["entries"])
        if (cursor := page.get("next", "")) == "":
            break
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [entry for page in pages for entry in page] == everything["entries"]
    assert host.ledger(f"?since={times[3]}") == everything["entries"][3:]
    assert host.ledger(f"?since={times[3].replace('Z', '%2B00:00')}") == everything["entries"][3:]
    for query in ("limit=0", "limit=1001", "limit=x", "cursor=x", "since=2026-01-31", "since=yesterday"):
        assert host.send("GET", f"/ledger?{query}").status == 400, query


def test_a_page_of_the_ledger_is_below_64_kib(host: SwitchProcess) -> None:
    """With the longest references too; fewer entries than asked for, and the cursor of the next page."""
    key, entries = payment(1)["payment_id"], 400
    row = ("payment", key, 10**15, "BRL", "9" * 64, "provisional")
    query = "INSERT INTO ledger (time_ms, kind, payment_id, key, amount_minor, currency, reference_id, outcome)"
    database = sqlite3.connect(host.folder / "switch.db")
    rows = [(number, row[0], f"PAY{new_ulid()}", *row[1:]) for number in range(entries)]
    database.executemany(f"{query} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    database.commit()
    database.close()
    cursor, ids_of_entries = "", []
    while True:
        page = host.send("GET", f"/ledger?limit=1000&cursor={cursor}").body
        assert len(json.dumps(page)) <= 64 * 1024
        ids_of_entries += [entry["entry_id"] for entry in page["entries"]]
        if (cursor := page.get("next", "")) == "":
            break
    assert len(set(ids_of_entries)) == entries
    assert sorted(ids_of_entries) == ids_of_entries


def test_the_ledger_is_append_only_and_its_time_never_goes_back(host: SwitchProcess) -> None:
    """Also where the clock does."""
    host.post("authorize", payment(1))
    host.move_clock(-100)
    host.post("authorize", payment(2))
    first, second = host.ledger()
    assert second["time"] == first["time"]
    database = sqlite3.connect(host.folder / "switch.db")
    for statement in ("UPDATE ledger SET amount_minor = 1", "DELETE FROM ledger"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            database.execute(statement)
    database.close()


def test_its_output_has_neither_cards_nor_secrets(host: SwitchProcess) -> None:
    """A line a request, with the key and the outcome."""
    card = {"first_digits": "503175", "last_digits": "6351"}
    host.post("authorize", payment(1, card=card, encrypted_data="U0VDUkVU"))
    host.send("GET", "/echo", secret="neither-of-the-two")
    host.kill()
    output = host.log.read_text()
    assert "/paydesk/authorize PAY01J67CQQH5904WDBVZEM4JM001 200 approved" in output
    assert not [secret for secret in ("503175", "6351", "U0VDUkVU", SECRET) if secret in output]


def test_the_commands_of_the_readme_start_it(tmp_path: Path) -> None:
    """The secret is created where the switch reads it, and only its owner can."""
    *prepare, start = "".join(blocks(README, "sh")).splitlines()
    (tmp_path / "examples").symlink_to(FOLDER.parent)
    run(tmp_path, "\n".join(prepare), "sh", "-eu")
    python, *options = start.split()
    assert python == "python3"
    with subprocess.Popen(
        [sys.executable, *options, "--listen", "127.0.0.1:0"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith("switch ready http://127.0.0.1:")
        finally:
            process.terminate()
        assert process.wait(20) == 0
    created = {path.name: path.stat().st_mode & 0o077 for path in (tmp_path / ".paydesk/examples").iterdir()}
    assert created == {"switch.key": 0, "switch.db": 0}


def test_help_has_examples_and_wrong_options_are_refused(tmp_path: Path) -> None:
    """A short secret, a missing file, a deadline without confirmations."""
    short, good = tmp_path / "short.key", tmp_path / "good.key"
    short.write_text("secret")
    good.write_text(SECRET)
    helped = _run("--help")
    assert helped.returncode == 0
    assert "examples:" in helped.stdout
    refusals = {
        "at least 32 characters": ("--secret-file", str(short)),
        "must exist": ("--secret-file", str(tmp_path / "none.key")),
        "need --needs-confirmation": ("--secret-file", str(good), "--confirms-after", "600"),
        "required: --secret-file": (),
    }
    for message, options in refusals.items():
        refused = _run(*options)
        assert refused.returncode == 2
        assert message in refused.stderr


def _run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, FOLDER / "switch.py", *options], capture_output=True, text=True, timeout=60, check=False
    )


def test_every_example_of_the_document_has_the_shape_that_it_describes() -> None:
    """Requests, outcomes and errors; and every schema is a valid one."""
    components = DOCUMENT["components"]
    for schema in components["schemas"].values():
        assert jsonschema_rs.meta.is_valid({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    contents = [response["content"] for response in components["responses"].values()]
    for methods in DOCUMENT["paths"].values():
        (described,) = methods.values()
        contents += [described[part]["content"] for part in ("requestBody",) if part in described]
        contents += [response["content"] for response in described["responses"].values() if "content" in response]
    for content in contents:
        described = content["application/json"]
        validator = jsonschema_rs.validator_for(
            {**described["schema"], "components": components}, validate_formats=True
        )
        examples = [example["value"] for example in described.get("examples", {}).values()]
        for example in [*examples, *([described["example"]] if "example" in described else [])]:
            validator.validate(example)


def test_the_signatures_of_the_document_are_right() -> None:
    """Each message that is worked out has the signature that these tests' client would send, and the form it needs."""
    found = EXCHANGE.findall(DOCUMENT["info"]["description"])
    assert [path for _, path, *_ in found] == ["/paydesk/echo", "/paydesk/confirm"]
    for method, path, t, sent, key, body, answered_t, answered, answer in found:
        assert sent == sign(SIGNED_WITH, t, method, path, key, content=body.encode())
        assert answered == sign(SIGNED_WITH, answered_t, "200", key, content=answer.encode())
    (*_, body, _, _, answer) = found[1]
    for schema, message in (("ConfirmRequest", body), ("Approved", answer)):
        described = {"$ref": f"#/components/schemas/{schema}", "components": DOCUMENT["components"]}
        jsonschema_rs.validator_for(described, validate_formats=True).validate(json.loads(message))


def test_the_example_stays_short() -> None:
    """An operator reads all of it before copying it."""
    assert {
        name: len((FOLDER / name).read_text().splitlines()) <= most for name, most in LINES_MAX.items()
    } == dict.fromkeys(LINES_MAX, True)
