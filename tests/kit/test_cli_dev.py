"""`paydesk dev` and its commands as processes: the demo data, restarts, and the stop."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import command
from paydesk_process import Dev, credentials, dev, request
from waiting import wait_until


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the folder of a running `paydesk dev`, shared by the tests of this module."""
    path = tmp_path_factory.mktemp("dev")
    with dev(path):
        yield path


def answer(*arguments: str, folder: Path) -> Any:
    """Return what a command prints with `--json`."""
    ended = command(*arguments, "--json", folder=folder)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_credentials_file_is_complete_and_private(folder: Path) -> None:
    """It has what clients need, and only the owner can read it."""
    found = credentials(folder)
    base_url = found["base_url"]
    assert (folder / ".paydesk" / "credentials.json").stat().st_mode & 0o777 == 0o600
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", base_url)
    assert re.fullmatch(r"\d{16}", found["client_id"])
    assert found["redirect_uri"] == f"{base_url}/demo/callback"
    assert set(found["seller"]) == {"user_id", "email", "password"}
    assert found["test"]["access_token"].startswith(f"TEST-{found['client_id']}-")
    assert found["live"]["access_token"].startswith(f"APP_USR-{found['client_id']}-")
    scripts = ["approve", "approve", "approve", "manual"]
    assert [(one["operating_mode"], one["script"]) for one in found["terminals"]] == [("PDV", name) for name in scripts]
    for one in found["terminals"]:
        assert re.fullmatch(rf"{re.escape(base_url)}/virtual/{one['id']}\?key=1-[0-9a-f]{{32}}", one["page_url"])
    assert found["webhook"]["secret"].startswith("whsec_")
    assert found["webhook"]["url"] == found["webhook"]["inbox_url"] == f"{base_url}/demo/inbox"
    assert re.fullmatch("PDO-[0-9a-f]{40}", found["operator"]["token"])


def test_pay_prints_each_status_change_and_webhook(folder: Path) -> None:
    """Each line has its time; the last one is the delivered webhook."""
    paid = command("pay", "24.90", folder=folder)
    assert paid.returncode == 0, paid.stderr
    moves = re.findall(r"^\d\d:\d\d:\d\d\.\d{3}  (created|at_terminal|processed) ", paid.stdout, re.MULTILINE)
    assert moves == ["created", "at_terminal", "processed"]
    assert re.search(r"^\d\d:\d\d:\d\d\.\d{3} +webhook order\.processed delivered$", paid.stdout, re.MULTILINE)
    assert "\x1b" not in paid.stdout
    _, inbox = request("GET", credentials(folder)["webhook"]["inbox_url"])
    assert {"order.created", "order.at_terminal", "order.processed"} <= {one["action"] for one in inbox["data"]}
    assert all(one["signature_valid"] for one in inbox["data"])


def test_declined_payment_exits_1(folder: Path) -> None:
    """The reason is on standard error."""
    terminal = answer("terminals", "create", "--virtual", "--script", "decline:card_disabled:0.1s", folder=folder)
    declined = command("pay", "5", "--terminal", terminal["id"], folder=folder)
    assert declined.returncode == 1
    assert "failed: card_disabled" in declined.stderr


def test_refused_payment_prints_the_message_of_the_service(folder: Path) -> None:
    """For an invalid reference and another seller's terminal."""
    refused = command("pay", "1", "--reference", "sale 42", folder=folder)
    assert refused.returncode == 1
    assert "'$.external_reference' - must have 1 to 64 letters, digits, _ and -" in refused.stderr
    elsewhere = command("pay", "1", "--terminal", "UNKNOWN__1", folder=folder)
    assert elsewhere.returncode == 1
    assert "forbidden_checking_terminal_owner" in elsewhere.stderr


def test_virtual_terminal_is_available_at_once(folder: Path) -> None:
    """It has a new point of sale, and applications see it."""
    made = answer("terminals", "create", "--virtual", "--script", "ignore", folder=folder)
    assert set(made) == {
        *("id", "terminal_id", "operating_mode", "script", "seller_id", "store_id", "pos_id", "page_url"),
    }
    assert (made["operating_mode"], made["script"]) == ("PDV", "ignore")
    found = credentials(folder)
    url = f"{found['base_url']}/terminals/v1/list?pos_id={made['pos_id']}"
    _, listed = request("GET", url, found["test"]["access_token"])
    assert [one["id"] for one in listed["data"]["terminals"]] == [made["id"]]
    (terminal,) = [one for one in answer("terminals", "list", folder=folder) if one["id"] == made["id"]]
    assert terminal["page_url"] == made["page_url"]
    assert made["page_url"] in command("terminals", "list", folder=folder).stdout


