"""Clients on Node: installed from their lock beside the tests, once, and each program run in one process of Node."""

from __future__ import annotations

import atexit
import fcntl
import json
import shutil
import subprocess
import threading
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "clients" / "node"
INSTALLED = FOLDER / "node_modules" / ".package-lock.json"
NODE_MIN = 20
CALL_SECONDS_MAX = 60
_one_at_a_time = threading.Lock()
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


def require() -> None:
    """Install them, or skip the test where there is no Node."""
    from conftest import skip_unless_ci

    try:
        install()
    except NodeMissing as missing:
        skip_unless_ci(str(missing))


def oauth(base_url: str, method: str, given: dict[str, Any]) -> Any:
    """What the official client's OAuth class answers to one call of a method."""
    return call(base_url, "OAuth", method, accessToken="none", given=given)


def call(base_url: str, name: str, method: str, **given: Any) -> Any:
    """What a method of one of the official client's classes answers; `call.mjs` says what it is given."""
    return _exchange("call.mjs", {"baseUrl": base_url, "name": name, "method": method, **given})


def validate(given: dict[str, Any]) -> dict[str, str]:
    """What each validator of webhooks on Node says of a request, empty if it accepts it; see `validate.mjs`."""
    verdicts: dict[str, str] = _exchange("validate.mjs", given)
    return verdicts


def authorize(given: dict[str, Any]) -> dict[str, Any]:
    """What an OAuth library on Node gets with a code, or its error; see `oauth.mjs`."""
    got: dict[str, Any] = _exchange("oauth.mjs", given)
    return got


def _exchange(program: str, given: dict[str, Any]) -> Any:
    """Give the program one line, and return what it answers."""
    line = json.dumps(given)
    with _one_at_a_time:
        node = _node(program)
        assert node.stdin is not None
        assert node.stdout is not None
        late = threading.Timer(CALL_SECONDS_MAX, node.kill)
        late.start()
        try:
            node.stdin.write(line + "\n")
            answer = node.stdout.readline()
        finally:
            late.cancel()
    assert answer, "Node ended, or the call took too long"
    return json.loads(answer)


@cache
def _node(program: str) -> subprocess.Popen[str]:
    """Start the process that runs the program for this one; it ends with this one."""
    node = subprocess.Popen(
        ["node", program], cwd=FOLDER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    atexit.register(node.communicate)
    return node


def _install() -> None:
    # Nothing that comes with a package is run: none of them needs it.
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    installed = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    if installed.returncode != 0:
        raise NodeMissing(f"npm could not install the clients of {FOLDER}: {installed.stderr.strip()}")
    INSTALLED.touch()


@cache
def _node_major() -> int:
    printed = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)
    return int(printed.stdout.strip().removeprefix("v").partition(".")[0])


if __name__ == "__main__":
    install()
