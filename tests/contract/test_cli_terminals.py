"""`paydesk terminals`, `stores` and `pos` against a running `paydesk dev`."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from command_line import command
from paydesk.commands.nouns.terminals import question
from paydesk_process import credentials, environment, request
from tables import each


@pytest.fixture(scope="module")
def seller(folder: Path) -> str:
    """Return a seller without stores."""
    made = answer("sellers", "create", "--email", "ana@shop.example", "--name", "Ana", folder=folder)
    return str(made["user_id"])


def answer(*arguments: str, folder: Path) -> Any:
    """Return what a command prints with `--json`."""
    ended = command(*arguments, "--json", folder=folder)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def refused(*arguments: str, folder: Path) -> tuple[int, str]:
    """Return the exit code and standard error of a command that must print no answer."""
    ended = command(*arguments, folder=folder)
    assert ended.stdout == ""
    return ended.returncode, ended.stderr


def ask_to_pair(folder: Path, serial: str, model: str = "NEWLAND_N950") -> dict[str, Any]:
    """Ask to be paired, as a terminal does."""
    base_url = credentials(folder)["base_url"]
    codes: dict[str, Any]
    status, codes = request("POST", f"{base_url}/device/v1/pairings", body={"model": model, "serial": serial})
    assert status == 201
    return codes


def poll(folder: Path, codes: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Ask for the device token."""
    address = f"{credentials(folder)['base_url']}/device/v1/pairings/token"
    status, body = request("POST", address, body={"device_code": codes["device_code"]})
    return status, body


def test_terminal_is_paired(folder: Path, seller: str) -> None:
    """Standard error has what asks to be paired and the next step; the code can be typed in lower case."""
    codes = ask_to_pair(folder, "1")
    typed = codes["user_code"].replace("-", "").lower()
    ended = command("terminals", "pair", typed, "--seller", seller, "--test", "--yes", "--json", folder=folder)
    made = json.loads(ended.stdout)
    assert (made["id"], made["live_mode"], made["operating_mode"]) == ("NEWLAND_N950__1", False, "UNDEFINED")
    assert "model NEWLAND_N950, serial 1, address 127.0.0.1, paired already: no" in ended.stderr
    assert "paydesk terminals change NEWLAND_N950__1 --mode PDV" in ended.stderr
    assert poll(folder, codes)[1]["terminal_id"] == made["id"]
    code, message = refused("terminals", "pair", typed, "--seller", seller, "--yes", folder=folder)
    assert (code, "pairing_not_found" in message) == (1, True)


def test_paired_terminal_needs_replace(folder: Path, seller: str) -> None:
    """The message says so before the question."""
    pair = ("terminals", "pair", "--seller", seller, "--yes")
    made = answer(*pair, ask_to_pair(folder, "2")["user_code"], folder=folder)
    codes = ask_to_pair(folder, "2")
    code, message = refused(*pair, codes["user_code"], folder=folder)
    assert (code, "Add --replace" in message, "paired already: yes" in message) == (1, True, True)
    assert answer(*pair, codes["user_code"], "--replace", folder=folder) == made


@pytest.mark.parametrize(("typed", "code", "status"), [("y\n", 0, 200), ("n\n", 1, 400), ("\n", 1, 400)])
def test_person_is_asked(folder: Path, seller: str, typed: str, code: int, status: int) -> None:
    """At a terminal; anything but yes changes nothing."""
    codes = ask_to_pair(folder, f"asked-{status}-{len(typed)}")
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "paydesk.commands", "terminals", "pair", codes["user_code"], "--seller", seller],
        cwd=folder,
        env=environment(),
        stdin=follower,
        stdout=follower,
        stderr=subprocess.PIPE,
        text=True,
    ) as asking:
        os.close(follower)
        os.write(leader, typed.encode())
        assert asking.stderr is not None
        said = asking.stderr.read()
        assert asking.wait(30) == code, said
    os.close(leader)
    assert f"Pair it with seller {seller} for live orders?" in said
    assert ("Nothing was changed." in said) == bool(code)
    assert poll(folder, codes)[0] == status


def test_question_names_what_the_pairing_does() -> None:
    """A terminal that is paired again keeps what is not given."""
    assert question(1, 2, 3, live=False, is_paired=False) == "Pair it with seller 1, store 2, pos 3 for test orders?"
    assert question(1, None, None, live=None, is_paired=True) == "Pair it again with seller 1?"
    assert question(1, None, 3, live=True, is_paired=True) == "Pair it again with seller 1, pos 3 for live orders?"


def test_pairing_is_denied(folder: Path) -> None:
    """Without a question."""
    codes = ask_to_pair(folder, "3")
    assert answer("terminals", "pair", codes["user_code"], "--deny", folder=folder) == {"denied": True}
    assert poll(folder, codes)[1]["error"] == "access_denied"


