"""A release is installed by an ordinary user without a package index, upgraded, and taken back; and so is its image."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import first_day
from installed import ROOT
from paydesk import __version__
from paydesk_process import request
from waiting import HANGS_SECONDS, wait_until

pytestmark = pytest.mark.slow

USER = 65534
PYTHON = "/usr/bin/python3"
"""Which an ordinary user can run too; that of this environment may be in the folder of root."""
IMAGE_BYTES_MAX = 60_000_000
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@shop.example", "-c", "commit.gpgsign=false")
NEXT = re.sub(r"\d+$", lambda last: str(int(last[0]) + 1), __version__)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Return a folder that another user can read, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def checkout(folder: Path) -> Path:
    """Return a clean checkout of this one's files, with notes of its version, and the environment of this one."""
    checkout = folder / "checkout"
    git("clone", "--quiet", "--shared", ROOT, checkout)
    changed = git("-C", ROOT, "diff", "--name-only", "HEAD") + git(
        "-C", ROOT, "ls-files", "--others", "--exclude-standard"
    )
    for name in filter(lambda name: (ROOT / name).exists(), changed.split()):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, checkout / name)
    (checkout / ".venv").symlink_to(ROOT / ".venv")
    raise_version(checkout, __version__, __version__)
    return checkout


def git(*arguments: str | Path) -> str:
    """Run git and return its output."""
    return subprocess.run([*GIT, *arguments], capture_output=True, text=True, check=True).stdout


def raise_version(checkout: Path, before: str, version: str) -> None:
    """Commit the version and its notes."""
    for name in ("src/paydesk/__init__.py", "pyproject.toml", "src/pyproject.toml"):
        file = checkout / name
        file.write_text(file.read_text().replace(f'"{before}"', f'"{version}"').replace(f"=={before}", f"=={version}"))
    changelog = checkout / "CHANGELOG.md"
    if f"## [{version}] - " not in changelog.read_text():
        text = changelog.read_text().replace("\n## [", f"\n## [{version}] - 2026-11-27\n\n- Notes.\n\n## [", 1)
        changelog.write_text(text)
    git("-C", checkout, "add", "--all")
    git("-C", checkout, "commit", "--quiet", "--allow-empty", "--message", version)


def build(checkout: Path, *options: str) -> Path:
    """Build a release and return its folder."""
    command = [sys.executable, "scripts/release.py", *options]
    built = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (made,) = (checkout / "dist").glob(f"paydesk-{NEXT if 'next' in checkout.name else __version__}")
    return made


@pytest.fixture(scope="module")
def release(checkout: Path) -> Path:
    """Return the folder of the release, without the image."""
    return build(checkout, "--without-image")


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files."""
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_second_build_has_the_same_bytes(checkout: Path, release: Path) -> None:
    """Wheels, archives of the sources and all else; each wheel has the commit that it was built of."""
    first = contents(release)
    assert contents(build(checkout, "--without-image")) == first
    kinds = sorted(re.sub(r"[\d.]+(?=[-.])", "V", name, count=1) for name in first)
    assert {"SHA256SUMS", "NOTES.md", "install.sh"} <= first.keys()
    assert {"requirements.lock", "requirements-kit.lock", "requirements-otel.lock"} <= first.keys()
    assert sum(name.endswith((".whl", ".tar.gz")) for name in first) == 4, kinds


def as_user(*command: str | Path, cwd: Path, variables: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return how an ordinary user runs the command."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(cwd), "NO_COLOR": "1", "COLUMNS": "120", **(variables or {})}
    # The tests' PostgreSQL admits only the user who runs them.
    is_other = os.geteuid() == 0 and "PAYDESK_DATABASE_URL" not in environment
    other: dict[str, Any] = {"user": USER, "group": USER, "extra_groups": []} if is_other else {}
    return {"args": command, "cwd": cwd, "env": environment, "text": True, **other}


def run(*command: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command as an ordinary user until it ends, with the settings of the service."""
    settings = {**first_day.VARIABLES, **variables}
    return subprocess.run(**as_user(*command, cwd=cwd, variables=settings), capture_output=True, check=False)


