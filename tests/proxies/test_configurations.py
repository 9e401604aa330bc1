"""The files of `deploy/proxy`: each proxy parses its own, and they agree with the service's interface and settings."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from paydesk.platform.settings import Settings
from paydesk.service.api import OWN
from proxies.configured import EXAMPLES, NAMES, configured

CLIENT_SECONDS_MIN = 75
"""What a proxy must wait for the response of a poll, which takes up to 55 s."""
KEYED = re.compile(r"^/(v1/orders(/[^/]+/(cancel|refund))?|terminals/v1/actions(/[^/]+/cancel)?)$")


@pytest.mark.parametrize("name", NAMES)
def test_the_proxy_parses_its_file(name: str, tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    """With a test's certificate and folders in place of the system's."""
    proxy = configured(name, tmp_path, certificate)
    parsed = subprocess.run(
        proxy.command(only_check=True), capture_output=True, text=True, check=False, cwd=tmp_path, env=proxy.environment
    )
    assert parsed.returncode == 0, parsed.stderr
    assert not re.search(r"\[warn", parsed.stderr, re.IGNORECASE), parsed.stderr


def test_only_posts_with_keys_are_repeated() -> None:
    """The paths that the files name have all operations with idempotency keys for clients, and no other POST."""
    for name in NAMES.values():
        assert KEYED.pattern in (EXAMPLES / name).read_text(), name
    posts = {one.path: one.idempotent for one in OWN.documented if one.method == "POST" and one.surface != "operator"}
    assert {path: KEYED.search(path) is not None for path in posts} == posts


@pytest.mark.parametrize(
    ("name", "directives"),
    [
        ("haproxy", ("timeout client", "timeout server")),
        ("nginx", ("proxy_read_timeout", "proxy_send_timeout", "send_timeout", "keepalive_timeout")),
        ("caddy", ("idle", "response_header_timeout")),
    ],
)
def test_a_poll_has_the_time_that_it_takes(name: str, directives: tuple[str, ...]) -> None:
    """And an idle connection to a node is closed by the proxy, not by the node."""
    text = (EXAMPLES / NAMES[name]).read_text()
    for directive in directives:
        # nginx has `keepalive_timeout` for nodes and for clients.
        (*_, seconds) = re.findall(rf"\b{directive} (\d+)s", text)
        assert int(seconds) >= CLIENT_SECONDS_MIN, directive
    idle = {"haproxy": "pool-purge-delay", "nginx": "keepalive_timeout", "caddy": "keepalive"}[name]
    found = re.search(rf"\b{idle} (\d+)s", text)
    assert found is not None
    assert int(found[1]) < Settings().keep_alive_seconds
