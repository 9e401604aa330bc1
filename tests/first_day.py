"""The first day of an installation: from an empty folder to paid orders, by its commands and by HTTP alone."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

from free_port import free_port
from installed import ROOT
from remote_scene import RemoteShop, did
from waiting import wait_until

KEY = "key-of-the-example-switch-0123456789"
SWITCH = "127.0.0.1", free_port()
ACQUIRERS = f"""\
[acquirers.switch]
adapter = "http"
url = "http://{SWITCH[0]}:{SWITCH[1]}/paydesk"
key_id = "shop-1"
secret = "file:switch.key"
capabilities = {{ needs_confirmation = true }}
"""
CLIENTS = f"127.0.0.1:{free_port()}"
"""Chosen before the start, because the public URL has it: applications compare `iss` with the address they use."""
OPERATORS = f"127.0.0.1:{free_port()}"
VARIABLES = {
    "PAYDESK_PUBLIC_URL": f"http://{CLIENTS}",
    "PAYDESK_LISTEN": CLIENTS,
    "PAYDESK_OPERATOR_PUBLIC_URL": f"http://{OPERATORS}",
    "PAYDESK_OPERATOR_LISTEN": OPERATORS,
    "PAYDESK_LOG_FORMAT": "json",
    "PAYDESK_ACQUIRER": "switch",
    "PAYDESK_ACQUIRERS_FILE": "acquirers.toml",
}
"""The settings; the files are in the folder where the commands run."""

Run = Callable[..., subprocess.CompletedProcess[str]]
Serving = Callable[[], AbstractContextManager[object]]


def write_acquirers(folder: Path) -> None:
    """Write the files of the acquirer of live orders, the example switch."""
    for name, text in (("acquirers.toml", ACQUIRERS), ("switch.key", KEY)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o600)


def play(folder: Path, run: Run, serving: Serving) -> None:
    """Set up and serve; pay a live order at a terminal, another by the example switch, and a test order."""
    said = ""
    for arguments in (("keys", "add"), ("migrate",), ("operators", "create", "--name", "ana"), ("doctor",)):
        ended = run(*arguments)
        assert ended.returncode == 0, ended.stderr
        said += ended.stdout
    (operator_token,) = re.findall(r"PDO-\S+", said)
    with switch(folder), serving():
        clients, operators = f"http://{CLIENTS}", f"http://{OPERATORS}"
        shop = RemoteShop(clients, operators, operator_token)
        live_token, test_token = shop.access_token(live=True), shop.access_token(live=False)
        terminal = shop.terminal(live=True)
        order = shop.order(live_token, terminal)
        terminal.pay(order)
        assert shop.read(live_token, order) == ("processed", "accredited", True)
        with _terminal(folder) as code:
            served = shop.approve(code, live=True, kind="service")
            order = shop.order(live_token, served)
            wait_until(lambda: shop.read(live_token, order)[0] == "processed")
        payment = did("GET", f"{clients}/v1/orders/{order}", live_token)["transactions"]["payments"][0]
        with closing(sqlite3.connect(folder / "switch.db")) as ledger:
            (kept,) = ledger.execute("SELECT payment_id, amount_minor FROM ledger WHERE kind = 'payment'")
        assert kept == (payment["id"], 2490)
        order = shop.order(test_token, shop.terminal(live=False))
        shop.bring(test_token, order, "processed")
        assert shop.read(test_token, order) == ("processed", "accredited", False)


@contextmanager
def _running(folder: Path, *arguments: str, line: str, **variables: str) -> Iterator[str]:
    """Run an example until the end; yield what its first line has."""
    with subprocess.Popen(
        [sys.executable, *arguments], cwd=folder, stdout=subprocess.PIPE, text=True, env={**os.environ, **variables}
    ) as process:
        try:
            assert process.stdout is not None
            first = re.fullmatch(line, process.stdout.readline())
            assert first is not None
            yield first[1]
        finally:
            process.terminate()


def switch(folder: Path) -> AbstractContextManager[str]:
    """Run the example switch until the end."""
    program = str(ROOT / "examples" / "switch" / "switch.py")
    address = f"{SWITCH[0]}:{SWITCH[1]}"
    key = ("--key-id", "shop-1", "--secret-file", str(folder / "switch.key"))
    files = ("--database", str(folder / "switch.db"), "--needs-confirmation")
    return _running(folder, program, "--listen", address, *key, *files, line=r"switch ready (\S+)\n")


def _terminal(folder: Path) -> AbstractContextManager[str]:
    """Run the reference terminal, whose orders the service sends to their acquirer; yield its code for the pairing."""
    program, journal = str(ROOT / "examples" / "terminal.py"), str(folder / "terminal.json")
    options = ("--serial", "LIVE-1", "--journal", journal, "--pair")
    arguments = (program, f"http://{CLIENTS}", *options)
    return _running(folder, *arguments, line=r"pairing code (\S+)\n", PYTHONUNBUFFERED="1")
