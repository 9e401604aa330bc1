"""`paydesk dev --tls` as a process: clients of several kinds over https, restarts, and what it writes and prints."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import requests

from conftest import skip_unless_ci
from paydesk_dev.tls.certificates import CERTIFICATE_FILE, VENDOR_HOSTS
from paydesk_process import Dev, command, credentials, dev, environment, request
from waiting import HANGS_SECONDS

CLIENT_SECONDS = 30
VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
OTHER_VARIABLES = ("SSL_CERT_DIR", "CURL_CA_BUNDLE")


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of the user, with the authority."""
    return tmp_path_factory.mktemp("user")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, user: Path) -> Iterator[Dev]:
    """A running `paydesk dev --tls`."""
    with dev(tmp_path_factory.mktemp("dev"), "--tls", XDG_DATA_HOME=str(user)) as service:
        yield service


@pytest.fixture
def folder(service: Dev) -> Path:
    """The folder of the running service."""
    return service.folder


@pytest.fixture
def found(folder: Path) -> dict[str, Any]:
    """The credentials file of the running service."""
    return credentials(folder)


def names(found: dict[str, Any]) -> list[str]:
    """Return the https address under each name of this machine."""
    port = found["tls_base_url"].rpartition(":")[2]
    return [f"https://{name}:{port}" for name in ("localhost", "127.0.0.1", "[::1]")]


def get(url: str, context: ssl.SSLContext, host: str = "") -> tuple[int, Any]:
    """Send a GET with a `Host` header of its own."""
    asked = urllib.request.Request(url, headers={"Host": host} if host else {})  # noqa: S310 - the test's own service
    try:
        with urllib.request.urlopen(asked, timeout=CLIENT_SECONDS, context=context) as answer:  # noqa: S310 - the same
            return answer.status, answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers


def test_the_file_and_the_output_name_the_address_and_the_certificate(service: Dev, user: Path) -> None:
    """After the line for programs, which is the one of http."""
    found, file = credentials(service.folder), str(user / "paydesk" / CERTIFICATE_FILE)
    ready, https, export, *_ = [line.strip() for line in service.lines]
    assert found["ca_file"] == file
    assert re.fullmatch(r"https://localhost:\d+", found["tls_base_url"])
    assert ready == f"paydesk ready {found['base_url']}"
    assert found["base_url"].startswith("http://127.0.0.1:")
    assert https == f"https {found['tls_base_url']}, CA certificate {file}"
    bundle = str(service.folder / ".paydesk" / "ca-bundle.pem")
    assert found["ca_bundle_file"] == bundle
    assert shlex.split(export) == [
        "export",
        *(f"{name}={path}" for name, path in zip(VARIABLES, (bundle, bundle, file), strict=True)),
    ]


def test_each_name_of_this_machine_is_accepted(found: dict[str, Any]) -> None:
    """By the client's check of the certificate and by the service's check of `Host`; no answer asks for https only."""
    trusting = ssl.create_default_context(cafile=found["ca_file"])
    for base_url in names(found):
        status, headers = get(f"{base_url}/docs", trusting)
        assert (status, headers["strict-transport-security"]) == (200, None)


def test_the_vendors_names_are_accepted_and_others_are_misdirected(found: dict[str, Any]) -> None:
    """Over https, where the certificate is for them: a hosts file or a proxy brings them here. Never over http."""
    trusting, path = ssl.create_default_context(cafile=found["ca_file"]), "/v1/orders/ORD01J67CQQH5904WDBVZEM4JMEP3"
    for base_url, expected in ((found["tls_base_url"], 401), (found["base_url"], 421)):
        statuses = {host: get(f"{base_url}{path}", trusting, host)[0] for host in VENDOR_HOSTS}
        assert statuses == dict.fromkeys(VENDOR_HOSTS, expected)
        assert get(f"{base_url}{path}", trusting, "example.com")[0] == 421


def test_links_stay_those_of_the_public_url(found: dict[str, Any]) -> None:
    """The issuer, and the links that follow from it, do not depend on the address of the request."""
    answer = requests.get(
        f"{found['tls_base_url']}/.well-known/oauth-authorization-server",
        verify=found["ca_file"],
        timeout=CLIENT_SECONDS,
    ).json()
    assert answer["issuer"] == found["base_url"]
    assert answer["token_endpoint"] == f"{found['base_url']}/oauth/token"