@pytest.mark.parametrize("script", ["dance", "decline:nothing_like_it"])
def test_unknown_script_is_refused(script: str, folder: Path) -> None:
    """The message lists what is valid, before a terminal is created; the service judges that of an existing one."""
    listed = "valid scripts: approve" if script == "dance" else "valid details: rejected_by_issuer"
    refused = command("terminals", "create", "--virtual", "--script", script, folder=folder)
    assert (refused.returncode, refused.stdout, listed in refused.stderr) == (2, "", True), refused.stderr
    refused = command("terminals", "change", "PAYDESK_VIRTUAL__C2AFE1BB4D93", "--script", script, folder=folder)
    assert (refused.returncode, refused.stdout, "must be one of approve" in refused.stderr) == (1, "", True)


def test_code_can_be_exchanged(folder: Path) -> None:
    """Standard output has only the code."""
    minted = command("code", folder=folder)
    found = credentials(folder)
    assert re.fullmatch(rf"TG-[0-9a-f]{{40}}-{found['seller']['user_id']}\n", minted.stdout)
    body = {
        "client_id": found["client_id"],
        "client_secret": found["client_secret"],
        "grant_type": "authorization_code",
        "code": minted.stdout.strip(),
        "redirect_uri": found["redirect_uri"],
        "test_token": "true",
    }
    status, tokens = request("POST", f"{found['base_url']}/oauth/token", body=body)
    assert (status, tokens["live_mode"], tokens["user_id"]) == (200, False, found["seller"]["user_id"])


def callback(folder: Path, **query: str) -> str:
    """Return the demo application's callback page for an authorization response."""
    address = f"{credentials(folder)['redirect_uri']}?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(address, timeout=30) as page:  # noqa: S310 - to the test's own service
        shown: str = page.read().decode()
    return shown


def test_callback_page_has_a_working_exchange_command(folder: Path) -> None:
    """The command on the page gets tokens, and the page has no secret."""
    page = callback(folder, code=command("code", folder=folder).stdout.strip(), state="x")
    offered = re.search("<pre[^>]*>(.*?)</pre>", page, re.DOTALL)
    assert offered is not None, page
    assert credentials(folder)["client_secret"] not in page
    printed = subprocess.run(
        ["sh", "-eu"], cwd=folder, input=html.unescape(offered[1]), capture_output=True, text=True, check=True
    )
    tokens = json.loads(printed.stdout)
    assert (tokens["live_mode"], tokens["user_id"]) == (False, credentials(folder)["seller"]["user_id"])


@pytest.mark.parametrize("code", ["$(touch pwned)", "TG-1", f"TG-{'0' * 40}-1;ls", f"TG-{'0' * 40}-1\n"])
def test_callback_page_has_no_command_for_an_invalid_code(folder: Path, code: str) -> None:
    """An invalid code is shown but is in no shell command."""
    page = callback(folder, code=code)
    assert html.escape(code.strip()) in page
    assert "<pre" not in page


def test_code_with_a_challenge(folder: Path) -> None:
    """A challenge needs its method, and the redirect URI must be registered."""
    challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    both = ("--code-challenge", challenge, "--code-challenge-method", "S256")
    assert answer("code", *both, "--scope", "read", folder=folder)["scope"] == "read"
    assert "code_challenge_method" in command("code", *both[:2], folder=folder).stderr
    assert "redirect_uri" in command("code", "--redirect-uri", "https://elsewhere.example/", folder=folder).stderr
    unknown = command("code", "--client-id", "1", folder=folder)
    assert unknown.returncode == 1
    assert "application_not_found" in unknown.stderr


def test_authorize_url_for_the_demo_application(folder: Path) -> None:
    """Standard output has only the URL, with a new state each time."""
    found = credentials(folder)
    printed = command("authorize-url", folder=folder)
    assert (printed.returncode, printed.stderr, printed.stdout.count("\n")) == (0, "", 1)
    page, _, query = printed.stdout.strip().partition("?")
    asked = dict(urllib.parse.parse_qsl(query))
    assert page == f"{found['base_url']}/authorization"
    assert asked.pop("state") not in command("authorize-url", folder=folder).stdout
    assert asked == {
        "response_type": "code",
        "client_id": found["client_id"],
        "redirect_uri": found["redirect_uri"],
    }


