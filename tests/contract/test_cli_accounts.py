"""`paydesk apps`, `sellers` and `operators` against a running `paydesk dev`."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from command_line import command
from paydesk.commands.client.failure import WrongUsage
from paydesk.commands.nouns import accounts as operators
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Row
from paydesk_process import credentials, request

URI = "https://shop.example/callback"


def answer(*arguments: str, folder: Path, **variables: str) -> Any:
    """Return what a command prints with `--json`."""
    ended = command(*arguments, "--json", folder=folder, **variables)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def authenticates(folder: Path, client_id: str, secret: str) -> bool:
    """Return whether the secret authenticates the application."""
    body = {"client_id": client_id, "client_secret": secret, "grant_type": "authorization_code", "code": "TG-1",
            "redirect_uri": URI}  # fmt: skip
    _, refused = request("POST", f"{credentials(folder)['base_url']}/oauth/token", body=body)
    return bool(refused["error"] == "invalid_grant")


def test_an_application_is_changed_suspended_and_resumed(folder: Path) -> None:
    """Omitted fields stay; the response is on standard output, the next step on standard error."""
    made = answer("apps", "create", "--name", "Shop", "--redirect-uri", URI, folder=folder)
    client_id, secret = made["client_id"], made.pop("client_secret")
    local = "http://127.0.0.1:3000/cb"
    changed = answer(
        "apps", "change", client_id, "--redirect-uri", local, "--redirect-uri", URI, "--pkce-required", folder=folder
    )
    secrets = changed.pop("secrets")
    assert changed == {**made, "redirect_uris": [local, URI], "pkce_required": True}
    suspended = command("apps", "suspend", client_id, folder=folder)
    assert (suspended.returncode, f"paydesk apps resume {client_id}" in suspended.stderr) == (0, True)
    assert "suspended_date" in suspended.stdout
    assert answer("apps", "resume", client_id, folder=folder) == {**changed, "secrets": secrets}
    printed = command("apps", "show", client_id, folder=folder)
    assert secrets[0]["id"] in printed.stdout
    assert secret not in printed.stdout + printed.stderr


def test_secrets_are_rotated(folder: Path) -> None:
    """Two secrets are valid at once; a removed one is refused; the last one can be removed."""
    made = answer("apps", "create", "--name", "Kiosk", "--redirect-uri", URI, folder=folder)
    client_id = made["client_id"]
    added = answer("apps", "secrets", "add", client_id, "--others-expire-in", "24h", folder=folder)
    first, second = answer("apps", "secrets", "list", client_id, folder=folder)
    assert (second["id"], "expires_date" in first) == (added["id"], True)
    assert authenticates(folder, client_id, made["client_secret"])
    assert authenticates(folder, client_id, added["client_secret"])
    assert answer("apps", "secrets", "remove", client_id, first["id"], folder=folder) == [second]
    assert not authenticates(folder, client_id, made["client_secret"])
    last = command("apps", "secrets", "remove", client_id, second["id"], folder=folder)
    assert (last.returncode, f"paydesk apps secrets add {client_id}" in last.stderr) == (0, True)
    assert not authenticates(folder, client_id, added["client_secret"])


def test_a_seller_is_changed_suspended_and_resumed(folder: Path) -> None:
    """A generated password is printed; one from standard input is not."""
    made = answer("sellers", "create", "--email", "ana@shop.example", "--name", "Ana", folder=folder)
    user_id, first = str(made["user_id"]), made.pop("password")
    made = answer("sellers", "change", user_id, "--name", "Ana María", folder=folder)
    assert made["name"] == "Ana María"
    again = answer("sellers", "password", user_id, folder=folder)
    assert again.pop("password") != first
    assert again == {**made, "authorizations": 0}
    read = ("sellers", "password", user_id, "--password-stdin")
    given = command(*read, folder=folder, stdin="correct horse battery staple\n")
    assert (given.returncode, given.stdout.count("password")) == (0, 0)
    assert "correct horse" not in given.stdout
    suspended = command("sellers", "suspend", user_id, folder=folder)
    assert (suspended.returncode, f"paydesk sellers resume {user_id}" in suspended.stderr) == (0, True)
    assert answer("sellers", "resume", user_id, folder=folder) == made
    assert answer("sellers", "show", user_id, folder=folder) == made


def test_weak_password_is_refused(folder: Path) -> None:
    """The advice is on standard error, and nothing changes."""
    made = answer("sellers", "create", "--email", "rosa.lima@shop.example", "--name", "Rosa", folder=folder)
    password = ("sellers", "password", str(made["user_id"]), "--password-stdin")
    create = ("sellers", "create", "--email", "marcia@shop.example", "--name", "Marcia", "--password-stdin")
    for arguments, given, message in (
        (password, "password1234", "must not be a common word or name"),
        (password, "at Rosa.Lima's own", "before the @"),
        (create, "senha1234567", "must not be a common word or name"),
        (create, "marcia e sua loja", "before the @"),
    ):
        refused = command(*arguments, folder=folder, stdin=f"{given}\n")
        assert (refused.returncode, refused.stdout) == (1, ""), given
        assert message in refused.stderr
        assert given not in refused.stderr
    assert "marcia@shop.example" not in command("sellers", "list", folder=folder).stdout


def test_password_prints_remaining_authorizations(folder: Path) -> None:
    """Without --withdraw-all standard error has their number; with it none remain."""
    service = credentials(folder)
    made = answer("sellers", "create", "--email", "olga@shop.example", "--name", "Olga", folder=folder)
    user_id = str(made["user_id"])
    for _ in range(2):
        status, _ = request(
            "POST",
            f"{service['base_url']}/operator/v1/codes",
            token=service["operator"]["token"],
            body={"client_id": service["client_id"], "user_id": user_id},
        )
        assert status == 201
    kept = command("sellers", "password", user_id, "--json", folder=folder)
    assert (kept.returncode, json.loads(kept.stdout)["authorizations"]) == (0, 2)
    assert "2 authorizations remain: applications keep their tokens." in kept.stderr
    assert f"paydesk grants list --seller {user_id}" in kept.stderr
    ended = command("sellers", "password", user_id, "--withdraw-all", "--json", folder=folder)
    printed = json.loads(ended.stdout)
    assert (printed["authorizations"], printed["withdrawn"], "remain" in ended.stderr) == (0, 2, False)
    grants = answer("grants", "list", "--seller", user_id, folder=folder)
    assert ["withdrawn_date" in one for one in grants] == [True, True]
    refused = command("grants", "list", "--seller", "one", folder=folder)
    assert (refused.returncode, "SELLER is malformed" in refused.stderr) == (2, True)


def test_operators_are_added_and_revoked(folder: Path) -> None:
    """By a running service; support is read-only; a revoked token is refused with advice."""
    service = credentials(folder)
    service_option = ("--credentials", str(folder / ".paydesk" / "credentials.json"))
    made = answer("operators", "create", "--name", "bea", "--role", "support", *service_option, folder=folder)
    as_bea = {"PAYDESK_BASE_URL": service["base_url"], "PAYDESK_OPERATOR_TOKEN": made.pop("token")}
    assert made in answer("operators", "list", folder=folder, **as_bea)
    refused = command("sellers", "create", "--email", "x@y.example", "--name", "X", folder=folder, **as_bea)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "Your role, support, may only read." in refused.stderr
    refused = command("operators", "create", "--name", "eve", folder=folder, **as_bea)
    assert (refused.returncode, "an owner may" in refused.stderr) == (1, True)
    revoked = answer("operators", "revoke", made["operator_id"], folder=folder)
    assert "revoked_date" in revoked
    refused = command("apps", "list", folder=folder, **as_bea)
    assert (refused.returncode, "PAYDESK_OPERATOR_TOKEN" in refused.stderr) == (1, True)


def test_accounts_are_deleted(folder: Path) -> None:
    """What is in use is not: the message names what uses it, and says what to do."""
    application = answer("apps", "create", "--name", "Shop", "--redirect-uri", URI, folder=folder)["client_id"]
    assert answer("apps", "delete", application, folder=folder) == {"client_id": application, "deleted": True}
    assert "application_not_found" in command("apps", "delete", application, folder=folder).stderr
    seller = str(answer("sellers", "create", "--email", "d@shop.example", "--name", "D", folder=folder)["user_id"])
    store = answer("stores", "create", "--seller", seller, "--name", "Shop", folder=folder)["store_id"]
    refused = command("sellers", "delete", seller, folder=folder)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"it has the stores {store}; delete these first" in refused.stderr
    assert command("stores", "delete", str(store), "--seller", seller, folder=folder).returncode == 0
    assert answer("sellers", "delete", seller, folder=folder) == {"user_id": seller, "deleted": True}
    demo = command("apps", "delete", credentials(folder)["client_id"], folder=folder)
    assert (demo.returncode, "in_use" in demo.stderr, "withdraw these first" in demo.stderr) == (1, True, True)


def test_operators_are_changed_and_deleted(folder: Path) -> None:
    """The last owner is not."""
    service_option = ("--credentials", str(folder / ".paydesk" / "credentials.json"))
    made = answer("operators", "create", "--name", "bia", "--role", "support", *service_option, folder=folder)
    number = made["operator_id"]
    changed = answer("operators", "change", number, "--role", "operator", "--name", "Bia", folder=folder)
    assert (changed["role"], changed["name"]) == ("operator", "Bia")
    assert answer("operators", "show", number, folder=folder) == changed
    assert command("operators", "change", number, folder=folder).returncode == 2
    assert answer("operators", "delete", number, folder=folder) == {"operator_id": number, "deleted": True}
    owners = [one["operator_id"] for one in answer("operators", "list", folder=folder)
              if one["role"] == "owner" and "revoked_date" not in one]  # fmt: skip
    last = command("operators", "delete", owners[0], folder=folder)
    assert (len(owners), last.returncode, "last_owner" in last.stderr) == (1, 1, True)


def test_people_links_and_sessions(folder: Path) -> None:
    """A person gets a link, which another one replaces; a program has no sessions; the console's address is printed."""
    file = credentials(folder)
    service_option = ("--credentials", str(folder / ".paydesk" / "credentials.json"))
    create = ("operators", "create", "--name", "eva", "--role", "viewer", "--email", "Eva@shop.example")
    created = command(*create, *service_option, folder=folder)
    assert (created.returncode, "valid once" in created.stderr, "/console/password?link=PDL-" in created.stdout) == (
        0, True, True,
    )  # fmt: skip
    assert "email_taken" in command(*create, *service_option, folder=folder).stderr
    (number,) = [one["operator_id"] for one in answer("operators", "list", folder=folder)
                 if one.get("email") == "eva@shop.example"]  # fmt: skip
    link = answer("operators", "link", number, folder=folder)
    assert link["url"].startswith(f"{file['base_url']}/console/password?link=PDL-")
    changed = answer("operators", "change", number, "--email", "ana@shop.example", folder=folder)
    assert changed["email"] == "ana@shop.example"
    assert answer("sessions", "list", "--operator", number, folder=folder) == []
    assert answer("sessions", "end", "--operator", number, folder=folder) == {"operator": number, "ended": 0}
    unknown = command("sessions", "end", "01J67CQQH5904WDBVZEM4JMEP3", folder=folder)
    assert (unknown.returncode, "session_not_found" in unknown.stderr) == (1, True)
    assert command("sessions", "end", folder=folder).returncode == 2
    assert "works only in a browser on the machine of the service" in created.stderr
    assert "PAYDESK_OPERATOR_PUBLIC_URL" in created.stderr
    own = command("operators", "password", folder=folder)
    assert (own.returncode, "two lines" in own.stderr) == (2, True)
    printed = command("console", folder=folder)
    assert printed.stdout == f"{file['console_url']}\n"
    assert file["console_url"].startswith(f"{file['base_url']}/console/enter?key=")
    assert file["operator"]["email"] == "operator@demo.example"
    with urllib.request.urlopen(file["console_url"]) as page:  # noqa: S310 - the address of the service
        assert page.url == f"{file['base_url']}/console/sign-in?return_to=%2Fconsole", "no cookie is kept"


