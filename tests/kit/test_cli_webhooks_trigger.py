"""`paydesk webhooks trigger` with a receiver, and without any service."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from command_line import command
from forwarded import Got, hook
from free_port import free_port
from paydesk.engine.orders import samples
from tables import each
from webhook_validators import in_python

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
VALID = dict.fromkeys(("mercadopago for Python", "standardwebhooks for Python", "svix for Python"), "")


def trigger(
    folder: Path, *arguments: str, secret: str | None = SECRET, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run `paydesk webhooks trigger`."""
    signed = ("--secret", secret) if secret is not None else ()
    return command("webhooks", "trigger", *arguments, *signed, folder=folder, **variables)


@each("action", samples.actions())
def test_sends_a_valid_notification_of_every_action(tmp_path: Path, action: str) -> None:
    """The official validators accept it, and it has the headers of the service."""
    with hook() as receiving:
        done = trigger(tmp_path, action, "--to", f"{receiving.url}?shop=7")
        (got,) = receiving.got
    assert done.returncode == 0, done.stderr
    assert f"{action} " in done.stdout
    assert " 200 " in done.stdout
    body = json.loads(got.body)
    assert body["action"] == action
    assert got.url.endswith(f"/hook?shop=7&data.id={body['data']['id'].lower()}&type={body['type']}")
    assert in_python(got.url, got.headers, got.body, SECRET) == VALID
    assert got.headers["x-retry"] == "0"
    assert got.headers["content-type"] == "application/json"
    assert list(tmp_path.iterdir()) == []


def test_options_appear_in_the_notification(tmp_path: Path) -> None:
    """Amount, currency, reference, status detail, id and mode; with --json the notification is printed."""
    given = ("--amount", "1500", "--currency", "CLP", "--reference", "table-7", "--status-detail", "high_risk")
    order = "ORD01J67CQQH5904WDBVZEM4JMEP9"
    with hook() as receiving:
        done = trigger(tmp_path, "order.failed", "--to", receiving.url, *given, "--order", order, "--live", "--json")
    printed = json.loads(done.stdout)
    data = printed["event"]["data"]
    (payment,) = data["transactions"]["payments"]
    assert (printed["delivered"], printed["status"], printed["id"], printed["attempt"]) == (True, 200, order, 1)
    assert (payment["amount"], payment["status_detail"], data["external_reference"]) == ("1500", "high_risk", "table-7")
    assert printed["event"]["live_mode"] is True


def test_attempts_are_one_notification(tmp_path: Path) -> None:
    """The same ids and bytes, and X-Retry counts: a receiver can try how it handles duplicates."""
    with hook() as receiving:
        assert trigger(tmp_path, "order.processed", "--to", receiving.url, "--attempts", "3").returncode == 0
        assert trigger(tmp_path, "order.processed", "--to", receiving.url).returncode == 0
    *same, other = receiving.got
    assert [got.headers["x-retry"] for got in same] == ["0", "1", "2"]
    assert len({(got.body, got.headers["webhook-id"], got.headers["x-request-id"]) for got in same}) == 1
    assert other.headers["webhook-id"] != same[0].headers["webhook-id"]


@pytest.mark.parametrize("status", [302, 400, 401, 500])
def test_refusal_of_the_receiver_exits_1(tmp_path: Path, status: int) -> None:
    """A redirect is not followed; the beginning of the answer is printed without control characters."""

    def answer(_: Got) -> tuple[int, bytes]:
        return status, b"no \x1b[way " + b"x " * 2_500_000

    with hook(answer) as receiving:
        done = trigger(tmp_path, "order.created", "--to", receiving.url)
        assert len(receiving.got) == 1
    assert done.returncode == 1
    assert f"answered {status}" in done.stderr
    assert ("another secret" in done.stderr) == (status == 401)
    assert "no \N{REPLACEMENT CHARACTER}[way" in done.stdout
    assert len(done.stdout) < 1000


def test_no_receiver_exits_3(tmp_path: Path) -> None:
    """The message names the URL."""
    url = f"http://127.0.0.1:{free_port()}/hook"
    done = trigger(tmp_path, "order.created", "--to", url)
    assert done.returncode == 3
    assert f"No answer from {url}" in done.stderr


