"""The commands of the Makefile: they say what they are, what is missing, and show a payment."""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INTERRUPTS_APART_SECONDS = 0.003


def _scripts(folder: Path) -> Path:
    """A clone's scripts, without the `.venv` of this one."""
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    return folder


def test_make_alone_says_what_there_is() -> None:
    """Every target that has no file behind it is told with what it does."""
    told = subprocess.run(["make", "-C", ROOT, "--no-print-directory"], capture_output=True, text=True, check=True)
    listed = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert listed is not None
    for target in listed[1].split():
        assert re.search(rf"^  make {target} +[A-Z]", told.stdout, re.MULTILINE), target


def test_a_missing_python_is_named_with_what_to_install(tmp_path: Path) -> None:
    """On a machine without Python 3.11 the set-up ends with what is needed and how to get it, and makes nothing."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for program in ("sh", "dirname", "grep", "rm"):
        (programs / program).symlink_to(shutil.which(program) or "")
    done = subprocess.run(
        [_scripts(tmp_path) / "scripts/setup", "run"],
        env={"PATH": str(programs)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Python 3.11 or newer" in done.stderr
    assert "apt-get install" in done.stderr
    assert not (tmp_path / ".venv").exists()


def _programs(folder: Path, *, user: int, apt_get: str) -> subprocess.CompletedProcess[str]:
    """`scripts/programs` on a machine with wrk and node alone, where apt-get does as told."""
    programs = folder / "bin"
    programs.mkdir()
    for program in ("sh", "dirname", "grep"):
        (programs / program).symlink_to(shutil.which(program) or "")
    scripts = {
        "wrk": "",
        "node": "",
        "id": f"echo {user}",
        "apt-cache": "echo Package: $2",
        "apt-get": f'echo "$*" >>"{folder}/called"; {apt_get}',
    }
    for name, script in scripts.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    return subprocess.run(
        [_scripts(folder) / "scripts/programs"],
        env={"PATH": str(programs), "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_set_up_brings_what_is_missing_and_nothing_else(tmp_path: Path) -> None:
    """As root one call of apt-get installs the programs that tests need and the machine lacks."""
    done = _programs(tmp_path, user=0, apt_get="")
    assert done.returncode == 0
    assert "installing chromium npm" in done.stderr
    installs = [line for line in (tmp_path / "called").read_text().splitlines() if line.startswith("install")]
    assert installs == ["install --yes --no-install-recommends chromium npm"]


def test_the_set_up_goes_on_without_them(tmp_path: Path) -> None:
    """Where they can't be installed the set-up says so, and does not fail."""
    failed = _programs(tmp_path, user=0, apt_get="exit 100")
    assert failed.returncode == 0
    assert "see {tmp_path}/paydesk-programs.log" in failed.stderr


def test_the_set_up_says_what_to_install(tmp_path: Path) -> None:
    """Who is not root is told what is missing and how to get it, and nothing is tried."""
    told = _programs(tmp_path, user=1000, apt_get="")
    assert told.returncode == 0
    assert "sudo apt-get install chromium npm" in told.stderr
    assert not (tmp_path / "called").exists()


@pytest.mark.parametrize("target", [".ci/run", "scripts/setup", "scripts/programs"])
def test_scripts_can_be_run(target: str) -> None:
    """Each script is executable and stops at the first command that fails."""
    assert os.access(ROOT / target, os.X_OK)
    assert re.search(r"^set -eu", (ROOT / target).read_text(), re.MULTILINE)


def test_run_plays_a_payment_and_goes_on_until_ctrl_c(tmp_path: Path) -> None:
    """What `make run` does after its set-up: ready, a processed payment, a delivered webhook, where to go next."""
    data = tmp_path / ".paydesk"
    data.mkdir()
    (data / "service.log").touch(0o644)
    told, code = _told_until(tmp_path, "The log of every request follows", interrupts=1)
    assert code == 0, told
    modes = {file.relative_to(data): stat.S_IMODE(file.stat().st_mode) for file in data.rglob("*") if file.is_file()}
    assert modes == dict.fromkeys(modes, 0o600)
    assert {Path("service.log"), Path("paydesk.db"), Path("keys.json"), Path("credentials.json")} <= set(modes)
    assert re.search(r"^paydesk ready http://127\.0\.0\.1:\d+$", told, re.MULTILINE), told
    assert "processed" in told
    assert re.search("webhook order.processed delivered", told)
    assert "/docs" in told
    assert "seller@demo.example" in told
    assert re.search(r"^  http://127\.0\.0\.1:\d+/authorization\?\S+%2Fdemo%2Fcallback&state=", told, re.MULTILINE), (
        told
    )


def test_ctrl_c_again_and_again_ends_run_without_a_traceback(tmp_path: Path) -> None:
    """The second one ends the service at once."""
    told, code = _told_until(tmp_path, "paydesk ready", interrupts=30)
    # The last ones may find Python on its way out.
    assert code in {0, 128 + signal.SIGKILL, -signal.SIGINT}, told
    assert "Traceback" not in told


def _told_until(folder: Path, line_with: str, *, interrupts: int) -> tuple[str, int]:
    """What it prints, and how it ends, when it is interrupted so often at such a line."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PAYDESK_")}
    with subprocess.Popen(
        [sys.executable, ROOT / "scripts/run.py", "--port", "0"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as running:
        give_up = threading.Timer(60, os.killpg, (running.pid, signal.SIGKILL))
        give_up.start()
        assert running.stdout is not None
        told = ""
        for line in running.stdout:
            told += line
            if line_with in line:
                for _ in range(interrupts):
                    os.kill(running.pid, signal.SIGINT)
                    time.sleep(INTERRUPTS_APART_SECONDS)
        give_up.cancel()
        return told, running.wait()
