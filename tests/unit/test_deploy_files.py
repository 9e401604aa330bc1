"""The files of `deploy/`: they name real settings and addresses, and their times fit to the time that a stop takes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import skip_unless_ci
from paydesk.core import keys
from paydesk.platform.settings import CLIENT_VARIABLES, Settings, load
from paydesk.service import serve

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = DEPLOY / "compose" / "compose.yaml"
TILL = DEPLOY / "compose" / "till.yaml"
CHART = DEPLOY / "helm" / "paydesk"
UNITS = sorted(DEPLOY.glob("systemd/*.service"))
POD = CHART / "templates" / "deployment.yaml"

STOP_SECONDS = 15
"""After the drain: requests in progress, workers and connections end within this time."""
EXPOSURE_MAX = 1.5


def _text_files() -> list[Path]:
    return [file for file in sorted(DEPLOY.rglob("*")) if file.is_file()]


@pytest.mark.parametrize("file", _text_files(), ids=lambda file: str(file.relative_to(DEPLOY)))
def test_named_settings_exist(file: Path) -> None:
    """Every variable with the prefix of Paydesk is a setting, or one that clients read."""
    known = {f"PAYDESK_{name.upper()}" for name in Settings.model_fields} | CLIENT_VARIABLES
    assert set(re.findall(r"PAYDESK_[A-Z0-9_]*[A-Z0-9]", file.read_text())) - known == set()


def _compose(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(file.read_text())
    return document


def test_compose_waits_for_a_node_that_stops() -> None:
    """Both nodes get the drain and 15 s, and trust the address that HAProxy has."""
    services = _compose(COMPOSE)["services"]
    proxy = services["haproxy"]["networks"]["inside"]["ipv4_address"]
    for name in ("paydesk-1", "paydesk-2"):
        settings, node = services[name]["environment"], services[name]
        grace = int(node["stop_grace_period"].removesuffix("s"))
        assert grace >= float(settings["PAYDESK_DRAIN_SECONDS"]) + STOP_SECONDS
        assert settings["PAYDESK_TRUSTED_PROXIES"] == proxy
        assert node["user"] == "65532:65532"
        assert node["read_only"]
        assert node["cap_drop"] == ["ALL"]


def test_compose_settings_are_accepted() -> None:
    """Its variables, with the values that a person adds, are what `serve` starts with."""
    variables = _compose(COMPOSE)["services"]["paydesk-1"]["environment"]
    given = {"PUBLIC_URL": "https://pay.example.com", "OPERATOR_PUBLIC_URL": "https://c.example.com"}
    assert variables["PAYDESK_METRICS_TOKEN"] == "env:METRICS_TOKEN"
    filled = {
        name: re.sub(r"\$\{(\w+)[^}]*\}", lambda found: given.get(found[1], "secret"), value)
        for name, value in variables.items()
    }
    serve.check_settings(load(filled))


def test_compose_gives_prometheus_the_token_of_the_nodes() -> None:
    """Its files are those of `deploy/observability`, and it finds Alertmanager and the token where they say."""
    document = _compose(COMPOSE)
    services, folder = document["services"], DEPLOY / "observability"
    prometheus, alertmanager = services["prometheus"], services["alertmanager"]
    for service in (prometheus, alertmanager):
        assert service["profiles"] == ["observability"]
        mounted = [volume.split(":")[0] for volume in service["volumes"] if volume.startswith("../")]
        assert all((COMPOSE.parent / name).exists() for name in mounted)
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    example = yaml.safe_load((folder / "prometheus.yml").read_text())
    (secret,) = prometheus["secrets"]
    assert {job["authorization"]["credentials_file"] for job in example["scrape_configs"]} == {secret["target"]}
    assert document["secrets"][secret["source"]] == {"environment": "METRICS_TOKEN"}
    (alerting,) = example["alerting"]["alertmanagers"]
    assert alerting["static_configs"] == [{"targets": ["alertmanager:9093"]}]


def test_compose_gives_paydesk_a_role_that_is_no_superuser() -> None:
    """The image makes `POSTGRES_USER` a superuser, which Paydesk refuses: a file makes its role and its database."""
    services = _compose(COMPOSE)["services"]
    image, nodes = services["postgres"], services["paydesk-1"]["environment"]
    url = re.fullmatch(r"postgresql://(\w+):(\$\{.+\})@postgres/(\w+)", nodes["PAYDESK_DATABASE_URL"])
    assert url is not None
    role, password, database = url.groups()
    assert role != image["environment"]["POSTGRES_USER"]
    assert image["environment"]["DATABASE_PASSWORD"] == password
    assert "./postgres.sql:/docker-entrypoint-initdb.d/postgres.sql:ro" in image["volumes"]
    made = (COMPOSE.parent / "postgres.sql").read_text()
    assert f"\nCREATE ROLE {role} LOGIN PASSWORD :'password';\n" in made
    assert f"\nCREATE DATABASE {database} OWNER {role};\n" in made
    assert f"\nALTER ROLE {image['environment']['POSTGRES_USER']} PASSWORD NULL;\n" in made


def test_compose_has_the_addresses_and_certificates_of_haproxy() -> None:
    """The configuration that it mounts names its nodes, its own address and the files of its certificates."""
    services = _compose(COMPOSE)["services"]
    proxy = services["haproxy"]
    (mounted,) = proxy["volumes"]
    for file in DEPLOY.glob("proxy/haproxy.cfg"):
        assert mounted.startswith(f"../proxy/{file.name}:")
        text = file.read_text()
        nodes = {services[name]["networks"]["inside"]["ipv4_address"] for name in ("paydesk-1", "paydesk-2")}
        assert set(re.findall(r"(?m)^ +server \S+ ([\d.]+):", text)) == nodes
        assert {secret["target"] for secret in proxy["secrets"]} == set(re.findall(r" crt (\S+)", text))
        binds = re.findall(r"(?m)^ +bind ([\d.]*):(\d+)", text)
        assert {address for address, _ in binds} <= {"", proxy["networks"]["inside"]["ipv4_address"]}
        published = {port.removeprefix("${OPERATOR_ADDRESS:-127.0.0.1}:") for port in proxy["ports"]}
        assert {f"{port}:{port}" for _, port in binds} == published


def test_compose_opens_the_port_of_operators_to_this_machine_alone() -> None:
    """Until a person names another address; Compose opens a port without an address at all of them."""
    ports = _compose(COMPOSE)["services"]["haproxy"]["ports"]
    assert [port for port in ports if "8443" in port] == ["${OPERATOR_ADDRESS:-127.0.0.1}:8443:8443"]
    assert "\n#   OPERATOR_ADDRESS " in COMPOSE.read_text()


def test_tests_of_a_till_share_the_network_of_paydesk() -> None:
    """So that 127.0.0.1 is the same for both."""
    assert _compose(TILL)["services"]["tests"]["network_mode"] == "service:paydesk"


def test_unit_settings_are_accepted() -> None:
    """The example of the settings is what `serve` starts with, in the folder that the unit may write to."""
    settings = load({}, DEPLOY / "systemd" / "paydesk.toml")
    serve.check_settings(settings)
    state = "/var/lib/paydesk/"
    assert settings.keys_file.startswith(state)
    assert settings.database_url.startswith(f"sqlite:{state}")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_wait_for_the_longest_drain(unit: Path) -> None:
    """SIGTERM goes to the first process alone: a second SIGTERM would end its drain."""
    text = unit.read_text()
    (longest,) = (rule.le for rule in Settings.model_fields["drain_seconds"].metadata if hasattr(rule, "le"))
    seconds = re.search(r"(?m)^TimeoutStopSec=(\d+)$", text)
    assert seconds is not None
    assert int(seconds[1]) >= longest + STOP_SECONDS
    assert re.search(r"(?m)^KillMode=mixed$", text)
    assert re.search(r"(?m)^\[Install\]$", text)


def test_units_are_hardened_alike() -> None:
    """They differ in their description, settings and folder alone."""
    shared = [
        [line for line in unit.read_text().split("[Service]")[1].splitlines() if "/paydesk" not in line]
        for unit in UNITS
    ]
    assert [line for line in shared[0] if not line.startswith("StateDirectory=")] == [
        line for line in shared[1] if not line.startswith("StateDirectory=")
    ]


def _analyze(*arguments: str | Path) -> str:
    program = shutil.which("systemd-analyze")
    if program is None:
        skip_unless_ci("systemd-analyze is not installed")
    ended = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_are_verified_by_systemd(unit: Path, tmp_path: Path) -> None:
    """It finds nothing wrong, and little to which a service that was taken over would have access."""
    installed = tmp_path / unit.name
    installed.write_text(unit.read_text().replace("/opt/paydesk/bin/paydesk", sys.executable))
    assert _analyze("verify", "--man=no", installed) == ""
    exposure = re.search(r"exposure level .*: ([\d.]+)", _analyze("security", "--offline=true", "--no-pager", unit))
    assert exposure is not None
    assert float(exposure[1]) <= EXPOSURE_MAX


def test_chart_sets_what_its_values_may_not() -> None:
    """Settings that the chart sets from other values are refused in `settings`."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    refused = schema["properties"]["settings"]["propertyNames"]["not"]["enum"]
    templates = "".join(file.read_text() for file in (POD, CHART / "templates" / "_helpers.tpl"))
    assert {f"PAYDESK_{name.upper()}" for name in refused} == set(re.findall(r"PAYDESK_[A-Z_]*[A-Z]", templates))