@each(
    "arguments, message",
    [
        (("order.paid", "--to", "http://localhost/x"), "The actions are order.created, order.at_terminal"),
        (("order.failed",), "an action, and --to URL"),
        (("--to", "http://localhost/x"), "an action, and --to URL"),
        (("order.failed", "--to", "localhost:3000/hook"), "--to must be https or http"),
        (("order.failed", "--to", "ftp://localhost/hook"), "--to must be https or http"),
        (("order.failed", "--to", "http://"), "--to must have a host"),
        (("order.failed", "--to", "http://a:99999/"), "--to must be a URL"),
        (("order.failed", "--to", "http://a/#x"), "must not have a fragment"),
        (("order.failed", "--to", "http://a/?data.id=1"), "must not have a parameter data.id of its own"),
        (("order.failed", "--to", "http://a/", "--amount", "1,555"), "is not an amount above zero in BRL"),
        (("order.failed", "--to", "http://a/", "--status-detail", "x"), "has no status detail x"),
        (("order.failed", "--to", "http://a/", "--order", "\N{BELL}"), "is not the id of an order"),
    ],
)
def test_wrong_usage_exits_2(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    """The message says what is valid."""
    done = trigger(tmp_path, *arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stdout == ""


def test_an_invalid_secret_is_refused_without_printing_it(tmp_path: Path) -> None:
    """It must have the prefix and valid base64."""
    for secret in ("", "nonsense", "whsec_", "whsec_%%%%", SECRET.removeprefix("whsec_")):
        done = trigger(tmp_path, "order.created", "--to", "http://localhost/x", secret=secret)
        assert done.returncode == 2
        assert "The value of --secret is not a webhook secret." in done.stderr
        assert not secret or secret == "whsec_" or secret not in done.stderr


def test_without_secret_and_file_it_says_how_to_get_one(tmp_path: Path) -> None:
    """There is nothing to keep a secret in."""
    done = trigger(tmp_path, "order.created", "--to", "http://localhost/x", secret=None)
    assert done.returncode == 2
    assert "Give one with --secret" in done.stderr


def test_the_secret_is_made_once_and_kept_in_the_file(tmp_path: Path) -> None:
    """Other fields stay, the file stays private, and application and seller are those of the file."""
    file = tmp_path / "mine.json"
    document = {"base_url": "http://127.0.0.1:1", "client_id": "43", "seller": {"user_id": 42}, "own": [1]}
    file.write_text(json.dumps(document))
    with hook() as receiving:
        for _ in range(2):
            arguments = ("order.created", "--to", receiving.url, "--credentials", str(file))
            done = trigger(tmp_path, *arguments, secret=None)
            assert done.returncode == 0, done.stderr
    written = json.loads(file.read_text())
    secret = written.pop("listen_secret")
    assert written == document
    assert file.stat().st_mode & 0o777 == 0o600
    assert secret in done.stderr
    assert secret not in done.stdout
    for got in receiving.got:
        assert in_python(got.url, got.headers, got.body, secret) == VALID
        body = json.loads(got.body)
        assert (body["application_id"], body["user_id"]) == ("43", "42")


@pytest.mark.parametrize("content", ["", "[]", "nonsense", '{"listen_secret": 7}', '{"operator": []}'])
def test_an_unusable_credentials_file_is_named(tmp_path: Path, content: str) -> None:
    """And is left as it is."""
    file = tmp_path / "mine.json"
    file.write_text(content)
    arguments = ("order.created", "--to", "http://localhost/x", "--credentials", str(file))
    done = trigger(tmp_path, *arguments, secret=None)
    assert done.returncode == 2
    assert str(file) in done.stderr
    assert file.read_text() == content


def test_list_shows_every_action_with_its_details(tmp_path: Path) -> None:
    """Tab-separated on a pipe, and as JSON."""
    done = trigger(tmp_path, "--list", "--json", secret=None)
    rows = {row["action"]: row["status_details"] for row in json.loads(done.stdout)}
    assert tuple(rows) == samples.actions()
    assert rows["order.refunded"] == ["refunded", "partially_refunded"]
    assert "order.expired\texpired\n" in trigger(tmp_path, "--list", secret=None).stdout