@contextmanager
def serving(programs: Path, folder: Path, *options: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """Run `paydesk serve` as an ordinary user until it is stopped."""
    with (folder / "log").open("a") as log:
        arguments = as_user(
            programs / "paydesk", "serve", *options, cwd=folder, variables={**first_day.VARIABLES, **variables}
        )
        with subprocess.Popen(**arguments, stdout=log, stderr=log) as process:
            try:
                wait_until(lambda: is_ready() or process.poll() is not None, (folder / "log").read_text)
                yield process
                process.terminate()
                assert process.wait(HANGS_SECONDS) == 0, (folder / "log").read_text()
            finally:
                process.kill()


def is_ready() -> bool:
    """Whether the service accepts requests."""
    try:
        return request("GET", f"http://{first_day.CLIENTS}/readyz")[0] == 200
    except OSError:
        return False


def empty(folder: Path, owner: int = USER) -> Path:
    """Return a new folder of the user who runs the service, with the files of its acquirer."""
    folder.mkdir(mode=0o700)
    first_day.write_acquirers(folder)
    if os.geteuid() == 0:
        for path in (folder, *folder.iterdir()):
            os.chown(path, owner, owner)
    return folder


@pytest.fixture(scope="module")
def wheelhouse(folder: Path) -> Path:
    """Return a folder with the dependencies' wheels."""
    wheelhouse = folder / "wheelhouse"
    minor = subprocess.run(
        [PYTHON, "-c", "import sys; print(sys.version_info[1])"], capture_output=True, text=True, check=True
    )
    download: tuple[str | Path, ...] = (
        "download",
        "--quiet",
        "--require-hashes",
        "--only-binary",
        ":all:",
        "--dest",
        wheelhouse,
    )
    download += ("--python-version", f"3.{minor.stdout.strip()}")
    subprocess.run([sys.executable, "-m", "pip", *download, "-r", ROOT / "requirements-kit.lock"], check=True)
    return wheelhouse


@pytest.mark.long("it installs from the wheels and pays")
def test_installed_without_an_index_upgraded_and_back(
    folder: Path, checkout: Path, release: Path, wheelhouse: Path, postgres_url: str
) -> None:
    """By an ordinary user, who plays the first day. A reload runs the new version, and later the one before again."""
    home = empty(folder / "home")
    install = ("sh", release / "install.sh", "--wheelhouse", wheelhouse, "--python", PYTHON)
    ended = run(*install, cwd=home)
    assert ended.returncode == 0, ended.stderr
    programs = home / ".local/share/paydesk/bin"
    assert f"{programs}/paydesk is paydesk {__version__}" in ended.stdout
    first_day.play(
        home, lambda *arguments: run(programs / "paydesk", *arguments, cwd=home), partial(serving, programs, home)
    )

    later = checkout.with_name("next")
    git("clone", "--quiet", checkout, later)
    (later / ".venv").symlink_to(ROOT / ".venv")
    raise_version(later, __version__, NEXT)
    upgrade = build(later, "--without-image")
    database = {"PAYDESK_DATABASE_URL": postgres_url}
    assert run(programs / "paydesk", "migrate", cwd=home, **database).returncode == 0
    with serving(programs, home, "--processes", "1", **database) as parent:
        assert running_version().startswith(__version__)
        assert (
            run("sh", upgrade / "install.sh", "--wheelhouse", wheelhouse, "--python", PYTHON, cwd=home).returncode == 0
        )
        parent.send_signal(signal.SIGHUP)
        wait_until(lambda: running_version().startswith(NEXT), (home / "log").read_text)
        ended = run("sh", upgrade / "install.sh", "--back", cwd=home)
        assert f"is paydesk {__version__}" in ended.stdout, ended.stderr
        parent.send_signal(signal.SIGHUP)
        wait_until(lambda: running_version().startswith(__version__), (home / "log").read_text)


def running_version() -> str:
    """Return the version that answers."""
    try:
        return str(request("GET", f"http://{first_day.CLIENTS}/readyz")[1].get("version", ""))
    except OSError:
        return ""


class Image:
    """An image's archive, unpacked, and containers of it as `runc` runs them: read-only, without capabilities."""

    def __init__(self, archive: Path, folder: Path) -> None:
        self.folder, self.root, self._count = folder, folder / "root", 0
        with tarfile.open(archive) as packed:
            manifest = json.loads(packed.extractfile("manifest.json").read())[0]  # type: ignore[union-attr]
            self.config = json.loads(packed.extractfile(manifest["Config"]).read())["config"]  # type: ignore[union-attr]
            for layer in manifest["Layers"]:
                with tarfile.open(fileobj=packed.extractfile(layer)) as files:
                    files.extractall(self.root, filter="fully_trusted")  # noqa: S202 - built here

    def start(self, *arguments: str, volume: Path, entry: Sequence[str] | None = None) -> list[str]:
        """Return the command that runs a container with these arguments, on the network of this machine."""
        self._count += 1
        bundle = self.folder / f"bundle-{self._count}"
        bundle.mkdir()
        subprocess.run(["runc", "spec"], cwd=bundle, check=True)
        spec = json.loads((bundle / "config.json").read_text())
        user, _, group = self.config["User"].partition(":")
        variables = [f"{name}={value}" for name, value in first_day.VARIABLES.items()]
        spec["root"] = {"path": str(self.root), "readonly": True}
        spec["process"] = {
            "user": {"uid": int(user), "gid": int(group)},
            "args": [*(self.config["Entrypoint"] if entry is None else entry), *arguments],
            "env": [*self.config["Env"], *variables],
            "cwd": self.config["WorkingDir"],
            "capabilities": {},
            "noNewPrivileges": True,
        }
        spec["linux"]["namespaces"] = [one for one in spec["linux"]["namespaces"] if one["type"] != "network"]
        (place,) = self.config["Volumes"]
        mounted = {"destination": place, "type": "bind", "source": str(volume), "options": ["bind", "rw"]}
        spec["mounts"].append(mounted)
        (bundle / "config.json").write_text(json.dumps(spec))
        return ["runc", "run", "--bundle", str(bundle), f"paydesk-test-{os.getpid()}-{self._count}"]

    def run(
        self, *arguments: str, volume: Path, entry: Sequence[str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a container until it ends."""
        command = self.start(*arguments, volume=volume, entry=entry)
        return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)

    @contextmanager
    def serving(self, *arguments: str, volume: Path) -> Iterator[None]:
        """Run the image's own command, or another, until it is stopped."""
        command = self.start(*(arguments or self.config["Cmd"]), volume=volume)
        with (
            (self.folder / "log").open("a") as log,
            subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL) as process,
        ):
            try:
                wait_until(lambda: is_ready() or process.poll() is not None, (self.folder / "log").read_text)
                assert process.poll() is None, (self.folder / "log").read_text()
                check = self.run(volume=volume, entry=self.config["Healthcheck"]["Test"][1:])
                assert check.returncode == 0, check.stderr
                yield
            finally:
                process.terminate()
            assert process.wait(HANGS_SECONDS) == 0, (self.folder / "log").read_text()


@pytest.mark.long("it builds two images and pays")
@pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, ("mmdebstrap", "buildah", "runc"))),
    reason="the image is built by root, with mmdebstrap, buildah and runc",
)
def test_image(folder: Path, release: Path) -> None:
    """It plays the first day, with the development kit `dev` runs, and neither shell nor package manager is in it."""
    for options, name in (((), "paydesk"), (("--kit",), "paydesk-dev")):
        built = subprocess.run(
            [ROOT / "deploy/image/build", *options, "--work", folder / "work", release],
            capture_output=True,
            text=True,
            check=False,
        )
        assert built.returncode == 0, built.stderr
        archive = release / f"{name}-{__version__}-image.tar.gz"
        assert archive.stat().st_size <= IMAGE_BYTES_MAX
        (folder / name).mkdir()
        image, volume = Image(archive, folder / name), empty(folder / f"volume-of-{name}", 65532)
        if name == "paydesk":
            first_day.play(volume, partial(image.run, volume=volume), partial(image.serving, volume=volume))
            _has_no_programs(image)
        else:
            port = first_day.CLIENTS.rpartition(":")[2]
            with image.serving("dev", "--host", "127.0.0.1", "--port", port, volume=volume):
                pass


def _has_no_programs(image: Image) -> None:
    """But Python and the one that starts it; nothing is writable but the volume and what every user may write to."""
    programs = {
        file.name
        for folder in ("bin", "sbin", "usr/bin", "usr/sbin", "opt/paydesk/bin")
        for file in (image.root / folder).glob("*")
    }
    assert {"env", "paydesk", "python"} <= programs
    assert not programs & {"sh", "dash", "bash", "busybox", "apt", "apt-get", "dpkg", "pip", "pip3"}
    assert image.config["User"] == "65532:65532"
    assert "Hostname" not in image.config, "it differs from build to build"
    assert list(image.config["Volumes"]) == ["/var/lib/paydesk"]
    owned = [path for path in image.root.rglob("*") if not path.is_symlink() and path.lstat().st_uid != 0]
    assert owned == [image.root / "var/lib/paydesk"]