def test_a_seller_signs_in(found: dict[str, Any]) -> None:
    """The form may come from either address of this service, and from no other."""
    with requests.Session() as browser:
        browser.trust_env, browser.verify = False, found["ca_file"]
        page = browser.get(f"{found['tls_base_url']}/sign-in", timeout=CLIENT_SECONDS)
        hidden = dict(re.findall(r'<input type="hidden" name="([a-z_]+)" value="([^"]*)">', page.text))
        assert "form_token" in hidden, page.text
        filled = {**hidden, "email": found["seller"]["email"], "password": found["seller"]["password"]}
        statuses = []
        for origin in ("https://evil.example", f"https://127.0.0.1:{_port(found)}", *_own_origins(found)):
            answer = browser.post(
                f"{found['tls_base_url']}/sign-in",
                data=filled,
                headers={"Origin": origin},
                allow_redirects=False,
                timeout=CLIENT_SECONDS,
            )
            statuses.append(answer.status_code)
        assert statuses == [403, 403, *(303 for _ in _own_origins(found))]
        account = browser.get(f"{found['tls_base_url']}/applications", allow_redirects=False, timeout=CLIENT_SECONDS)
        assert account.status_code == 200


def _own_origins(found: dict[str, Any]) -> list[str]:
    return ["null", found["tls_base_url"], found["base_url"]]


def test_requests_needs_the_certificate(found: dict[str, Any]) -> None:
    """With it orders are read; without it the client refuses."""
    url, headers = f"{found['tls_base_url']}/terminals/v1/list", {"Authorization": f"Bearer {_token(found)}"}
    listed = requests.get(url, headers=headers, verify=found["ca_file"], timeout=CLIENT_SECONDS)
    assert len(listed.json()["data"]["terminals"]) == len(found["terminals"])
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(url, headers=headers, timeout=CLIENT_SECONDS)


async def test_aiohttp_needs_the_certificate(found: dict[str, Any]) -> None:
    """With it many requests share connections; without it the client refuses."""
    url, headers = f"{found['tls_base_url']}/terminals/v1/list", {"Authorization": f"Bearer {_token(found)}"}
    trusting = ssl.create_default_context(cafile=found["ca_file"])
    async with aiohttp.ClientSession(headers=headers) as session:
        for _ in range(20):
            async with session.get(url, ssl=trusting) as answer:
                assert answer.status == 200
                await answer.read()
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.get(url)


def test_the_printed_variables_are_enough(found: dict[str, Any]) -> None:
    """For Python's `ssl` and `requests`, for `fetch` of Node, and for curl."""
    url, file = f"{found['tls_base_url']}/livez", found["ca_file"]
    variables = dict.fromkeys(VARIABLES, file)
    programs = {
        "python": [sys.executable, "-c", f"import urllib.request; urllib.request.urlopen({url!r}, timeout=20)"],
        "requests": [sys.executable, "-c", f"import requests; requests.get({url!r}, timeout=20)"],
        "node": [
            "node",
            "-e",
            f"fetch({url!r}).then(r => r.json()).catch(e => {{ console.error(e); process.exit(1) }})",
        ],
        "curl": ["curl", "-sSf", url],
    }
    clean = {name: value for name, value in os.environ.items() if name not in (*VARIABLES, *OTHER_VARIABLES)}
    for name, program in programs.items():
        if shutil.which(program[0]) is None:
            skip_unless_ci(f"{name} is missing")
        ended = [
            subprocess.run(program, env=environment, capture_output=True, text=True, timeout=60, check=False)
            for environment in (clean, {**clean, **variables})
        ]
        assert [one.returncode == 0 for one in ended] == [False, True], (name, ended)


def test_curl_takes_the_certificate(found: dict[str, Any]) -> None:
    """On each name, and with the vendor's name only for `Host` to be refused."""
    if shutil.which("curl") is None:
        skip_unless_ci("curl is missing")
    for base_url in names(found):
        program = ["curl", "-sS", "--cacert", found["ca_file"], f"{base_url}/livez"]
        assert json.loads(subprocess.check_output(program, timeout=CLIENT_SECONDS)) == {"status": "alive"}


