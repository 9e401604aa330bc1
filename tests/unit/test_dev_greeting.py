"""What `paydesk dev` says once it answers: one line to a program, and to a person what to look at."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from paydesk.dev.service import Options, greeting

OPTIONS = Options("127.0.0.1", 0, Path("data"), Path("data/credentials.json"))


def test_a_program_is_told_one_line() -> None:
    """Whoever waits for the service reads the line with its address, and nothing else."""
    assert greeting(OPTIONS, "http://127.0.0.1:8377") == "paydesk ready http://127.0.0.1:8377"


def test_a_person_is_told_what_a_seller_sees() -> None:
    """On a terminal the demo seller, where the password is, and how to get the page's address follow."""
    ours, theirs = os.openpty()
    with os.fdopen(ours), os.fdopen(theirs, "w") as terminal, contextlib.redirect_stdout(terminal):
        first, second = greeting(OPTIONS, "http://127.0.0.1:8377").splitlines()
    assert first == "paydesk ready http://127.0.0.1:8377"
    assert "paydesk authorize-url" in second
    assert "seller@demo.example" in second
    assert "data/credentials.json" in second
