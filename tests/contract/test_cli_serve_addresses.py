"""`paydesk serve` on an IPv6 address."""

from __future__ import annotations

import urllib.request
from contextlib import closing
from pathlib import Path

import pytest

from serve_process import ServeProcess
from waiting import HANGS_SECONDS, wait_until


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="this machine has no IPv6")
def test_all_addresses_of_ipv6_are_those_of_ipv4_too(sqlite_url: str, tmp_path: Path) -> None:
    """A client of IPv4 is logged with its address as it is."""
    Path(sqlite_url.removeprefix("sqlite:")).chmod(0o600)
    with closing(ServeProcess(sqlite_url, tmp_path, PAYDESK_LISTEN="[::]:0", PAYDESK_LOG_POLLS="true")) as served:
        process = served.start()
        served.wait_for("listening", 1)
        assert served.clients.startswith("http://[::]:")
        port = int(served.clients.rpartition(":")[2])
        for host in ("127.0.0.1", "[::1]"):
            with urllib.request.urlopen(f"http://{host}:{port}/readyz", timeout=HANGS_SECONDS) as answer:
                assert answer.status == 200
        addresses = ["127.0.0.1", "::1"]
        wait_until(lambda: [line["address"] for line in served.lines("request")] == addresses, served.log.read_text)
        served.end(process)
