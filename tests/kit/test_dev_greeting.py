"""The output of `paydesk dev` when it is ready: the line for programs, a virtual terminal, and hints on a terminal."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from paydesk_dev.dev.greeting import Playable, greeting

CREDENTIALS = Path("data/credentials.json")
ID = "PAYDESK_VIRTUAL__C2AFE1BB4D93"
CONSOLE = "http://127.0.0.1:8377/console/enter?key=7f"
PLAYABLE = Playable(ID, f"http://127.0.0.1:8377/virtual/{ID}?key=1-7f")


def test_the_first_line_is_for_programs() -> None:
    """It has the address of the service; then come those of the console and of a virtual terminal, if there is one."""
    ready, console = "paydesk ready http://127.0.0.1:8377", f"console {CONSOLE}"
    assert greeting(CREDENTIALS, "http://127.0.0.1:8377", CONSOLE, None).splitlines() == [ready, console]
    assert greeting(CREDENTIALS, "http://127.0.0.1:8377", CONSOLE, PLAYABLE).splitlines() == [
        ready,
        console,
        f"virtual terminal {PLAYABLE.page_url}",
    ]


def test_a_terminal_also_gets_what_to_try() -> None:
    """An order for the virtual terminal; the sign-in page with the e-mail address and the file with the password."""
    ours, theirs = os.openpty()
    with os.fdopen(ours), os.fdopen(theirs, "w") as terminal, contextlib.redirect_stdout(terminal):
        ready, console, page, order, sign_in = greeting(
            CREDENTIALS, "http://127.0.0.1:8377", CONSOLE, PLAYABLE
        ).splitlines()
    assert ready == "paydesk ready http://127.0.0.1:8377"
    assert console == f"console {CONSOLE}"
    assert page == f"virtual terminal {PLAYABLE.page_url}"
    assert f"paydesk pay 24.90 --terminal {ID}" in order
    assert "paydesk authorize-url" in sign_in
    assert "seller@demo.example" in sign_in
    assert "data/credentials.json" in sign_in