@pytest.mark.on_postgres
def test_first_person_gets_a_link_with_the_set_address(database_url: str, tmp_path: Path) -> None:
    """With a note if browsers on other machines cannot open it."""
    create = ("operators", "create", "--name", "ana", "--email", "ana@shop.example")
    for url, is_noted in (("", True), ("https://desk.example", False)):
        given = {"PAYDESK_OPERATOR_PUBLIC_URL": url} if url else {}
        ended = command(*create, "--json", folder=tmp_path, PAYDESK_DATABASE_URL=database_url, **given)
        assert ended.returncode == 0, ended.stderr
        assert json.loads(ended.stdout)["password_url"].startswith(url or "http://127.0.0.1:8378/")
        assert ("works only in a browser on the machine" in ended.stderr) is is_noted
        create = ("operators", "create", "--name", "bea", "--email", "bea@shop.example")


def test_password_is_typed_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without showing it, and twice; if the two differ, nothing is sent."""
    sent: list[object] = []

    class Desk:
        def post(self, path: str, body: dict[str, str]) -> None:
            sent.append((path, body))

    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal())
    for again, is_sent in (("new one x", False), ("new one", True)):
        typed = iter(["old one", "new one", again])
        monkeypatch.setattr(operators, "getpass", lambda _, typed=typed: next(typed))
        if not is_sent:
            with pytest.raises(WrongUsage, match="differ"):
                operators.password(Desk())  # type: ignore[arg-type]  # it only posts
            assert sent == []
        else:
            operators.password(Desk())  # type: ignore[arg-type]  # it only posts
    assert sent == [("/operator/v1/password", {"current_password": "old one", "password": "new one"})]


def test_first_operator_is_created_in_the_database(database_url: str, tmp_path: Path) -> None:
    """Without a service; the audit trail has the operator, and the token only the response."""
    made = answer("operators", "create", "--name", "ana", folder=tmp_path, PAYDESK_DATABASE_URL=database_url)
    assert made["role"] == "owner"
    token = made.pop("token")

    async def rows() -> list[Row]:
        database = await open_database(database_url)
        try:
            return await database.read(
                lambda tx: tx.all("SELECT operator_id, action, subject, address, after FROM operator_audit")
            )
        finally:
            await database.close()

    ((operator_id, action, subject, address, after),) = asyncio.run(rows())
    assert (operator_id, action, subject) == (made["operator_id"], "operators.create", made["operator_id"])
    assert (address, json.loads(after)) == ("local", made)
    assert token not in after


def test_local_refusal_is_that_of_a_service(database_url: str, tmp_path: Path) -> None:
    """A taken e-mail address exits 1 with the message and its details, after the database that has it."""
    create = ("operators", "create", "--name", "ana", "--email", "ana@shop.example")
    assert command(*create, folder=tmp_path, PAYDESK_DATABASE_URL=database_url).returncode == 0
    refused = command(*create, folder=tmp_path, PAYDESK_DATABASE_URL=database_url)
    assert (refused.returncode, refused.stdout) == (1, "")
    where, _, reason = refused.stderr.partition("\n")
    assert where.startswith("Adding it to the database ")
    assert reason == (
        "Another account has this e-mail address. (email_taken)\n  '$.email' - must not be another operator's\n"
    )


def test_operator_is_added_by_the_service_of_this_folder(folder: Path) -> None:
    """Its credentials file is the default; no empty database is left, and the sessions of all are listed."""
    created = command("operators", "create", "--name", "cid", "--role", "viewer", "--json", folder=folder)
    base_url = credentials(folder)["base_url"]
    where = f"Adding it by {base_url}, the service of .paydesk/credentials.json."
    assert (created.returncode, where in created.stderr) == (0, True)
    named = {"PAYDESK_BASE_URL": base_url, "PAYDESK_OPERATOR_TOKEN": credentials(folder)["operator"]["token"]}
    refused = command("operators", "create", "--name", "", folder=folder, **named)
    assert (refused.returncode, refused.stderr.partition("\n")[0]) == (1, f"Adding it by {base_url}.")
    made = json.loads(created.stdout)
    del made["token"]
    assert made in answer("operators", "list", folder=folder)
    assert list(folder.glob("*.db*")) == []
    listed = answer("sessions", "list", folder=folder)
    assert listed == answer("sessions", "list", "--operator", "all", folder=folder)
    ended = answer("sessions", "end", "--operator", "all", folder=folder)
    assert ended == {"operator": "all", "ended": len(listed)}


def test_audit_trail_is_listed(folder: Path) -> None:
    """With what has changed; `--json` has the values before and after."""
    service_option = ("--credentials", str(folder / ".paydesk" / "credentials.json"))
    made = answer("operators", "create", "--name", "dan", "--role", "viewer", *service_option, folder=folder)
    number = made["operator_id"]
    answer("operators", "change", number, "--role", "support", folder=folder)
    changed, created = answer("audit", "list", "--subject", number, folder=folder)
    assert (changed["action"], changed["before"]["role"], changed["after"]["role"]) == (
        "operators.change", "viewer", "support",
    )  # fmt: skip
    assert (created["action"], "before" in created) == ("operators.create", False)
    printed = command("audit", "list", "--operator", changed["operator_id"], "--limit", "1", folder=folder).stdout
    assert printed.count("\n") == 1
    assert "role: viewer → support" in printed


def test_missing_database_is_not_created(tmp_path: Path) -> None:
    """The message names the file, and what to do; nothing is left behind."""
    ended = command("operators", "create", "--name", "ana", folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (1, "")
    for part in ("paydesk.db does not exist", "paydesk migrate", "PAYDESK_BASE_URL"):
        assert part in ended.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "a\nb", "\udcff"])
def test_invalid_name_of_first_operator_exits_2(name: str, tmp_path: Path) -> None:
    """The validation of the HTTP interface applies before a database is opened."""
    ended = command("operators", "create", "--name", name, folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "'$.name' - must" in ended.stderr


def test_refused_command_exits_1(folder: Path) -> None:
    """The service's message is on standard error, and standard output is empty."""
    client_id = credentials(folder)["client_id"]
    for arguments, message in (
        (("apps", "show", "1"), "application_not_found"),
        (("apps", "secrets", "list", "x"), "invalid_path_param"),
        (("apps", "secrets", "list", "../sellers"), "not_found"),
        (("apps", "change", client_id, "--redirect-uri", "https://shop.example/#a"), "must not have a fragment"),
        (("apps", "secrets", "add", client_id, "--others-expire-in", "soon"), "must be a duration such as 0s"),
        (("sellers", "suspend", "1"), "seller_not_found"),
    ):
        ended = command(*arguments, folder=folder)
        assert (ended.returncode, ended.stdout) == (1, ""), arguments
        assert message in ended.stderr


def test_wrong_usage_exits_2(tmp_path: Path) -> None:
    """For a change without fields, a missing password, and both a service and a database."""
    variables = {"PAYDESK_BASE_URL": "http://127.0.0.1:9", "PAYDESK_OPERATOR_TOKEN": "x"}
    for arguments, message in (
        (("apps", "change", "1"), "Nothing to change"),
        (("sellers", "password", "1", "--password-stdin"), "no password on standard input"),
        (("apps", "secrets", "list", ""), "must not be empty"),
        (("apps", "show", ""), "CLIENT_ID is malformed"),
        (("apps", "show", "x"), "CLIENT_ID is malformed"),
        (("apps", "show", "../sellers"), "CLIENT_ID is malformed"),
        (("operators", "create", "--name", "a", "--settings", "a", "--credentials", "b"), "either"),
        (("operators", "revoke"), "OPERATOR_ID"),
        (("grants", "revoke", ""), "GRANT_ID is malformed"),
    ):
        ended = command(*arguments, folder=tmp_path, **variables)
        assert (ended.returncode, ended.stdout) == (2, ""), arguments
        assert message in ended.stderr
