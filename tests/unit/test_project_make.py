"""The Makefile and its scripts: help, set-up, and the payment of `make run`."""

from __future__ import annotations

import json
import os
import re
import runpy
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
    """Copy the scripts into a folder without a `.venv`."""
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    return folder


def test_make_lists_every_target() -> None:
    """With a description each."""
    help_text = subprocess.run(["make", "-C", ROOT, "--no-print-directory"], capture_output=True, text=True, check=True)
    listed = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert listed is not None
    for target in listed[1].split():
        assert re.search(rf"^  make {target} +[A-Z]", help_text.stdout, re.MULTILINE), target


def test_missing_python_ends_the_set_up_with_advice(tmp_path: Path) -> None:
    """It states what to install, and creates nothing."""
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


def _programs(
    folder: Path, *, user: int = 0, apt_get: str = "", unknown: str = "-", ci: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run `scripts/programs` on a machine with only wrk, valgrind and node, with this script as apt-get."""
    programs = folder / "bin"
    programs.mkdir()
    for program in ("sh", "dirname", "grep", "touch", "chmod"):
        (programs / program).symlink_to(shutil.which(program) or "")
    scripts = {
        "wrk": "",
        "valgrind": "",
        "node": "",
        "sleep": "",
        "id": f"echo {user}",
        "apt-cache": f'[ "$2" = {unknown} ] || echo "Package: $2"',
        "apt-get": f'echo "$*" >>"{folder}/called"; {apt_get}',
    }
    for name, script in scripts.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    return subprocess.run(
        [_scripts(folder) / "scripts/programs"],
        env={"PATH": str(programs), "TMPDIR": str(folder), "CI": "true" if ci else ""},
        capture_output=True,
        text=True,
        check=False,
    )


def _installed(folder: Path) -> list[str]:
    """Return the packages of each call of `apt-get install`, which waits for dpkg's lock."""
    calls = [line.split() for line in (folder / "called").read_text().splitlines() if " install " in line]
    assert all("DPkg::Lock::Timeout=300" in call for call in calls)
    return [" ".join(call[call.index("--no-install-recommends") + 1 :]) for call in calls]


@pytest.mark.parametrize("unknown", ["chromium", "chromium-headless-shell"])
def test_root_installs_only_the_missing_programs(tmp_path: Path, unknown: str) -> None:
    """With one call of apt-get: of Chromium the smaller package, where there is one."""
    done = _programs(tmp_path, unknown=unknown)
    assert done.returncode == 0
    assert "installing chromium npm" in done.stderr
    chromium = "chromium" if unknown == "chromium-headless-shell" else "chromium-headless-shell"
    assert _installed(tmp_path) == [f"{chromium} npm"]


def test_a_lock_of_another_apt_get_is_waited_for(tmp_path: Path) -> None:
    """The lock of the archives too, for which apt-get does not wait."""
    waits = f'[ -e "{tmp_path}/free" ] || {{ touch "{tmp_path}/free"; echo "E: Could not get lock x"; exit 100; }}'
    is_install = 'case "$*" in *install*) ;; *) exit 0 ;; esac'
    brings = f'for it in chromium npm; do : >"{tmp_path}/bin/$it"; chmod +x "{tmp_path}/bin/$it"; done'
    done = _programs(tmp_path, apt_get=f"{is_install}; {waits}; {brings}", ci=True)
    assert done.returncode == 0, done.stderr
    assert len(_installed(tmp_path)) == 2


@pytest.mark.parametrize("ci", [False, True])
def test_failed_installation_fails_the_set_up_only_in_ci(tmp_path: Path, *, ci: bool) -> None:
    """It names the log, and in CI the programs that are missing."""
    failed = _programs(tmp_path, apt_get="exit 100", ci=ci)
    assert failed.returncode == ci
    assert f"see {tmp_path}/paydesk-programs.log" in failed.stderr
    assert failed.stderr.endswith("Missing: chromium npm\n") is ci


def test_make_does_nothing_after_a_set_up_that_failed(tmp_path: Path) -> None:
    """The next call of make tries it again."""
    for folder in ("scripts", "src"):
        (tmp_path / folder).mkdir()
    files = ("Makefile", "pyproject.toml", "src/pyproject.toml", "requirements-kit.lock", "requirements-dev.lock")
    for file in (*files, "scripts/programs"):
        shutil.copy(ROOT / file, tmp_path / file)
    (tmp_path / "scripts/setup").write_text("#!/bin/sh\nmkdir .venv && exit 1\n")
    (tmp_path / "scripts/setup").chmod(0o755)
    done = subprocess.run(["make", "-C", tmp_path, "test"], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stdout
    assert list((tmp_path / ".venv").iterdir()) == []


def test_other_users_get_the_command_to_install(tmp_path: Path) -> None:
    """Nothing is installed."""
    done = _programs(tmp_path, user=1000)
    assert done.returncode == 0
    assert "sudo apt-get install chromium npm" in done.stderr
    assert not (tmp_path / "called").exists()


@pytest.mark.parametrize("target", [".ci/run", "scripts/setup", "scripts/programs"])
def test_scripts_are_executable(target: str) -> None:
    """And they stop at the first command that fails."""
    assert os.access(ROOT / target, os.X_OK)
    assert re.search(r"^set -eu", (ROOT / target).read_text(), re.MULTILINE)


def test_run_makes_a_payment_and_runs_until_ctrl_c(tmp_path: Path) -> None:
    """A processed payment, a delivered webhook, where to go next; the files have mode 0600."""
    data = tmp_path / ".paydesk"
    data.mkdir()
    (data / "service.log").touch(0o644)
    output, code = _output_until(tmp_path, "Your requests, the webhooks and all warnings follow", interrupts=1)
    assert code == 0, output
    modes = {file.relative_to(data): stat.S_IMODE(file.stat().st_mode) for file in data.rglob("*") if file.is_file()}
    assert modes == dict.fromkeys(modes, 0o600)
    assert {Path("service.log"), Path("paydesk.db"), Path("keys.json"), Path("credentials.json")} <= set(modes)
    ready = re.search(r"^paydesk ready http://127\.0\.0\.1:\d+\n(console (http://\S+))$", output, re.MULTILINE)
    assert ready is not None, output
    assert re.search(r"/console/enter\?key=[0-9a-f]{40}$", ready[2])
    assert f"\n  {ready[2]}\n" in output.partition("Where to go next:")[2]
    assert "processed" in output
    assert re.search("webhook order.processed delivered", output)
    assert "/docs" in output
    assert "seller@demo.example" in output
    assert re.search(r"^  http://127\.0\.0\.1:\d+/authorization\?\S+%2Fdemo%2Fcallback&state=", output, re.MULTILINE), (
        output
    )


def test_make_run_prints_the_https_address_with_the_proxy(tmp_path: Path) -> None:
    """With `--proxy`, which includes `--tls`, as with `--tls` alone."""
    file = tmp_path / "credentials.json"
    found = {"tls_base_url": "https://localhost:8378", "ca_file": "/ca.pem", "ca_bundle_file": "/bundle.pem"}
    hint = runpy.run_path(str(ROOT / "scripts/run.py"))["_https"]
    for proxy in ({}, {"proxy_url": "http://127.0.0.1:8379"}):
        file.write_text(json.dumps({**found, **proxy}))
        assert all(value in hint(file) for value in {**found, **proxy}.values())


def test_repeated_ctrl_c_ends_run_without_a_traceback(tmp_path: Path) -> None:
    """The second one kills the service."""
    output, code = _output_until(tmp_path, "paydesk ready", interrupts=30)
    # The last ones may arrive while Python exits.
    assert code in {0, 128 + signal.SIGKILL, -signal.SIGINT}, output
    assert "Traceback" not in output


def test_two_signals_at_once_end_run_without_a_traceback(tmp_path: Path) -> None:
    """As of `timeout 5 make run`, which signals the whole group, and `make` forwards its own signal."""
    output, code = _output_until(tmp_path, "Your requests, the webhooks and all warnings follow", at_once=True)
    assert "Traceback" not in output
    assert code == 128 + signal.SIGKILL, output


def _output_until(folder: Path, line_with: str, *, interrupts: int = 0, at_once: bool = False) -> tuple[str, int]:
    """Interrupt it that many times at such a line, or with two signals at once; return its output and exit code."""
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
        timeout = threading.Timer(60, os.killpg, (running.pid, signal.SIGKILL))
        timeout.start()
        assert running.stdout is not None
        output = ""
        for line in running.stdout:
            output += line
            if line_with in line:
                if at_once:
                    for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
                        os.kill(running.pid, number)
                for _ in range(interrupts):
                    if running.poll() is not None:
                        break
                    os.kill(running.pid, signal.SIGINT)
                    time.sleep(INTERRUPTS_APART_SECONDS)
        timeout.cancel()
        return output, running.wait()