def test_authorize_url_with_pkce_prints_the_verifier(folder: Path) -> None:
    """The verifier matches the challenge in the URL."""
    printed = answer("authorize-url", "--pkce", "--scope", "read write", "--state", "a b&c", folder=folder)
    asked = dict(urllib.parse.parse_qsl(printed["url"].partition("?")[2]))
    digest = hashlib.sha256(printed["code_verifier"].encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    assert (asked["code_challenge"], asked["code_challenge_method"]) == (challenge, "S256")
    assert (asked["scope"], asked["state"], printed["state"]) == ("read write", "a b&c", "a b&c")
    plain = command("authorize-url", "--pkce", folder=folder)
    assert "code_verifier" in plain.stderr
    assert "code_verifier" not in plain.stdout


def test_authorize_url_for_another_application_needs_a_redirect_uri(folder: Path) -> None:
    """The base URL can be another one."""
    elsewhere = ("--client-id", "1", "--base-url", "https://pay.example/")
    refused = command("authorize-url", *elsewhere, folder=folder)
    assert refused.returncode == 2
    assert "--redirect-uri" in refused.stderr
    printed = command("authorize-url", *elsewhere, "--redirect-uri", "https://shop.example/cb?a=1", folder=folder)
    assert printed.stdout.startswith("https://pay.example/authorization?")
    assert "redirect_uri=https%3A%2F%2Fshop.example%2Fcb%3Fa%3D1" in printed.stdout


def test_client_secret_is_printed_only_at_creation(folder: Path) -> None:
    """No list has it."""
    uri = "https://shop.example/callback"
    made = answer("apps", "create", "--name", "Shop", "--redirect-uri", uri, "--pkce-required", folder=folder)
    assert made["pkce_required"]
    assert made["redirect_uris"] == [uri]
    listed = answer("apps", "list", folder=folder)
    assert {"Demo POS", "Shop"} <= {one["name"] for one in listed}
    assert not any("client_secret" in one for one in listed)
    refused = command("apps", "create", "--name", "X", "--redirect-uri", "http://shop.example/#a", folder=folder)
    assert refused.returncode == 1
    assert "'$.redirect_uris[0]'" in refused.stderr


def test_sellers_stores_and_pos(folder: Path) -> None:
    """A seller gets a password, a store and a point of sale; e-mail addresses and external ids are unique."""
    arguments = ("sellers", "create", "--email", "Ana@Shop.example", "--name", "Ana", "--country", "ARG")
    seller = answer(*arguments, "--currency", "ARS", folder=folder)
    assert seller["email"] == "ana@shop.example"
    assert len(seller["password"]) == 24
    taken = command(*arguments, "--currency", "ARS", folder=folder)
    assert taken.returncode == 1
    assert "email_taken" in taken.stderr
    seller_id = str(seller["user_id"])
    store = answer("stores", "create", "--seller", seller_id, "--name", "Centro", folder=folder)
    place = ("--seller", seller_id, "--store", str(store["store_id"]), "--external-id", "TILL1")
    pos = answer("pos", "create", *place, folder=folder)
    assert (pos["external_pos_id"], pos["name"]) == ("TILL1", "TILL1")
    assert "external_pos_id_taken" in command("pos", "create", *place, folder=folder).stderr
    nowhere = ("--seller", seller_id, "--store", "1", "--external-id", "TILL2")
    assert "store_not_found" in command("pos", "create", *nowhere, folder=folder).stderr
    assert answer("stores", "list", "--seller", seller_id, folder=folder) == [store]
    assert answer("pos", "list", "--seller", seller_id, folder=folder) == [pos]
    at_pos = ("terminals", "create", "--virtual", "--seller", seller_id, "--pos", str(pos["pos_id"]))
    assert answer(*at_pos, folder=folder)["pos_id"] == pos["pos_id"]
    assert "pos_taken" in command(*at_pos, folder=folder).stderr


def test_subscriptions(folder: Path) -> None:
    """The secret is printed once; the retired topic names its successor; loopback URLs are allowed."""
    url = "http://127.0.0.1:9/hooks"
    made = answer("subscriptions", "create", "--url", url, "--action", "order.failed", "--live", folder=folder)
    assert made["secret"].startswith("whsec_")
    assert (made["actions"], made["live_mode"]) == (["order.failed"], True)
    listed = {one["id"]: one for one in answer("subscriptions", "list", folder=folder)}
    assert "secret" not in listed[made["id"]]
    earlier = command("subscriptions", "create", "--url", url, "--topic", "point_integration_wh", folder=folder)
    assert earlier.returncode == 1
    assert "no longer supported; use orders" in earlier.stderr


def test_revoked_grant_is_notified(folder: Path) -> None:
    """The inbox has one notification of the authorization and one of its withdrawal."""
    url = credentials(folder)["webhook"]["inbox_url"]
    subscription = answer("subscriptions", "create", "--topic", "mp-connect", "--url", url, folder=folder)
    before = {one["id"] for one in answer("grants", "list", folder=folder)}
    assert command("code", folder=folder).returncode == 0
    (made,) = [one for one in answer("grants", "list", folder=folder) if one["id"] not in before]
    assert made["id"].endswith(f"-{made['seller_id']}")
    assert answer("grants", "revoke", made["id"], folder=folder) == {"id": made["id"], "withdrawn": True}
    assert command("grants", "revoke", made["id"], folder=folder).returncode == 0
    (now,) = [one for one in answer("grants", "list", folder=folder) if one["id"] == made["id"]]
    assert {**now, "withdrawn_date": ""} == {**made, "withdrawn_date": ""}
    unknown = command("grants", "revoke", f"01J67CQQH5904WDBVZEM4JMEP3-{made['seller_id']}", folder=folder)
    assert unknown.returncode == 1
    assert "grant_not_found" in unknown.stderr
    sent = [one for one in answer("deliveries", "list", folder=folder) if one["subscription_id"] == subscription["id"]]
    assert {(one["topic"], one["client_id"]) for one in sent} == {("mp-connect", made["client_id"])}
    first, second = sorted(one["version"] for one in sent)
    assert second == first + 1
    assert not any("order_id" in one for one in sent)
    assert _consent_actions(url) == ["application.authorized", "application.deauthorized"]


def _consent_actions(url: str) -> list[str]:
    """Return the actions about consents in the inbox, once both have arrived."""

    def about() -> list[dict[str, Any]]:
        _, inbox = request("GET", url)
        return [one for one in inbox["data"] if one.get("action", "").startswith("application.")]

    wait_until(lambda: len(about()) == 2, about)
    assert all(one["signature_valid"] and one["user_id"] == one["body"]["user_id"] for one in about())
    return [one["action"] for one in about()]


def test_order_has_its_history(folder: Path) -> None:
    """An operator sees an order with each of its moves and notifications, by its id in whatever case."""
    order_id = command("pay", "3.00", folder=folder).stdout.split()[0]
    order = answer("orders", "get", order_id.lower(), folder=folder)
    assert (order["id"], order["status"]) == (order_id, "processed")
    assert [event["version"] for event in order["events"]] == [1, 2, 3]
    assert [sent["status"] for sent in order["deliveries"]] == ["delivered"] * 3
    listed = answer("deliveries", "list", "--order", order_id, folder=folder)
    # The list is newest first, the history oldest first.
    for sent, in_order in zip(listed[::-1], order["deliveries"], strict=True):
        assert in_order == {**sent, "last_attempt": in_order["last_attempt"], "history": in_order["history"]}
        assert [one["number"] for one in in_order["history"]] == [1]
        assert in_order["last_attempt"]["status"] == 200
    assert answer("reversals", "list", folder=folder) == []
    assert isinstance(answer("events", "list", folder=folder), list)
    unknown = command("orders", "get", "ORD01J67CQQH5904WDBVZEM4JMEP3", folder=folder)
    assert unknown.returncode == 1
    assert "order_not_found" in unknown.stderr


def test_orders_are_listed_and_found(folder: Path) -> None:
    """Newest first, by status or reference; one line per order, or with `--json` the whole orders."""
    order_id = command("pay", "3.10", folder=folder).stdout.split()[0]
    body = {
        "type": "point",
        "external_reference": "cli_ref_1",
        "transactions": {"payments": [{"amount": "3.20"}]},
        "config": {"point": {"terminal_id": credentials(folder)["terminals"][1]["id"]}},
    }
    token, base_url = credentials(folder)["test"]["access_token"], credentials(folder)["base_url"]
    status, created = request(
        "POST", f"{base_url}/v1/orders", token=token, body=body, headers={"X-Idempotency-Key": "cli-1"}
    )
    assert status == 201, created
    assert answer("orders", "list", "--limit", "1", folder=folder)[0]["id"] == created["id"]
    assert order_id in {order["id"] for order in answer("orders", "list", "--status", "processed", folder=folder)}
    found = command("orders", "search", "cli_ref_1", folder=folder)
    assert (found.returncode, found.stdout.count("\n")) == (0, 1)
    line = found.stdout.rstrip("\n").split("\t")
    assert (line[0], line[3], line[5], line[7]) == (created["id"], "3.20 BRL", "test", "cli_ref_1")
    assert [order["id"] for order in answer("orders", "search", "cli_ref_1", folder=folder)] == [created["id"]]
    none = command("orders", "search", "missing", "--json", folder=folder)
    assert (none.returncode, json.loads(none.stdout)) == (1, [])
    assert "No order has the reference missing" in none.stderr
    refused = command("orders", "list", "--status", "open", folder=folder)
    assert (refused.returncode, "must be one of created" in refused.stderr) == (1, True)


def test_order_is_printed_without_json(folder: Path) -> None:
    """With its payment, status changes and notifications."""
    order_id = command("pay", "3.30", folder=folder).stdout.split()[0]
    shown = command("orders", "get", order_id, folder=folder)
    assert shown.returncode == 0, shown.stderr
    for word in (order_id, "3.30 BRL", "processed", "accredited", "order.created", "order.at_terminal", "delivered"):
        assert word in shown.stdout, word
    assert "config" not in shown.stdout
    assert '"created_date"' not in shown.stdout


def test_incomplete_list_prints_its_cursor(folder: Path) -> None:
    """The pages together are the whole list."""
    whole = answer("pos", "list", folder=folder)
    ids: list[int] = []
    after: tuple[str, ...] = ()
    while True:
        page = command("pos", "list", "--limit", "2", *after, "--json", folder=folder)
        ids += [one["pos_id"] for one in json.loads(page.stdout)]
        if "--after" not in page.stderr:
            break
        after = ("--after", page.stderr.split()[-1])
    assert ids == [one["pos_id"] for one in whole]
    assert len(ids) >= 3
    assert command("pos", "list", "--limit", "201", folder=folder).returncode == 2
    assert "'after'" in command("pos", "list", "--after", "x", folder=folder).stderr


def test_list_is_tab_separated_without_a_terminal(folder: Path) -> None:
    """One line per row."""
    listed = command("terminals", "list", folder=folder)
    assert all(len(line.split("\t")) == 13 for line in listed.stdout.splitlines())


def test_unknown_operator_token_is_refused(folder: Path) -> None:
    """The command exits 1."""
    refused = command("apps", "list", folder=folder, PAYDESK_OPERATOR_TOKEN="PDO-" + "0" * 40)
    assert refused.returncode == 1
    assert "unauthorized" in refused.stderr


def test_clock_is_stopped_advanced_resumed_and_reset(tmp_path: Path) -> None:
    """An order expires when the clock passes its expiration time. After a reset the tokens of the file are valid."""
    with dev(tmp_path):
        frozen = answer("clock", "freeze", folder=tmp_path)
        assert frozen["frozen"]
        terminal = answer("terminals", "create", "--virtual", "--script", "ignore", folder=tmp_path)["id"]
        found = credentials(tmp_path)
        body = {
            "type": "point",
            "expiration_time": "PT30S",
            "transactions": {"payments": [{"amount": "1.00"}]},
            "config": {"point": {"terminal_id": terminal}},
        }
        key = {"X-Idempotency-Key": "k1"}
        _, order = request("POST", f"{found['base_url']}/v1/orders", found["test"]["access_token"], body, key)
        assert order["created_date"] == frozen["now"]
        moved = answer("clock", "advance", "61s", folder=tmp_path)
        assert moved["offset_seconds"] > 50

        def shown() -> tuple[str, str]:
            path = f"{found['base_url']}/v1/orders/{order['id']}"
            _, seen = request("GET", path, found["test"]["access_token"])
            return seen["status"], seen["status_detail"]

        # The change of the clock notifies the worker, which expires the order.
        wait_until(lambda: shown() != ("created", "created"), shown)
        assert shown() == ("canceled", "expired")
        assert not answer("clock", "resume", folder=tmp_path)["frozen"]
        assert "must be PT61S, 61s" in command("clock", "advance", "backwards", folder=tmp_path).stderr
        refused = command("clock", "reset", folder=tmp_path)
        assert refused.returncode == 1
        assert "`paydesk reset`" in refused.stderr
        assert command("reset", "--yes", folder=tmp_path).returncode == 0
        assert abs(answer("clock", "reset", folder=tmp_path)["offset_seconds"]) < 1
        works(credentials(tmp_path))


def test_terminal_that_may_be_charging_is_deleted_after_a_restart(tmp_path: Path) -> None:
    """It was deleted with `cancel`: it stays switched off, and goes when its order has ended."""
    with dev(tmp_path):
        found = credentials(tmp_path)
        terminal = answer("terminals", "create", "--virtual", "--script", "manual", folder=tmp_path)["id"]
        path = f"{found['base_url']}/virtual/v1/terminals/{terminal}"
        order = answer("orders", "create", "1.00", "--terminal", terminal, folder=tmp_path)["id"]

        def ask(method: str, rest: str, body: Any = None) -> int:
            return request(method, path + rest, found["test"]["access_token"], body)[0]

        assert ask("GET", "/screen?wait=10&until=present_card") == 200
        assert ask("POST", "/actions", {"action": "tap", "card": "no_answer"}) == 200
        assert ask("GET", "/screen?wait=10&until=permitted") == 200
        assert ask("DELETE", "?cancel=true") == 204
    with dev(tmp_path):
        path = f"{credentials(tmp_path)['base_url']}/virtual/v1/terminals/{terminal}"
        assert ask("GET", "/screen") == 404
        assert answer("terminals", "queue", terminal, folder=tmp_path)["current"]["id"] == order

        def is_gone() -> bool:
            command("clock", "advance", "--to-next", folder=tmp_path)
            return command("terminals", "show", terminal, folder=tmp_path).returncode == 1

        wait_until(is_gone)
        assert answer("orders", "get", order, folder=tmp_path)["status"] in ("processed", "failed")


def works(found: dict[str, Any]) -> None:
    """Check that each of the credentials is accepted."""
    base_url = found["base_url"]
    for kind in ("test", "live"):
        status, _ = request("GET", f"{base_url}/terminals/v1/list", found[kind]["access_token"])
        assert status == 200
    refresh = {
        "client_id": found["client_id"],
        "client_secret": found["client_secret"],
        "grant_type": "refresh_token",
        "refresh_token": found["test"]["refresh_token"],
    }
    status, answered = request("POST", f"{base_url}/oauth/token", body=refresh)
    assert status == 200, answered
    assert request("GET", f"{base_url}/operator/v1/sellers", found["operator"]["token"])[0] == 200


def without_addresses(found: dict[str, Any]) -> dict[str, Any]:
    """Return the credentials without the addresses of the service."""
    kept = {name: value for name, value in found.items() if name not in ("base_url", "redirect_uri", "console_url")}
    test_application = {**found["test_application"], "redirect_uri": ""}
    webhook, terminals = found["webhook"]["secret"], without_pages(found)
    return {**kept, "webhook": webhook, "terminals": terminals, "test_application": test_application}


def without_pages(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the terminals, each with the key of its page instead of the address."""
    return [{**one, "page_url": one["page_url"].rpartition("?")[2]} for one in found["terminals"]]


@pytest.mark.long("starts the service two times")
def test_restart_keeps_data_and_credentials(database_url: str, tmp_path: Path) -> None:
    """Also on another port."""
    with dev(tmp_path, PAYDESK_DATABASE_URL=database_url) as running:
        before = credentials(tmp_path)
        assert command("pay", "24.90", folder=tmp_path).returncode == 0
        running.end()
        assert running.process.returncode == 0
        page_url = before["terminals"][-1]["page_url"]
        ready, console = f"paydesk ready {before['base_url']}\n", f"console {before['console_url']}\n"
        assert running.lines == [ready, console, f"virtual terminal {page_url}\n"]
    assert not any("Traceback" in line for line in running.errors)
    with dev(tmp_path, PAYDESK_DATABASE_URL=database_url):
        after = credentials(tmp_path)
        assert without_addresses(after) == without_addresses(before)
        works(after)
        paid = command("pay", "5.00", folder=tmp_path)
        assert paid.returncode == 0, paid.stderr
        assert "webhook order.processed delivered" in paid.stdout
        found = answer("apps", "list", folder=tmp_path)
        assert [one["redirect_uris"] for one in found] == [[after["redirect_uri"]]] * 2
        assert after["test_application"]["redirect_uri"] == after["redirect_uri"]


def test_lost_credentials_file_is_created_again(database_url: str, tmp_path: Path) -> None:
    """New secrets for the same application, seller and terminals."""
    with dev(tmp_path, PAYDESK_DATABASE_URL=database_url) as running:
        before = credentials(tmp_path)
        running.end()
    (tmp_path / ".paydesk" / "credentials.json").unlink()
    with dev(tmp_path, PAYDESK_DATABASE_URL=database_url):
        after = credentials(tmp_path)
        works(after)
        assert after["client_id"] == before["client_id"]
        assert without_pages(after) == without_pages(before)
        assert after["seller"]["user_id"] == before["seller"]["user_id"]
        assert after["client_secret"] != before["client_secret"]
        assert after["seller"]["password"] != before["seller"]["password"]
        assert after["test"] != before["test"]
        assert after["operator"] != before["operator"]
        works({**before, "base_url": after["base_url"]})


@pytest.mark.slow
def test_terminals_with_lost_journals_get_new_tokens(tmp_path: Path) -> None:
    """They take orders again."""
    with dev(tmp_path) as running:
        running.end()
    (folder,) = (tmp_path / ".paydesk" / "terminals").iterdir()
    for journal in folder.iterdir():
        journal.unlink()
    with dev(tmp_path):
        assert command("pay", "1", folder=tmp_path).returncode == 0


def test_invalid_values_in_the_credentials_file_are_replaced(tmp_path: Path) -> None:
    """Valid values are kept."""
    with dev(tmp_path) as running:
        before = credentials(tmp_path)
        running.end()
    file = tmp_path / ".paydesk" / "credentials.json"
    file.write_text(json.dumps({**before, "live": {"access_token": "gone"}, "operator": None, "client_secret": 5}))
    with dev(tmp_path):
        after = credentials(tmp_path)
        works(after)
        assert (after["test"], after["seller"]) == (before["test"], before["seller"])
        assert after["live"] != before["live"]


def test_port_in_use_exits_1(tmp_path: Path) -> None:
    """There is no traceback, and nothing is created."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = command("dev", "--port", str(port), folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"Cannot listen on 127.0.0.1:{port}" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / ".paydesk" / "paydesk.db").exists()


def test_data_folder_that_cannot_be_created_exits_1(tmp_path: Path) -> None:
    """The message names the folder."""
    (tmp_path / "file").touch()
    ended = command("dev", "--port", "0", "--data", "file/data", folder=tmp_path)
    assert ended.returncode == 1
    assert "file/data cannot be created" in ended.stderr


def test_second_process_on_an_sqlite_file_is_refused(tmp_path: Path) -> None:
    """`doctor` is read-only and is allowed."""
    with dev(tmp_path):
        second = command("dev", "--port", "0", folder=tmp_path)
        assert second.returncode == 1
        assert "in use by another Paydesk process" in second.stderr
        url = f"sqlite:{tmp_path / '.paydesk' / 'paydesk.db'}"
        beside = command("operators", "create", "--name", "ana", folder=tmp_path, PAYDESK_DATABASE_URL=url)
        assert beside.returncode == 1
        assert "in use by another Paydesk process" in beside.stderr
        for way in ("in the console under Operators", "PAYDESK_BASE_URL", "PAYDESK_OPERATOR_TOKEN of an owner"):
            assert way in beside.stderr
        checked = command("doctor", "--invariants", folder=tmp_path, PAYDESK_DATABASE_URL=url)
        assert (checked.returncode, checked.stdout) == (0, "No problems found.\n")


def test_stop_during_the_start(tmp_path: Path) -> None:
    """It stops at once, and the next start is complete."""
    for _ in range(3):
        starting = Dev(tmp_path, "--port", "0")
        try:
            starting.end()
        finally:
            starting.close()
    with dev(tmp_path):
        works(credentials(tmp_path))