def test_chart_takes_urls_of_databases_from_secrets() -> None:
    """For nodes and migrations alike; that of PostgreSQL itself only where a Secret is named."""
    helpers = (CHART / "templates" / "_helpers.tpl").read_text()
    parts = dict(re.findall(r'(?s)\{\{- define "(.+?)" -\}\}\n(.*?)(?=\{\{- define|\Z)', helpers))
    reference = r"\s+valueFrom:\s+secretKeyRef: \{\{- toYaml "
    of_database = parts["paydesk.database"]
    assert re.search(rf"- name: PAYDESK_DATABASE_URL{reference}\.Values\.database\.secret ", of_database)
    where = r"\{\{- with \.Values\.database\.listenSecret \}\}\s+\{\{- if \.name \}\}\s+"
    assert re.search(rf"{where}- name: PAYDESK_DATABASE_LISTEN_URL{reference}\. ", of_database)
    for text in (POD.read_text(), parts["paydesk.migrate"]):
        assert 'include "paydesk.database" .' in text
    schema = json.loads((CHART / "values.schema.json").read_text())
    refused = schema["properties"]["settings"]["propertyNames"]["not"]["enum"]
    assert {name for name in Settings.model_fields if re.fullmatch(r"database_(.*_)?url", name)} <= set(refused)


