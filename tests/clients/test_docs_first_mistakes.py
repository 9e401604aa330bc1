"""`docs/first-mistakes.md` shows what curl and the official clients of Python and Node show."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import dev_thread
import node_clients
from first_mistakes import CLIENTS, INTRODUCTION, MISTAKES, PAGE, Mistake, Shop, page, see
from paydesk_process import credentials


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A running `paydesk dev`."""
    folder: Path = tmp_path_factory.mktemp("dev")
    with dev_thread.dev(folder):
        found = credentials(folder)
        yield Shop(found["base_url"], found)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.title)
def test_page_has_what_clients_show(shop: Shop, mistake: Mistake) -> None:
    """Each output of the page is the present one. `first_mistakes.py` says how to write the page anew."""
    node_clients.require()
    seen = {mistake.title: {client: see(shop, mistake, client) for client in CLIENTS}}
    assert page(seen, [mistake]).removeprefix(INTRODUCTION) in PAGE.read_text()
