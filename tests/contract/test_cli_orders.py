"""`paydesk orders create`, `watch`, `cancel`, `refund` and `simulate` with a real service."""

from __future__ import annotations

import http.server
import json
import re
import shlex
import signal
import socket
import subprocess
import threading
import time
import urllib.parse
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from command_line import command
from paydesk.commands.client import checked
from paydesk.core.ids import ORDER_ID, UUID
from paydesk.engine.orders.status import FAILED_DETAILS
from paydesk.engine.payments.simulator.schemas import SIMULATED_DETAILS
from paydesk_process import PAYDESK, credentials, dev, environment
from tables import each
from waiting import HANGS_SECONDS

UNKNOWN_ORDER = "ORD01J67CQQH5904WDBVZEM4JMEP3"
NO_SERVICE = {"PAYDESK_BASE_URL": "http://127.0.0.1:9", "PAYDESK_OPERATOR_TOKEN": "x"}
NO_ID = "is not the id of an order"


def run(folder: Path, *arguments: str, code: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `paydesk orders …`, which must exit with `code`."""
    ended = command("orders", *arguments, folder=folder, **variables)
    assert ended.returncode == code, (arguments, ended.stdout, ended.stderr)
    return ended


def answer(folder: Path, *arguments: str, code: int = 0) -> Any:
    """Return what `paydesk orders … --json` prints."""
    return json.loads(run(folder, *arguments, "--json", code=code).stdout)


@contextmanager
def terminal(folder: Path, script: str) -> Iterator[str]:
    """Yield a new virtual terminal; release and delete it afterwards."""
    made = json.loads(command("terminals", "create", "--virtual", "--script", script, "--json", folder=folder).stdout)
    try:
        yield made["id"]
    finally:
        command("terminals", "release", made["id"], "--reason", "The test has ended.", folder=folder)
        command("terminals", "delete", made["id"], "--yes", folder=folder)


def paid(folder: Path, amount: str = "24.90") -> str:
    """Return the id of a new order that is processed."""
    with terminal(folder, "ignore") as used:
        order_id = answer(folder, "create", amount, "--terminal", used)["id"]
        assert answer(folder, "simulate", order_id, "processed")["status"] == "processed"
        return str(order_id)


def wait_for(folder: Path, order_id: str, status: str) -> None:
    """Wait until the order has this status."""
    deadline = time.monotonic() + HANGS_SECONDS
    while answer(folder, "get", order_id)["status"] != status:
        assert time.monotonic() < deadline, status
        time.sleep(0.05)


def lines(ended: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Return the values by name of an object that was printed."""
    return {
        name: value for name, _, value in (re.split(r"( {2,})", line, maxsplit=1) for line in ended.stdout.splitlines())
    }


def test_created_order_is_printed(folder: Path) -> None:
    """With its fields on standard output, and the next command on standard error."""
    with terminal(folder, "ignore") as used:
        created = run(folder, "create", "24.90", "--terminal", used, "--reference", "sale-0042")
    shown = lines(created)
    assert ORDER_ID.fullmatch(shown["id"])
    assert (shown["amount"], shown["terminal"], shown["status"], shown["external_reference"], shown["kind"]) == (
        "24.90 BRL",
        used,
        "created",
        "sale-0042",
        "test",
    )
    assert created.stderr == f"To follow it: paydesk orders watch {shown['id']}\n"


def test_json_is_the_order_with_every_field_that_was_given(folder: Path) -> None:
    """As the application gets it from the service."""
    with terminal(folder, "ignore") as used:
        options = {
            "terminal": used,
            "reference": "sale-0043",
            "description": "Two coffees",
            "expires": "10m",
            "method": "credit_card",
            "installments": "3",
            "ticket-number": "T-7",
        }
        given = [part for name, value in options.items() for part in (f"--{name}", value)]
        order = answer(folder, "create", "24.90", *given)
    assert order["external_reference"] == "sale-0043"
    assert order["description"] == "Two coffees"
    assert order["expiration_time"] == "PT10M"
    assert order["transactions"]["payments"][0]["amount"] == "24.90"
    assert order["config"]["point"]["ticket_number"] == "T-7"
    assert order["config"]["payment_method"] == {"default_type": "credit_card", "default_installments": 3}
    assert order["integration_data"]["application_id"] == credentials(folder)["client_id"]
    assert "events" not in order


def test_default_terminal_needs_no_person(folder: Path) -> None:
    """It is the first of the credentials whose script is not `manual`; the order ends by itself."""
    order = answer(folder, "create", "3.00")
    (script,) = [
        one["script"]
        for one in credentials(folder)["terminals"]
        if one["id"] == order["config"]["point"]["terminal_id"]
    ]
    assert script != "manual"
    run(folder, "watch", order["id"])


def test_watch_prints_each_status_change_and_exits_0_once_processed(folder: Path) -> None:
    """From before the terminal fetches the order until it is paid."""
    with terminal(folder, "approve:0.6s") as used:
        order_id = answer(folder, "create", "24.90", "--terminal", used)["id"]
        watched = run(folder, "watch", order_id.lower())
    first, *changes = watched.stdout.splitlines()
    assert first == f"{order_id}  24.90 BRL"
    assert all(re.match(r"\d\d:\d\d:\d\d\.\d{3}  \w", line) for line in changes)
    assert [line[14:] for line in changes][-2:] == ["at_terminal  the terminal has the order", "processed    paid"]
    assert watched.stderr == ""


def test_watch_of_an_order_that_is_not_paid_exits_1(folder: Path) -> None:
    """With the reason on standard error; `--json` prints the final order all the same."""
    with terminal(folder, "decline:card_disabled:0.2s") as used:
        order_id = answer(folder, "create", "5", "--terminal", used)["id"]
        watched = run(folder, "watch", order_id, "--json", code=1)
    order = json.loads(watched.stdout)
    assert (order["id"], order["status"]) == (order_id, "failed")
    assert "events" not in order
    assert watched.stderr == "The order ended as failed: card_disabled.\n"


def test_watch_of_an_ended_order_exits_at_once(folder: Path) -> None:
    """As 0 if it was paid, also in part refunded; as 1 once all of it is refunded."""
    order_id = paid(folder)
    run(folder, "refund", order_id, "5.00")
    assert run(folder, "watch", order_id).stdout.endswith("processed    partially_refunded\n")
    run(folder, "refund", order_id)
    refunded = run(folder, "watch", order_id, code=1)
    assert refunded.stderr == "The order ended as refunded.\n"


def test_ctrl_c_ends_watch_with_130(folder: Path) -> None:
    """Without a traceback; the order goes on."""
    with terminal(folder, "ignore") as used:
        order_id = answer(folder, "create", "5", "--terminal", used)["id"]
        watching = subprocess.Popen(
            [PAYDESK, "orders", "watch", order_id],
            cwd=folder,
            env=environment(PYTHONUNBUFFERED="1"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with watching:
            assert watching.stdout is not None
            assert watching.stdout.readline().startswith(order_id)
            watching.send_signal(signal.SIGINT)
            _, errors = watching.communicate(timeout=HANGS_SECONDS)
        assert (watching.returncode, errors) == (130, "")
        assert answer(folder, "get", order_id)["status"] == "created"


def test_watch_exits_3_once_the_service_is_away(tmp_path: Path) -> None:
    """Also in the midst of an order."""
    with dev(tmp_path) as service, terminal(tmp_path, "ignore") as used:
        order_id = answer(tmp_path, "create", "5", "--terminal", used)["id"]
        threading.Timer(1.0, service.process.kill).start()
        ended = run(tmp_path, "watch", order_id, code=3)
    assert "127.0.0.1" in ended.stderr


def test_order_is_canceled_at_once_before_its_terminal_has_it(folder: Path) -> None:
    """The command says so; a second cancel is refused with the service's message."""
    with terminal(folder, "ignore") as used:
        order_id = answer(folder, "create", "5", "--terminal", used)["id"]
        assert run(folder, "cancel", order_id.lower()).stdout == f"{order_id} is canceled.\n"
        refused = run(folder, "cancel", order_id, code=1)
        assert refused.stderr.splitlines() == [
            "The order is already canceled. (order_already_canceled)",
            "  its status_detail is canceled; no further cancel is needed",
        ]
        again = answer(folder, "create", "5", "--terminal", used)
        assert answer(folder, "cancel", again["id"])["status"] == "canceled"


def test_order_at_its_terminal_needs_at_terminal(folder: Path) -> None:
    """Without the option the refusal names it; with it the terminal is requested to release the order."""
    with terminal(folder, "hold") as used:
        order_id = answer(folder, "create", "5", "--terminal", used)["id"]
        wait_for(folder, order_id, "at_terminal")
        refused = run(folder, "cancel", order_id, code=1)
        assert "The order cannot be canceled in its current status. (cannot_cancel_order)" in refused.stderr
        assert "--at-terminal" in refused.stderr
        requested = run(folder, "cancel", order_id, "--at-terminal")
        assert requested.stdout == f"{order_id} is at_terminal: its terminal is requested to release it.\n"
        ended = run(folder, "watch", order_id, code=1)
    assert ended.stderr == "The order ended as canceled: canceled_by_api.\n"


def test_refunds_in_part_and_of_the_rest(folder: Path) -> None:
    """The first prints the refund and the order's status; then all that remains is refunded."""
    order_id = paid(folder)
    part = lines(run(folder, "refund", order_id, "4.90"))
    assert (part["amount"], part["status"], part["order status_detail"]) == ("4.90", "processed", "partially_refunded")
    rest = answer(folder, "refund", order_id)
    assert (rest["status"], rest["transactions"]["refunds"][0]["amount"]) == ("refunded", "20.00")
    refused = run(folder, "refund", order_id, code=1)
    assert refused.stderr == "The order is already fully refunded. (order_already_refunded)\n"


def test_refund_of_too_much_is_refused_with_the_rest(folder: Path) -> None:
    """The message and its details are the service's."""
    refused = run(folder, "refund", paid(folder), "24.91", code=1)
    assert "(refund_amount_exceeds)" in refused.stderr
    assert "must be at most 24.90" in refused.stderr


def test_refund_that_the_acquirer_has_not_decided_is_processing(folder: Path) -> None:
    """It exits 0, and says that it must not be repeated."""
    ended = run(folder, "refund", paid(folder, "99900.31"))
    assert lines(ended)["status"] in ("processing", "processed")
    assert ("Do not repeat the refund" in ended.stderr) == (lines(ended)["status"] == "processing")


def test_unpaid_order_is_not_refunded(folder: Path) -> None:
    """The details have its status."""
    with terminal(folder, "ignore") as used:
        order_id = answer(folder, "create", "5", "--terminal", used)["id"]
        refused = run(folder, "refund", order_id, "1", code=1)
    assert refused.stderr == (
        "The order cannot be refunded. (cannot_refund_order)\n  the order is created, not processed\n"
    )


@pytest.mark.parametrize("status", [status for status in SIMULATED_DETAILS if status != "refunded"])
def test_simulated_status(folder: Path, status: str) -> None:
    """Each status with its last detail."""
    shown = {"expired": ("canceled", "expired"), "action_required": ("at_terminal", "check_on_terminal")}
    detail = SIMULATED_DETAILS[status][-1]
    with terminal(folder, "ignore") as used:
        order_id = answer(folder, "create", "5", "--terminal", used)["id"]
        order = answer(folder, "simulate", order_id, status, "--detail", detail)
        if status == "action_required":
            run(folder, "simulate", order_id, "failed")
    payment = order["transactions"]["payments"][0]
    assert (order["status"], payment["status_detail"]) == shown.get(status, (status, detail))


def test_simulated_payment_method(folder: Path) -> None:
    """It is printed with the order."""
    with terminal(folder, "ignore") as used:
        order_id = answer(folder, "create", "120", "--terminal", used)["id"]
        options = ("--method", "credit_card", "--installments", "3")
        shown = lines(run(folder, "simulate", order_id, "processed", *options))
    assert shown["payment payment_method"] == "id visa, type credit_card, installments 3"
    assert answer(folder, "simulate", order_id, "refunded")["status"] == "refunded"


def test_illegal_simulation_is_refused_with_the_status(folder: Path) -> None:
    """Message and details are the service's."""
    refused = run(folder, "simulate", paid(folder), "failed", code=1)
    assert refused.stderr == (
        "The order cannot be moved to failed. (bad_request)\n  the order is processed (accredited)\n"
    )


def test_refused_fields_are_named_with_their_rule(folder: Path) -> None:
    """What only the service can judge exits 1."""
    for options, rule in (
        (("--reference", "no spaces"), "must have 1 to 64 letters, digits, _ and -"),
        (("--installments", "49", "--method", "credit_card"), "default_installments"),
        (("--installments", "3", "--method", "qr"), "is only for the default_type credit_card"),
        (("--ticket-number", "x" * 21), "ticket_number"),
        (("--description", "4111 1111 1111 1111"), "must not contain a card number"),
        (("--terminal", "PAYDESK_VIRTUAL__NONE"), "forbidden_checking_terminal_owner"),
        (("--method", "cash"), "must be 'credit_card', 'debit_card' or 'qr'"),
        *((("--expires", duration), "from PT30S to PT3H") for duration in ("1d", "29s", "4h", "")),
    ):
        refused = run(folder, "create", "5", *options, code=1)
        assert (refused.stdout, rule in refused.stderr) == ("", True), refused.stderr


def test_wrong_amounts_are_refused_with_their_rule(folder: Path) -> None:
    """Also of a refund."""
    paid_id = paid(folder)
    for amount in ("abc", "0", "1,500", "24.999", ""):
        rule = "must be above zero" if amount == "0" else 'must be a decimal string such as "24.90"'
        for arguments in (("create", amount), ("refund", paid_id, amount)):
            refused = run(folder, *arguments, code=1)
            assert (refused.stdout, rule in refused.stderr) == ("", True), refused.stderr


def test_occupied_terminal_refuses_a_second_order(folder: Path) -> None:
    """The message names the first order."""
    with terminal(folder, "ignore") as used:
        first = answer(folder, "create", "5", "--terminal", used)["id"]
        refused = run(folder, "create", "6", "--terminal", used, code=1)
    assert "(already_queued_order_on_terminal)" in refused.stderr
    assert first in refused.stderr


def test_unknown_order_is_refused(folder: Path) -> None:
    """With a test token the message mentions --live, with a live one it does not."""
    for verb in ("watch", "cancel", "refund"):
        as_test, live = (run(folder, verb, UNKNOWN_ORDER, *more, code=1) for more in ((), ("--live",)))
        refused = [
            "The order does not exist. (order_not_found)",
            "  check the id, and that the access token is for the order's seller and mode (test or live)",
        ]
        assert as_test.stderr.splitlines() == [*refused, "  If it is a live order, add --live."]
        assert live.stderr.splitlines() == refused
    assert "Only test orders can be simulated." in run(folder, "simulate", UNKNOWN_ORDER, "failed", code=1).stderr


def test_test_and_live_orders_are_apart(folder: Path) -> None:
    """A live order needs a live terminal, and the live token does not see a test order."""
    missing = run(folder, "create", "5", "--live", code=2)
    assert "Add --terminal" in missing.stderr
    with terminal(folder, "ignore") as used:
        refused = run(folder, "create", "5", "--live", "--terminal", used, code=1)
        assert "forbidden_checking_terminal_owner" in refused.stderr
        order_id = answer(folder, "create", "5", "--terminal", used)["id"]
        run(folder, "cancel", order_id, "--live", code=1)
        assert answer(folder, "get", order_id)["status"] == "created"


def test_same_key_has_one_effect(folder: Path) -> None:
    """For each command with a key; another request under the key is refused."""
    with terminal(folder, "ignore") as used:
        create = ("create", "5", "--terminal", used, "--key", str(uuid.uuid4()))
        order = answer(folder, *create)
        assert answer(folder, *create) == order
        refused = run(folder, *create, "--reference", "another", code=1)
        assert "(idempotency_key_already_used)" in refused.stderr
        run(folder, "simulate", order["id"], "processed")
    refund = ("refund", order["id"], "2", "--key", "one-refund")
    assert answer(folder, *refund) == answer(folder, *refund)
    assert answer(folder, "get", order["id"])["transactions"]["payments"][0]["refunded_amount"] == "2.00"


def test_with_a_reason_cancel_and_refund_act_as_operator(folder: Path) -> None:
    """Without the application's token, in the same words."""
    with terminal(folder, "ignore") as used:
        order_id = answer(folder, "create", "5", "--terminal", used)["id"]
        said = run(folder, "cancel", order_id, "--reason", "The customer has left.").stdout
        assert said == f"{order_id} is canceled.\n"
    found, paid_id = credentials(folder), paid(folder)
    variables = {"PAYDESK_BASE_URL": found["base_url"], "PAYDESK_OPERATOR_TOKEN": found["operator"]["token"]}
    (folder / "elsewhere").mkdir(exist_ok=True)
    shown = lines(run(folder / "elsewhere", "refund", paid_id, "4.90", "--reason", "It was broken.", **variables))
    assert (shown["amount"], shown["order status_detail"]) == ("4.90", "partially_refunded")
    *_, refund = [line.split("\t") for line in run(folder, "get", paid_id).stdout.splitlines() if "REF" in line]
    assert refund[1:] == ["4.90", "processed", "paydesk dev: It was broken.", ""]
    change = run(folder, "get", order_id).stdout
    assert "\torders.cancel\t\tpaydesk dev: The customer has left.\n" in change
    refused = run(folder, "cancel", paid_id, "--reason", "Too late.", code=1)
    assert "(cannot_cancel_order)" in refused.stderr
    assert "must not be blank" in run(folder, "refund", paid_id, "--reason", " ", code=1).stderr
    assert run(folder, "refund", paid_id, "--reason", "Why", "--live", code=2).stdout == ""


def test_lost_response_is_repeated_with_the_printed_key(folder: Path, tmp_path: Path) -> None:
    """The command prints the key; with it the same order is returned, not a second one."""
    with terminal(folder, "ignore") as used, losing_responses(folder) as base_url:
        document = {**credentials(folder), "base_url": base_url}
        file = tmp_path / "credentials.json"
        file.write_text(json.dumps(document))
        arguments = ("create", "5", "--terminal", used)
        lost = run(folder, *arguments, "--credentials", str(file), code=3)
        assert lost.stdout == ""
        assert "the request may or may not have been applied" in lost.stderr
        key = _printed_key(lost.stderr)
        assert UUID.fullmatch(key)
        order = answer(folder, *arguments, "--key", key)
        listed = answer(folder, "list", "--terminal", used)
    assert [one["id"] for one in listed] == [order["id"]]


def test_key_is_printed_after_a_response_that_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    """A 503 and a proxy's page; not after a refusal, which has no effect."""
    refused = {"errors": [{"code": "cannot_cancel_order", "message": "No."}]}
    away = {"errors": [{"code": "service_unavailable", "message": "The database is unavailable."}]}
    for status, body, is_unknown in (
        (503, json.dumps(away), True),
        (502, "<html>Bad gateway</html>", True),
        (409, json.dumps(refused), False),
    ):
        with answering(status, body) as base_url:
            _write_credentials(tmp_path, base_url)
            ended = run(tmp_path, "cancel", UNKNOWN_ORDER, "--key", "it's-mine", code=1)
        assert ("--key" in ended.stderr) == is_unknown, ended.stderr
        assert not is_unknown or _printed_key(ended.stderr) == "it's-mine"


def test_unreachable_service_exits_3_without_doubt(tmp_path: Path) -> None:
    """Nothing was sent: no key is printed."""
    _write_credentials(tmp_path, "http://127.0.0.1:9")
    for arguments in (("create", "5"), *((verb, UNKNOWN_ORDER) for verb in ("watch", "cancel", "refund"))):
        ended = run(tmp_path, *arguments, code=3)
        assert "Cannot connect to http://127.0.0.1:9" in ended.stderr
        assert "--key" not in ended.stderr
        assert "may or may not" not in ended.stderr


def test_response_of_another_server_is_no_traceback(tmp_path: Path) -> None:
    """A page with status 200 is a failure."""
    with answering(200, "<html>Hello</html>") as base_url:
        _write_credentials(tmp_path, base_url)
        ended = run(tmp_path, "create", "5", code=1)
    assert ended.stderr == "The response is not from Paydesk. Check the address of the service.\n"


@each(
    "status, body",
    [
        (302, ""),
        (200, "{}"),
        (200, '{"message": "Hello"}'),
        (400, '{"errors": "none"}'),
        (400, '{"errors": [1]}'),
        (400, '{"errors": [{"message": "No."}]}'),
        (400, '{"errors": [{"code": "no", "message": "No.", "details": 1}]}'),
    ],
)
def test_redirects_and_foreign_documents_are_no_traceback(tmp_path: Path, status: int, body: str) -> None:
    """Such as those of a gateway; after a success the outcome is unknown, so the key is printed."""
    with answering(status, body) as base_url:
        _write_credentials(tmp_path, base_url)
        for arguments in (("create", "5"), ("cancel", UNKNOWN_ORDER), ("refund", UNKNOWN_ORDER)):
            ended = run(tmp_path, *arguments, "--key", "mine", code=1)
            assert ended.stderr.startswith("The response is not from Paydesk. Check the address of the service.\n")
            assert ("--key mine" in ended.stderr) == (status == 200)


def test_message_that_is_no_text_is_printed(tmp_path: Path) -> None:
    """Without the characters that control a terminal."""
    with answering(400, '{"message": ["\\u001b[31m"]}') as base_url:
        _write_credentials(tmp_path, base_url)
        ended = run(tmp_path, "cancel", UNKNOWN_ORDER, code=1)
    assert "Traceback" not in ended.stderr
    assert "\x1b" not in ended.stderr


def test_status_of_another_server_does_not_control_the_terminal(tmp_path: Path) -> None:
    """It is printed on one line."""
    with answering(200, '{"id": "x", "status": "\\u001b]0;x\\u0007\\ny"}') as base_url:
        _write_credentials(tmp_path, base_url)
        ended = run(tmp_path, "cancel", UNKNOWN_ORDER)
    assert "\x1b" not in ended.stdout
    assert len(ended.stdout.splitlines()) == 1


def test_negative_value_of_an_option_is_a_value(tmp_path: Path) -> None:
    """As an argument it is an unknown option."""
    _write_credentials(tmp_path, "http://127.0.0.1:9")
    run(tmp_path, "create", "5", "--reference", "-5", code=3)
    for wrong in (("-5",), ("5", "--jsn")):
        assert "No such option" in run(tmp_path, "create", *wrong, code=2).stderr


def test_decimal_comma_becomes_a_point() -> None:
    """Everything else is sent as it is: `1,500` may be a number of thousands."""
    for amount in ("5", "24.90", "1,500", "1.234,50", "abc", ""):
        assert checked.amount(amount) == amount
    assert (checked.amount("1,50"), checked.amount("24,9")) == ("1.50", "24.9")


@each(
    "arguments, sentence",
    [
        *((("orders", verb), NO_ID) for verb in ("get", "watch", "cancel", "refund")),
        (("orders", "resolve", "--outcome", "approved", "--reason", "seen"), "ORDER_ID is malformed: "),
        (("deliveries", "list", "--order"), NO_ID),
        (("webhooks", "replay", "--order"), "ORDER is malformed: "),
        (("webhooks", "trigger", "order.failed", "--to", "http://127.0.0.1:9", "--order"), NO_ID),
    ],
)
def test_wrong_ids_are_refused_before_anything_is_sent(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    """A payment's id, one too short, one with letters outside the alphabet, an empty one."""
    for text in (
        "PAY01J67CQQH5904WDBVZEM4JMEP3",
        "ORD1",
        f"{UNKNOWN_ORDER[:-1]}U",
        f"{UNKNOWN_ORDER}\n",
        "",
        "../x",
        "ſ",  # noqa: RUF001 - its upper case is an ASCII letter
    ):
        ended = command(*arguments, text, folder=tmp_path, **NO_SERVICE)
        assert (ended.returncode, ended.stdout) == (2, ""), text
        assert sentence in ended.stderr, text


def test_unknown_values_of_a_simulation_are_refused_with_the_allowed_ones(folder: Path) -> None:
    """By the service."""
    for options, rule in (
        (("paid",), "must be 'processed', 'failed', 'canceled', 'refunded', 'expired' or 'action_required'"),
        (("failed", "--detail", "broke"), f"must be one of {', '.join(FAILED_DETAILS)} with this status"),
        (("processed", "--method", "cash"), "must be 'credit_card', 'debit_card' or 'qr'"),
    ):
        refused = run(folder, "simulate", UNKNOWN_ORDER, *options, code=1)
        assert (refused.stdout, rule in refused.stderr) == ("", True), refused.stderr


def test_what_cannot_be_sent_is_refused_before(tmp_path: Path) -> None:
    """A key that cannot be sent in a header, and a text where a number belongs."""
    for arguments, message in (
        (("orders", "create", "5", "--key", "a b"), "is not a key"),
        (("orders", "create", "5", "--key", ""), "is not a key"),
        (("orders", "create", "5", "--key", "k" * 65), "is not a key"),
        (("orders", "create", "5", "--key", "ключ"), "is not a key"),
        (("orders", "create", "5", "--installments", "many"), "--installments"),
    ):
        ended = command(*arguments, folder=tmp_path, **NO_SERVICE)
        assert (ended.returncode, ended.stdout) == (2, ""), arguments
        assert message in " ".join(ended.stderr.split()), ended.stderr


def test_credentials_without_the_token_or_a_terminal_exit_2(tmp_path: Path) -> None:
    """The message says what is missing."""
    file = tmp_path / ".paydesk" / "credentials.json"
    file.parent.mkdir()
    for document, arguments, message in (
        ({}, ("create", "5"), "no test token"),
        ({"test": "TEST-1"}, ("watch", UNKNOWN_ORDER), "`test` must be an object"),
        ({"test": {}}, ("watch", UNKNOWN_ORDER), "no test token"),
        ({"test": {"access_token": "t"}}, ("cancel", UNKNOWN_ORDER, "--live"), "no live token"),
        ({"test": {"access_token": "t"}}, ("create", "5"), "Add --terminal"),
        ({"test": {"access_token": "t"}}, ("create", "5", "--terminal", ""), "must not be empty"),
    ):
        file.write_text(json.dumps({"base_url": "http://127.0.0.1:9", **document}))
        assert message in run(tmp_path, *arguments, code=2).stderr


def test_invalid_token_is_explained(folder: Path, tmp_path: Path) -> None:
    """The message names the file and the service, and how to get a new token."""
    file = tmp_path / "credentials.json"
    file.write_text(json.dumps({**credentials(folder), "test": {"access_token": "TEST-1"}}))
    refused = run(folder, "create", "5", "--credentials", str(file), code=1)
    assert f"The tokens in {file} are not valid at {credentials(folder)['base_url']}" in refused.stderr
    assert "refresh the token at POST /oauth/token" in refused.stderr


@contextmanager
def losing_responses(folder: Path) -> Iterator[str]:
    """Yield the address of a proxy that passes one request on, and closes the connection when the response comes."""
    service = urllib.parse.urlsplit(credentials(folder)["base_url"])
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def pass_on() -> None:
            client, _ = listening.accept()
            with client, socket.create_connection((service.hostname, service.port)) as upstream:
                host = f"127.0.0.1:{listening.getsockname()[1]}".encode()
                while not select_readable(upstream, client):
                    upstream.sendall(client.recv(65536).replace(host, service.netloc.encode()))

        passing = threading.Thread(target=pass_on)
        passing.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        passing.join(20)


def select_readable(upstream: socket.socket, client: socket.socket) -> bool:
    """Wait for either; return whether the response has begun."""
    import select

    return upstream in select.select([upstream, client], [], [])[0]


@contextmanager
def answering(status: int, body: str) -> Iterator[str]:
    """Yield the address of a server that answers every request like this."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        do_GET = do_POST = _answer  # noqa: N815 - the base class's names

        def log_message(self, *_arguments: object) -> None:
            """Print nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            serving.join()


def _write_credentials(folder: Path, base_url: str) -> None:
    file = folder / ".paydesk" / "credentials.json"
    file.parent.mkdir(exist_ok=True)
    token = {"access_token": "t"}
    file.write_text(
        json.dumps(
            {"base_url": base_url, "test": token, "live": token, "terminals": [{"id": "T", "script": "approve"}]}
        )
    )


def _printed_key(errors: str) -> str:
    """Return the key of the advice to repeat the command."""
    words = shlex.split(errors.partition("Repeat it with ")[2].partition(": if")[0])
    assert words[0] == "--key"
    return words[1]