def _differences(values: dict[str, Any], schema: dict[str, Any], where: str = "") -> set[str]:
    """Return the names of values that the schema lacks, and of its properties without a default."""
    properties = schema.get("properties")
    if properties is None:
        return set()
    found = {f"{where}{name}" for name in values.keys() ^ properties.keys()}
    for name in values.keys() & properties.keys():
        if isinstance(values[name], dict):
            found |= _differences(values[name], properties[name], f"{where}{name}.")
    return found


def test_chart_describes_every_value() -> None:
    """Each value has a default and a rule; Helm itself adds `global`."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = _compose(CHART / "values.yaml")
    assert _differences(values, schema) == {"global", "podDisruptionBudget.minAvailable"}


def test_chart_asks_the_paths_of_health() -> None:
    """Alive and ready are two questions: a node that is not ready recovers by itself."""
    text = POD.read_text()
    for probe, path in (("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert re.search(rf"{probe}:\s+httpGet: \{{path: {path}, port: clients\}}", text)


def test_chart_makes_secrets_private(tmp_path: Path) -> None:
    """Server keys in a Secret can be read by its group, and are refused; the pod's copy is accepted."""
    program = re.search(r"(?s)- \|\n(.*?)\n +- /secrets\n +- /run/paydesk\n", POD.read_text())
    assert program is not None
    secrets, private = tmp_path / "secrets", tmp_path / "private"
    private.mkdir()
    # As Kubernetes lays it out: a link to a file in a folder, which a link names.
    data = secrets / "keys" / "..2026_01_01"
    data.mkdir(parents=True)
    keys.add(data / "paydesk.keys.json", activate=True)
    (data / "paydesk.keys.json").chmod(0o440)
    (secrets / "keys" / "..data").symlink_to(data.name)
    mounted = secrets / "keys" / "paydesk.keys.json"
    mounted.symlink_to("..data/paydesk.keys.json")
    with pytest.raises(keys.KeysError, match="other users can read"):
        keys.read(mounted)
    lines = program[1].splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    script = "\n".join(line[indent:] for line in lines)
    for _ in range(2):  # Kubernetes may start it again.
        subprocess.run([sys.executable, "-c", script, secrets, private], check=True, umask=0)
    assert keys.read(private / "keys" / mounted.name).versions == [1]
    assert [str(file.relative_to(private)) for file in private.rglob("*") if file.is_file()] == [
        "keys/paydesk.keys.json"
    ]
