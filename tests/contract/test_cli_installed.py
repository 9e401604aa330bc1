"""The two wheels, installed in an empty folder: `paydesk` runs without the development kit, `paydesk[dev]` with it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from free_port import free_port
from installed import ROOT, build_wheel, install, make_environment, packages_of
from paydesk_process import environment, request
from waiting import HANGS_SECONDS, wait_until

CLIENTS = f"127.0.0.1:{free_port()}"
"""Chosen before the start, because the public URL has it: applications compare `iss` with the address they use."""
SERVE = {
    "PAYDESK_PUBLIC_URL": f"http://{CLIENTS}",
    "PAYDESK_LISTEN": CLIENTS,
    "PAYDESK_OPERATOR_LISTEN": "127.0.0.1:0",
    "PAYDESK_LOG_FORMAT": "json",
}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of both wheels."""
    folder = tmp_path_factory.mktemp("wheels")
    for project in (ROOT, ROOT / "src"):
        build_wheel(project, folder)
    return folder


def run(programs: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the installed `paydesk …` until it ends."""
    return subprocess.run(
        [programs / "paydesk", *arguments],
        cwd=folder,
        env=environment(**SERVE),
        capture_output=True,
        text=True,
        check=False,
    )


@contextmanager
def ready(programs: Path, folder: Path, arguments: tuple[str, ...], line: str) -> Iterator[tuple[str, ...]]:
    """Run the installed `paydesk …` until SIGTERM; yield the addresses in such a line, the first of which answers."""
    output = folder / "output"
    with (
        output.open("w") as written,
        subprocess.Popen(
            [programs / "paydesk", *arguments], cwd=folder, env=environment(**SERVE), stdout=written, stderr=written
        ) as process,
    ):
        try:
            wait_until(lambda: bool(re.search(line, output.read_text())) or process.poll() is not None)
            said = re.search(line, output.read_text())
            assert said is not None, output.read_text()
            assert request("GET", f"http://{said[1]}/readyz")[0] == 200
            yield said.groups()
        finally:
            process.terminate()
        assert process.wait(HANGS_SECONDS) == 0, output.read_text()


def test_paydesk_alone_has_what_one_operates(wheels: Path, tmp_path: Path) -> None:
    """Its lock file has everything that it needs, and neither the kit nor the kit's dependencies."""
    programs = make_environment(tmp_path / "environment", "requirements.lock")
    install(programs, "paydesk", wheels)
    packages = {file.name for file in packages_of(tmp_path / "environment").iterdir()}
    assert packages & {"paydesk_dev", "segno", "cryptography"} == set()
    assert re.search(r"^│ serve ", run(programs, tmp_path, "--help").stdout, re.MULTILINE)
    refused = run(programs, tmp_path, "dev")
    assert (refused.returncode, "pip install 'paydesk[dev]'" in refused.stderr) == (2, True)


@pytest.mark.slow
def test_paydesk_with_the_kit_runs_everything(wheels: Path, tmp_path: Path) -> None:
    """The kit comes in the same version, with what it alone needs."""
    programs = make_environment(tmp_path / "environment", "requirements-kit.lock")
    install(programs, "paydesk[dev]", wheels)
    assert "dev" in run(programs, tmp_path, "--help").stdout
    with ready(programs, tmp_path, ("dev", "--port", "0", "--tls"), r"paydesk ready http://(127\.0\.0\.1:\d+)"):
        pass
