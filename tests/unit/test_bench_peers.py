"""The peers' lock: what stands beside the service is pinned, and so is everything that it needs."""

from __future__ import annotations

import json
import re
from pathlib import Path

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