def test_the_documented_request(folder: Path) -> None:
    """That of docs/test-without-hardware.md, with the function that the page defines before."""
    page = (Path(__file__).parents[2] / "docs" / "test-without-hardware.md").read_text()
    helper = next(line for line in page.splitlines() if line.startswith("field()"))
    documented = next(line for line in page.splitlines() if line.startswith("curl -sS --cacert"))
    program = ["sh", "-euc", f"{helper}\n{documented}"]
    answer = subprocess.check_output(program, cwd=folder, env=environment(), timeout=CLIENT_SECONDS)
    assert json.loads(answer) == {"status": "alive"}


def test_tls_1_1_is_refused(found: dict[str, Any]) -> None:
    """1.2 and 1.3 are not."""
    spoken = []
    for version in (ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = ssl.create_default_context(cafile=found["ca_file"])
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = context.maximum_version = version
        with socket.create_connection(("localhost", _port(found))) as client:
            try:
                with context.wrap_socket(client, server_hostname="localhost") as wrapped:
                    spoken.append(wrapped.version())
            except ssl.SSLError:
                spoken.append(None)
    assert spoken == [None, "TLSv1.2", "TLSv1.3"]


def test_commands_use_http_by_default_and_https_if_named(folder: Path, found: dict[str, Any]) -> None:
    """They trust the certificate of the credentials file, at the address that the file names, with its token."""
    paid = command("pay", "24.90", folder=folder, PAYDESK_BASE_URL=found["tls_base_url"])
    assert (paid.returncode, "processed" in paid.stdout) == (0, True), paid.stderr
    for base_url in names(found):
        listed = command("terminals", "list", "--json", folder=folder, PAYDESK_BASE_URL=base_url)
        assert len(json.loads(listed.stdout)) >= len(found["terminals"]), listed.stderr


def test_commands_do_not_send_the_token_to_another_https_service(folder: Path, found: dict[str, Any]) -> None:
    """Another port is another service."""
    base_url = f"https://localhost:{_port(found) + 1}"
    refused = command("terminals", "list", folder=folder, PAYDESK_BASE_URL=base_url)
    assert refused.returncode == 2
    assert "its token is not sent" in refused.stderr


def test_commands_do_not_trust_the_certificate_elsewhere(folder: Path, found: dict[str, Any]) -> None:
    """A token of the environment is sent to another address only if the system trusts its certificate."""
    token, port = found["operator"]["token"], _port(found)
    for base_url in (f"https://ip6-localhost:{port}", f"https://127.0.0.2:{port}"):
        refused = command("terminals", "list", folder=folder, PAYDESK_BASE_URL=base_url, PAYDESK_OPERATOR_TOKEN=token)
        assert refused.returncode == 3, refused.stderr
        assert "Cannot connect" in refused.stderr


@pytest.mark.slow
def test_events_are_read_over_https(folder: Path, found: dict[str, Any]) -> None:
    """`paydesk webhooks listen` keeps a connection of its own."""
    with _listening(folder, found["tls_base_url"]) as listening:
        assert command("pay", "1.00", folder=folder).returncode == 0
        assert listening.stdout is not None
        assert "order.created" in listening.stdout.readline()


@contextlib.contextmanager
def _listening(folder: Path, base_url: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PAYDESK_BASE_URL": base_url, "NO_COLOR": "1"}
    program = [str(Path(sys.executable).with_name("paydesk")), "webhooks", "listen"]
    with subprocess.Popen(
        program, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            assert f"at {base_url}" in process.stderr.readline()
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_a_killed_service_is_back_with_the_same_authority(tmp_path: Path, user: Path) -> None:
    """Killed in the middle of a handshake. Clients that trust the authority go on, on the same port."""
    with dev(tmp_path, "--tls", XDG_DATA_HOME=str(user)) as service:
        found = credentials(tmp_path)
        trusting = ssl.create_default_context(cafile=found["ca_file"])
        with socket.create_connection(("127.0.0.1", _port(found))) as client:
            client.sendall(b"\x16\x03\x01")
            service.process.send_signal(signal.SIGKILL)
            service.process.wait(20)
    with dev(tmp_path, "--tls", "--tls-port", str(_port(found)), XDG_DATA_HOME=str(user)):
        assert credentials(tmp_path)["tls_base_url"] == found["tls_base_url"]
        assert get(f"{found['tls_base_url']}/livez", trusting)[0] == 200


def test_the_file_has_the_fields_only_while_the_service_has_tls(tmp_path: Path, user: Path) -> None:
    """New tokens leave them as they are. A start without TLS removes them, and nothing else, and makes no authority."""
    file, fields = tmp_path / ".paydesk" / "credentials.json", ("tls_base_url", "ca_file", "ca_bundle_file")
    with dev(tmp_path, "--tls", XDG_DATA_HOME=str(user)):
        file.write_text(json.dumps({**credentials(tmp_path), "mine": 1}))
        before = credentials(tmp_path)
        assert command("clock", "advance", "181d", folder=tmp_path).returncode == 0
        after = credentials(tmp_path)
    assert after["test"] != before["test"]
    assert [after[name] for name in fields] == [before[name] for name in fields]
    with dev(tmp_path, XDG_DATA_HOME=str(tmp_path / "user"), PYTHONVERBOSE="1") as service:
        found = credentials(tmp_path)
        assert set(fields).isdisjoint(found)
        assert found["mine"] == 1
        assert not any(line.startswith(("https", "export")) for line in service.lines)
    assert not (tmp_path / "user").exists()
    # The library takes long to import.
    assert any("import 'paydesk_dev.dev.service'" in line for line in service.errors)
    assert not any("import 'cryptography" in line for line in service.errors)


def test_a_second_service_on_all_interfaces(tmp_path: Path, user: Path, found: dict[str, Any]) -> None:
    """It has the same authority. As in a container, localhost leads to it, and it has no other name."""
    with dev(tmp_path, "--host", "0.0.0.0", "--tls", XDG_DATA_HOME=str(user)):  # noqa: S104 - the subject
        other = credentials(tmp_path)
        assert other["ca_file"] == found["ca_file"]
        trusting = ssl.create_default_context(cafile=found["ca_file"])
        assert [get(f"{one['tls_base_url']}/livez", trusting)[0] for one in (found, other)] == [200, 200]
        with pytest.raises(urllib.error.URLError):
            get(f"https://127.0.0.2:{_port(other)}/livez", trusting)


def refused_start(folder: Path, *options: str, **variables: str) -> str:
    """Return the message of a start that is refused."""
    ended = command("dev", *options, folder=folder, **variables)
    assert ended.returncode != 0
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    return ended.stderr


def test_refused_options(tmp_path: Path) -> None:
    """Each message says what to do."""
    assert "needs --tls" in refused_start(tmp_path, "--tls-port", "0")
    assert "--tls-port" in refused_start(tmp_path, "--tls", "--port", "65535")
    assert "localhost only" in refused_start(tmp_path, "--tls", "--port", "0", "--host", "127.0.0.2")
    (tmp_path / "file").write_text("")
    unusable = refused_start(tmp_path, "--tls", "--port", "0", XDG_DATA_HOME=str(tmp_path / "file"))
    assert "XDG_DATA_HOME" in unusable


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_port_in_use_is_refused(tmp_path: Path, host: str) -> None:
    """On either address of localhost: a client might reach the other program."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as taken:
        taken.bind((host, 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        message = refused_start(tmp_path, "--tls", "--port", "0", "--tls-port", port)
    assert f":{port}" in message
    assert "--tls-port" in message


def test_stops_soon_with_open_connections(tmp_path: Path, user: Path) -> None:
    """Silent, in the middle of a handshake, and idle after a request: it waits for none of them.

    The connection that is opened last is the one that has been answered, so the service has seen the others.
    """
    with dev(tmp_path, "--tls", XDG_DATA_HOME=str(user), PAYDESK_HEAD_TIMEOUT_SECONDS="60") as service:
        found = credentials(tmp_path)
        address = ("127.0.0.1", _port(found))
        with socket.create_connection(address), socket.create_connection(address) as begun, requests.Session() as idle:
            begun.sendall(b"\x16\x03\x01")
            answer = idle.get(f"{found['tls_base_url']}/livez", verify=found["ca_file"], timeout=HANGS_SECONDS)
            assert answer.status_code == 200
            service.end()
        assert service.process.returncode == 0
        assert not any('"error"' in line or "Traceback" in line for line in service.errors)


def test_the_http_address_serves_as_before(found: dict[str, Any]) -> None:
    """Both listeners share the application."""
    assert request("GET", f"{found['base_url']}/terminals/v1/list", _token(found))[0] == 200


def _port(found: dict[str, Any]) -> int:
    return int(found["tls_base_url"].rpartition(":")[2])


def _token(found: dict[str, Any]) -> str:
    token: str = found["test"]["access_token"]
    return token
