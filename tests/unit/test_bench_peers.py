"""The peers beside the service: pinned with everything that they need, left out where they can't run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from bench.peers.servers import PeersMissing, install

PEERS = Path(__file__).parents[2] / "bench" / "peers"


def test_the_peers_are_pinned() -> None:
    """Each has one exact version, and the lock has that one."""
    declared = json.loads((PEERS / "package.json").read_text())["dependencies"]
    packages = json.loads((PEERS / "package-lock.json").read_text())["packages"]
    assert set(declared) == {"@stoplight/prism-cli", "oidc-provider", "pg"}
    for name, version in declared.items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)
        assert packages[f"node_modules/{name}"]["version"] == version


def test_the_lock_names_no_registry() -> None:
    """Each package has its hash and comes from whatever registry the machine uses."""
    packages = json.loads((PEERS / "package-lock.json").read_text())["packages"]
    assert len(packages) > 100
    for name, package in packages.items():
        assert "resolved" not in package
        assert not name or package["integrity"].startswith("sha512-")


def test_without_node_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is installed where there is no Node; what is missing is named with what to do."""
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[str] = []
    with pytest.raises(PeersMissing, match=r"node and npm are missing.*apt-get install nodejs npm"):
        install(said.append)
    assert said == []


def test_an_old_node_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The peers of the lock don't run on it."""
    for program in ("node", "npm"):
        (tmp_path / program).write_text("#!/bin/sh\necho v18.20.1\n")
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(PeersMissing, match="too old"):
        install(lambda _: None)