def test_terminal_is_changed_revoked_and_deleted(folder: Path, seller: str) -> None:
    """The answers are as in the list."""
    code = ask_to_pair(folder, "aB-4")["user_code"]
    made = answer("terminals", "pair", code, "--seller", seller, "--yes", "--kind", "service", folder=folder)
    change = ("terminals", "change", made["id"])
    tipped = answer(*change, "--mode", "PDV", "--tip", "10", "--tip", "15", folder=folder)
    assert tipped == {**made, "operating_mode": "PDV", "tip_percentages": [10, 15]}
    assert tipped in answer("terminals", "list", "--seller", seller, folder=folder)
    assert answer(*change, "--no-tips", folder=folder) == {**made, "operating_mode": "PDV"}
    revoked = command("terminals", "revoke", made["id"], folder=folder)
    assert made["id"] in revoked.stdout
    assert f"paydesk terminals pair CODE --seller {seller} --replace" in revoked.stderr
    assert answer("terminals", "delete", made["id"], folder=folder) == {"id": made["id"], "deleted": True}
    code_, message = refused("terminals", "delete", made["id"], folder=folder)
    assert (code_, message) == (1, "There is no such terminal. (terminal_not_found)\n")


def test_virtual_terminal_changes_its_script_and_is_deleted(folder: Path) -> None:
    """It is stopped, and its journal is deleted."""
    made = answer("terminals", "create", "--virtual", folder=folder)
    change = ("terminals", "change", made["id"], "--script")
    assert answer(*change, "decline:card_disabled:0.01s", folder=folder)["script"] == "decline:card_disabled:0.01s"
    paid = command("pay", "10.00", "--terminal", made["id"], folder=folder)
    assert "card_disabled" in paid.stdout + paid.stderr
    (journal,) = folder.glob(f".paydesk/**/{made['id']}.json")
    answer("terminals", "delete", made["id"], folder=folder)
    assert not journal.exists()
    real = answer("terminals", "pair", ask_to_pair(folder, "5")["user_code"], "--yes", "--seller",
                  str(made["seller_id"]), folder=folder)  # fmt: skip
    code, message = refused("terminals", "change", real["id"], "--script", "approve", folder=folder)
    assert (code, "only virtual terminals" in message) == (1, True)


def test_stores_and_points_of_sale_are_changed_and_deleted(folder: Path, seller: str) -> None:
    """One in use is not deleted; the message names what uses it."""
    store = answer("stores", "create", "--seller", seller, "--name", "Main", folder=folder)
    store_id = str(store["store_id"])
    changed = answer("stores", "change", store_id, "--name", "High street", folder=folder)
    assert changed == {**store, "name": "High street"}
    create = ("pos", "create", "--seller", seller, "--store", store_id, "--external-id", "TILL1")
    till = answer(*create, folder=folder)
    pos_id = str(till["pos_id"])
    changed = answer("pos", "change", pos_id, "--external-id", "TILL2", "--seller", seller, folder=folder)
    assert changed == {**till, "external_pos_id": "TILL2"}
    code, message = refused("stores", "delete", store_id, folder=folder)
    assert (code, "in_use" in message, pos_id in message) == (1, True, True)
    assert answer("pos", "delete", pos_id, folder=folder) == {"pos_id": pos_id, "deleted": True}
    assert answer("stores", "delete", store_id, folder=folder) == {"store_id": store_id, "deleted": True}


@each(
    "arguments, message",
    [
        (("terminals", "pair", "nonsense", "--seller", "1", "--yes"), "'nonsense' is not a pairing code"),
        (("terminals", "pair", "", "--seller", "1", "--yes"), "'' is not a pairing code"),
        (("terminals", "pair", "BCDF-GHJK", "--yes"), "--seller is missing"),
        (("terminals", "pair", "BCDF-GHJK", "--seller", "1"), "Add --yes"),
        (("terminals", "change", "M__1"), "Nothing to change"),
        (("terminals", "change", "M__1", "--tip", "1", "--no-tips"), "either --tip or --no-tips"),
        (("stores", "change", "1"), "Nothing to change"),
        (("pos", "change", "1", "--seller", "1"), "Nothing to change"),
    ],
)
def test_wrong_usage_exits_2(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    """Before the service is called."""
    variables = {"PAYDESK_BASE_URL": "http://127.0.0.1:9", "PAYDESK_OPERATOR_TOKEN": "x"}
    ended = command(*arguments, folder=tmp_path, **variables)
    assert (ended.returncode, ended.stdout, message in ended.stderr) == (2, "", True), ended.stderr


def test_too_many_wrong_codes_name_the_seconds_to_wait(folder: Path) -> None:
    """Each operator has a budget of its own."""
    create = ("operators", "create", "--name", "guesser", "--role", "operator")
    token = answer(*create, "--credentials", ".paydesk/credentials.json", folder=folder)["token"]
    deny = ("terminals", "pair", "BCDF-GHJK", "--deny")
    messages = [command(*deny, folder=folder, PAYDESK_OPERATOR_TOKEN=token).stderr for _ in range(6)]
    assert "pairing_not_found" in messages[0]
    assert re.search(r"too_many_requests\)\n  Wait \d+ s\.\n$", messages[-1])
