"""The output of `paydesk dev` when it is ready: one line for programs, one more on a terminal."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from paydesk.dev.service import Options, greeting

OPTIONS = Options("127.0.0.1", 0, Path("data"), Path("data/credentials.json"))


def test_program_gets_only_the_ready_line() -> None:
    """The line contains the address of the service."""
    assert greeting(OPTIONS, "http://127.0.0.1:8377") == "paydesk ready http://127.0.0.1:8377"


def test_terminal_also_gets_a_hint_about_the_sign_in_page() -> None:
    """With the e-mail address, the file with the password, and the command that prints the address."""
    ours, theirs = os.openpty()
    with os.fdopen(ours), os.fdopen(theirs, "w") as terminal, contextlib.redirect_stdout(terminal):
        first, second = greeting(OPTIONS, "http://127.0.0.1:8377").splitlines()
    assert first == "paydesk ready http://127.0.0.1:8377"
    assert "paydesk authorize-url" in second
    assert "seller@demo.example" in second
    assert "data/credentials.json" in second
