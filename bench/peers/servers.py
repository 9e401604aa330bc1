"""The peers: installed from their lock into `node_modules`, started as one would run them, one process each."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.load import BenchError, Measured, measure
from bench.running import free_port, lua, started

HERE = Path(__file__).parent
OPENAPI = HERE.parents[1] / "docs" / "openapi.json"
MODULES = HERE / "node_modules"
INSTALLED = MODULES / ".package-lock.json"
NODE_MIN = (20, 19)
POOL_CONNECTIONS = 20
"""As many as Paydesk has by default."""

HOW_TO_GET_THEM = "Debian, Ubuntu: apt-get install nodejs npm (Node 20.19 or newer)    macOS: brew install node"


class PeersMissing(BenchError):
    """There is no Node here, or the peers can't be installed; the message says which and what to do."""


def install(say: Callable[[str], None]) -> None:
    """Bring `node_modules` to what the lock says. Raises `PeersMissing`."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise PeersMissing(f"node and npm are missing. {HOW_TO_GET_THEM}")
    if _node_version() < NODE_MIN:
        raise PeersMissing(f"this Node is too old. {HOW_TO_GET_THEM}")
    if INSTALLED.exists() and INSTALLED.stat().st_mtime >= (HERE / "package-lock.json").stat().st_mtime:
        return
    say("installing the peers …")
    # Nothing that comes with a package is run: none of them needs it.
    installed = subprocess.run(
        ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"],  # noqa: S607 - the machine's own npm
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
    )
    if installed.returncode != 0:
        raise PeersMissing(f"npm could not install the peers: {installed.stderr.strip()}")
    INSTALLED.touch()


def versions() -> dict[str, str]:
    """Of Node and of each peer."""
    pinned = json.loads((HERE / "package.json").read_text())["dependencies"]
    return {"Node": ".".join(str(part) for part in _node_version()), **pinned}


def _node_version() -> tuple[int, ...]:
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)  # noqa: S607 - the same
    return tuple(int(part) for part in version.stdout.strip().removeprefix("v").split("."))


class Peer:
    """A peer under load."""

    def __init__(self, url: str, pid: int, seed: Path) -> None:
        self._url, self._pid, self._seed = url, pid, seed
        self._runs = 0

    def one(self, script: str, connections: int, seconds: float) -> Measured:
        """One run; the figures are under the peer's own row."""
        made = measure(
            script,
            connections,
            seconds,
            url=self._url,
            pid=self._pid,
            seed=self._seed,
            first=0,
            run=self._runs,
        )
        self._runs += 1
        return dataclasses.replace(made, operation=script)


@contextlib.contextmanager
def oidc_provider(database_url: str, families_per_run: int, runs: int) -> Iterator[Peer]:
    """oidc-provider on a database of its own, with families of tokens for so many runs."""
    with tempfile.TemporaryDirectory(prefix="paydesk-bench-") as name:
        seed, port = Path(name) / "seed.json", free_port()
        numbers = (str(port), str(POOL_CONNECTIONS), str(families_per_run * runs))
        command = ["node", str(HERE / "oidc_provider.mjs"), database_url, *numbers, str(seed)]
        with started(command, port, "/.well-known/openid-configuration", _production()) as process:
            seeded = json.loads(seed.read_text())
            script = seed.with_suffix(".lua")
            script.write_text("return " + lua({**seeded, "families_per_run": families_per_run}))
            yield Peer(f"http://127.0.0.1:{port}", process.pid, script)


@contextlib.contextmanager
def prism() -> Iterator[Peer]:
    """Prism, a mock of our OpenAPI document: it checks each request against it and answers from memory."""
    with tempfile.TemporaryDirectory(prefix="paydesk-bench-") as name:
        script, port = Path(name) / "seed.lua", free_port()
        script.write_text("return " + lua({"access_token": "bench"}))
        program = MODULES / "@stoplight" / "prism-cli" / "dist" / "index.js"
        options = ("--host", "127.0.0.1", "--port", str(port), "--verboseLevel", "silent", "--no-multiprocess")
        with started(["node", str(program), "mock", str(OPENAPI), *options], port, "/", _production()) as process:
            yield Peer(f"http://127.0.0.1:{port}", process.pid, script)


def _production() -> dict[str, str]:
    return {**os.environ, "NODE_ENV": "production"}
