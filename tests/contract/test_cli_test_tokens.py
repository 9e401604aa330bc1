"""Test tokens without the field `test_token` in `paydesk dev`: the second application, and the commands."""

from __future__ import annotations

import html
import json
import re
import subprocess
import time
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dev_thread
from command_line import command
from paydesk_process import credentials, dev, request

NAME = "Demo POS (test tokens)"
DELIVERY_SECONDS_MAX = 60
URI = "https://shop.example/callback"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the folder of a running `paydesk dev`, shared by the tests of this module."""
    path = tmp_path_factory.mktemp("dev")
    with dev_thread.dev(path):
        yield path


def answer(*arguments: str, folder: Path) -> Any:
    """Return what a command prints with `--json`."""
    ended = command(*arguments, "--json", folder=folder)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def second_application(folder: Path) -> dict[str, str]:
    """Return the second application of the credentials file."""
    found: dict[str, str] = credentials(folder)["test_application"]
    return found


def exchange(folder: Path, application: dict[str, str], code: str, **parameters: Any) -> tuple[int, dict[str, Any]]:
    """Exchange a code, as a client that sends `test_token` only if it is in `parameters`."""
    body = {name: application[name] for name in ("client_id", "client_secret", "redirect_uri")}
    address = f"{credentials(folder)['base_url']}/oauth/token"
    status, answered = request(
        "POST", address, body={**body, "grant_type": "authorization_code", "code": code, **parameters}
    )
    return status, answered


def test_second_application_is_in_the_credentials_file(folder: Path) -> None:
    """It is another one, set to test tokens, with the same redirect URI, and comes after the first in the file."""
    found, second = credentials(folder), second_application(folder)
    assert set(second) == {"client_id", "client_secret", "redirect_uri"}
    assert re.fullmatch(r"\d{16}", second["client_id"])
    assert (second["client_id"] != found["client_id"], second["redirect_uri"]) == (True, found["redirect_uri"])
    shown = answer("apps", "show", second["client_id"], folder=folder)
    assert (shown["name"], shown["test_tokens"], shown["redirect_uris"]) == (NAME, True, [second["redirect_uri"]])
    assert answer("apps", "show", found["client_id"], folder=folder)["test_tokens"] is False
    text = (folder / ".paydesk" / "credentials.json").read_text()
    for name in ("client_id", "client_secret", "redirect_uri"):
        (first, *others) = re.findall(f'"{name}": "([^"]*)"', text)
        assert (first, others) == (found[name], [second[name]])


def test_payment_without_the_field_reaches_the_inbox(folder: Path) -> None:
    """From a code for the second application to the webhook of an order, with a valid signature."""
    second = second_application(folder)
    code = answer("code", "--client-id", second["client_id"], folder=folder)["code"]
    status, tokens = exchange(folder, second, code)
    assert (status, tokens["live_mode"], tokens["access_token"][:5]) == (200, False, "TEST-")
    found = credentials(folder)
    order = {
        "type": "point",
        "transactions": {"payments": [{"amount": "24.90"}]},
        "config": {"point": {"terminal_id": found["terminals"][0]["id"]}},
    }
    sent = urllib.request.Request(  # noqa: S310 - to the test's own service
        f"{found['base_url']}/v1/orders",
        json.dumps(order).encode(),
        {
            "Authorization": f"Bearer {tokens['access_token']}",
            "Content-Type": "application/json",
            "X-Idempotency-Key": str(uuid.uuid4()),
        },
    )
    with urllib.request.urlopen(sent, timeout=30) as created:  # noqa: S310
        order_id = json.load(created)["id"]
    until = time.monotonic() + DELIVERY_SECONDS_MAX
    actions: dict[str, bool] = {}
    while "order.processed" not in actions and time.monotonic() < until:
        _, inbox = request("GET", found["webhook"]["inbox_url"])
        actions = {one["action"]: one["signature_valid"] for one in inbox["data"] if one.get("order_id") == order_id}
        time.sleep(0.05)
    assert actions == {"order.created": True, "order.at_terminal": True, "order.processed": True}


@pytest.mark.parametrize(("option", "live"), [("--test", False), ("--live", True)])
def test_code_for_one_mode(folder: Path, option: str, *, live: bool) -> None:
    """It is exchanged without the field, by either application; a field that contradicts it is refused."""
    for application in (credentials(folder), second_application(folder)):
        printed = command("code", option, "--client-id", application["client_id"], folder=folder)
        code = printed.stdout.strip()
        refused, body = exchange(folder, application, code, test_token="true" if live else "false")
        assert (refused, body["error"]) == (400, "invalid_grant")
        status, tokens = exchange(folder, application, code)
        assert (status, tokens["live_mode"]) == (200, live)


def test_code_without_an_option_leaves_it_to_the_exchange(folder: Path) -> None:
    """As before: live without the field, test with it."""
    application = credentials(folder)
    for given, live in ({}, True), ({"test_token": True}, False):
        made = answer("code", folder=folder)
        assert "test_token" not in made
        assert exchange(folder, application, made["code"], **given)[1]["live_mode"] is live


def test_authorize_url_for_the_second_application(folder: Path) -> None:
    """By the option, and by its id: then its redirect URI is known too."""
    second = second_application(folder)
    for arguments in (["--test-application"], ["--client-id", second["client_id"]]):
        printed = command("authorize-url", *arguments, folder=folder)
        page, _, query = printed.stdout.strip().partition("?")
        asked = dict(urllib.parse.parse_qsl(query))
        assert page == f"{credentials(folder)['base_url']}/authorization"
        assert (asked["client_id"], asked["redirect_uri"]) == (second["client_id"], second["redirect_uri"])


def test_authorize_url_names_what_is_wrong(folder: Path, tmp_path: Path) -> None:
    """Two applications, or credentials without a second one."""
    both = command("authorize-url", "--test-application", "--client-id", "1", folder=folder)
    assert (both.returncode, both.stdout) == (2, "")
    assert "--client-id and --test-application" in both.stderr
    known = credentials(folder)
    del known["test_application"]
    for old in (known, {**known, "test_application": None}):
        (tmp_path / "old.json").write_text(json.dumps(old))
        refused = command("authorize-url", "--test-application", "--credentials", "old.json", folder=tmp_path)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "The credentials have no test application." in refused.stderr
        assert command("authorize-url", "--credentials", "old.json", folder=tmp_path).returncode == 0


@pytest.mark.parametrize("which", ["first", "second", "test code"])
def test_callback_page_exchanges_codes_of_each_application(folder: Path, which: str) -> None:
    """Its command works unchanged for each, and returns test tokens."""
    application = second_application(folder) if which == "second" else credentials(folder)
    options = ["--test"] if which == "test code" else []
    code = command("code", "--client-id", application["client_id"], *options, folder=folder).stdout.strip()
    address = f"{application['redirect_uri']}?{urllib.parse.urlencode({'code': code, 'state': 'x'})}"
    with urllib.request.urlopen(address, timeout=30) as page:  # noqa: S310 - to the test's own service
        shown: str = page.read().decode()
    offered = re.search("<pre[^>]*>(.*?)</pre>", shown, re.DOTALL)
    assert offered is not None, shown
    assert application["client_secret"] not in shown
    assert ("test_token" in offered[1]) is (which == "first")
    printed = subprocess.run(
        ["sh", "-eu"], cwd=folder, input=html.unescape(offered[1]), capture_output=True, text=True, check=True
    )
    tokens = json.loads(printed.stdout)
    assert (tokens["live_mode"], tokens["access_token"].split("-")[1]) == (False, application["client_id"])


def test_applications_are_created_and_changed(folder: Path) -> None:
    """Off by default; `list` and `show` have the setting; another value than on and off is wrong usage."""
    create = ("apps", "create", "--redirect-uri", URI, "--name")
    assert answer(*create, "Live", folder=folder)["test_tokens"] is False
    made = answer(*create, "Tests", "--test-tokens", folder=folder)
    assert made["test_tokens"] is True
    client_id = made["client_id"]
    for value in ("off", "on", "on"):
        assert answer("apps", "change", client_id, "--test-tokens", value, folder=folder)["test_tokens"] is (
            value == "on"
        )
        assert answer("apps", "show", client_id, folder=folder)["test_tokens"] is (value == "on")
        (listed,) = [one for one in answer("apps", "list", folder=folder) if one["client_id"] == client_id]
        assert listed["test_tokens"] is (value == "on")
    renamed = answer("apps", "change", client_id, "--name", "Tests 2", folder=folder)
    assert (renamed["name"], renamed["test_tokens"]) == ("Tests 2", True)
    for wrong in ("yes", "", "ON"):
        refused = command("apps", "change", client_id, "--test-tokens", wrong, folder=folder)
        assert (refused.returncode, refused.stdout) == (2, ""), wrong
        assert "--test-tokens" in refused.stderr


def test_reset_keeps_the_second_application(folder: Path) -> None:
    """Its secret works afterwards; its tokens are removed, since they are not in the file."""
    second = second_application(folder)
    code = answer("code", "--client-id", second["client_id"], folder=folder)["code"]
    _, tokens = exchange(folder, second, code)
    terminals = f"{credentials(folder)['base_url']}/terminals/v1/list"
    assert request("GET", terminals, tokens["access_token"])[0] == 200
    assert command("reset", "--yes", folder=folder).returncode == 0
    assert second_application(folder) == second
    assert request("GET", terminals, tokens["access_token"])[0] == 401
    code = answer("code", "--client-id", second["client_id"], folder=folder)["code"]
    assert exchange(folder, second, code)[1]["live_mode"] is False


@pytest.mark.long("it starts the service several times")
def test_restart_corrects_what_was_changed(database_url: str, tmp_path: Path) -> None:
    """A wrong secret gets replaced, a setting that was turned off is turned on, and the id stays."""
    with dev(tmp_path, PAYDESK_DATABASE_URL=database_url):
        first = second_application(tmp_path)
        changed = answer("apps", "change", first["client_id"], "--test-tokens", "off", folder=tmp_path)
        assert changed["test_tokens"] is False
    file = tmp_path / ".paydesk" / "credentials.json"
    document = {**credentials(tmp_path), "test_application": {**first, "client_secret": "wrong", "note": "mine"}}
    file.write_text(json.dumps(document))
    with dev(tmp_path, PAYDESK_DATABASE_URL=database_url):
        again = second_application(tmp_path)
        assert (again["client_id"], again["note"]) == (first["client_id"], "mine")
        assert again["client_secret"] not in ("wrong", first["client_secret"])
        code = answer("code", "--client-id", again["client_id"], folder=tmp_path)["code"]
        assert exchange(tmp_path, again, code)[1]["live_mode"] is False
        listed = answer("apps", "list", folder=tmp_path)
        assert sorted(one["name"] for one in listed) == ["Demo POS", NAME]
        assert len(answer("subscriptions", "list", folder=tmp_path)) == 2
    # A file of an earlier version, or one in which the object was spoiled.
    file.write_text(json.dumps({**credentials(tmp_path), "test_application": "gone"}))
    with dev(tmp_path, PAYDESK_DATABASE_URL=database_url):
        assert second_application(tmp_path)["client_id"] == first["client_id"]


def test_fresh_makes_another_second_application(tmp_path: Path) -> None:
    """With the first one: a fresh database has neither."""
    with dev(tmp_path):
        before = credentials(tmp_path)
    with dev(tmp_path, "--fresh"):
        after = credentials(tmp_path)
        assert after["test_application"]["client_id"] != before["test_application"]["client_id"]
        code = answer("code", "--client-id", after["test_application"]["client_id"], folder=tmp_path)["code"]
        assert exchange(tmp_path, after["test_application"], code)[1]["live_mode"] is False
