"""What `paydesk dev` prints when it is ready: a line for programs, further addresses, and on a terminal what to try."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from paydesk.core.keys import Keys
from paydesk.platform.settings import Settings
from paydesk_dev.dev.demo import EMAIL, Demo
from paydesk_dev.proxy.access import ProxyAccess
from paydesk_dev.tls import https
from paydesk_dev.tls.https import Https
from paydesk_dev.virtual.page_keys import page_url
from paydesk_dev.virtual.scripts.scripts import MANUAL

DEFAULT_FILE = Path(".paydesk/credentials.json")
"""The credentials file of the commands."""


@dataclass(frozen=True, slots=True)
class Playable:
    """A virtual terminal that a person plays, and the address of its page."""

    terminal_id: str
    page_url: str


def find_playable(demo: Demo, settings: Settings, keys: Keys) -> Playable | None:
    """Return the demo seller's first virtual terminal that is played by hand, if it has one."""
    for terminal in demo.terminals:
        if terminal.script == MANUAL:
            return Playable(terminal.terminal_id, page_url(settings.public_url or "", keys, terminal.terminal_id))
    return None


def greeting(
    credentials: Path,
    base_url: str,
    console: str,
    playable: Playable | None,
    secure: Https | None = None,
    proxy: ProxyAccess | None = None,
    *,
    has_demo: bool = True,
) -> str:
    """Return the line that programs wait for, further addresses, and on a terminal what to try."""
    lines = [f"paydesk ready {base_url}"]
    if secure is not None:
        lines.append(secure.hint())
        if proxy is not None:
            lines.append(proxy.hint())
        lines.append(https.export((proxy or secure).variables()))
    lines.append(f"console {console}")
    if playable is not None:
        lines.append(f"virtual terminal {playable.page_url}")
    if has_demo and sys.stdout.isatty():
        option = "" if credentials == DEFAULT_FILE else f" --credentials {shlex.quote(str(credentials))}"
        if playable is not None:
            lines.append(f"`paydesk pay 24.90 --terminal {playable.terminal_id}{option}` puts an order on it")
        lines.append(
            f"`paydesk authorize-url{option}` prints the URL where a seller signs in and consents: {EMAIL}, with the"
            f" password in {credentials}"
        )
    return "\n".join(lines)
