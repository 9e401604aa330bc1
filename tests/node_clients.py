"""The clients that run on Node: installed from their lock beside the tests, once, and called one program at a time."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "clients" / "node"
INSTALLED = FOLDER / "node_modules" / ".package-lock.json"
NODE_MIN = 20
CALL_SECONDS_MAX = 60
HOW_TO_GET_IT = "Debian, Ubuntu: apt-get install nodejs npm (Node 20 or newer)    macOS: brew install node"


class NodeMissing(Exception):
    """There is no Node here, or its packages can't be installed; the message says what to do."""


def install() -> None:
    """Bring `node_modules` to what the lock says. Raises `NodeMissing`."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise NodeMissing(f"node and npm are missing. {HOW_TO_GET_IT}")
    if _node_major() < NODE_MIN:
        raise NodeMissing(f"this Node is too old. {HOW_TO_GET_IT}")
    lock = FOLDER / "package-lock.json"
    with lock.open() as held:
        # Several processes of the same test run come here at once.
        fcntl.flock(held, fcntl.LOCK_EX)
        if not INSTALLED.exists() or INSTALLED.stat().st_mtime < lock.stat().st_mtime:
            _install()


def oauth(base_url: str, method: str, given: dict[str, Any]) -> Any:
    """What the official client's OAuth class answers to one call of a method."""
    return _told(["node", "oauth.mjs", base_url, method], given)


def call(base_url: str, name: str, method: str, **given: Any) -> Any:
    """What a method of one of the official client's classes answers; `call.mjs` says what it is given."""
    return _told(["node", "call.mjs", base_url, name, method], given)


def _told(command: list[str], given: dict[str, Any]) -> Any:
    done = subprocess.run(
        command,
        cwd=FOLDER,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=CALL_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _install() -> None:
    # Nothing that comes with a package is run: none of them needs it.
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    installed = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    if installed.returncode != 0:
        raise NodeMissing(f"npm could not install the clients of {FOLDER}: {installed.stderr.strip()}")
    INSTALLED.touch()


def _node_major() -> int:
    told = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)
    return int(told.stdout.strip().removeprefix("v").partition(".")[0])
