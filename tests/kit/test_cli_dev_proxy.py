"""`paydesk dev --proxy` as a process: its options, its credentials, which hosts it serves, and its end."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paydesk_process import Dev, command, credentials, dev
from waiting import HANGS_SECONDS

API = "api.mercadopago.com"
FIELDS = ("tls_base_url", "ca_file", "ca_bundle_file", "proxy_url")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    """A running `paydesk dev --proxy`."""
    folder = tmp_path_factory.mktemp("dev")
    with dev(folder, "--proxy", XDG_DATA_HOME=str(folder / "home")) as running:
        yield running


def port_of(url: str) -> int:
    """Return the port of a URL."""
    return int(url.rpartition(":")[2])


@contextlib.contextmanager
def tunnel(document: dict[str, Any], host: str = API) -> Iterator[http.client.HTTPSConnection]:
    """Open a connection through the proxy that trusts the bundle of the credentials file."""
    context = ssl.create_default_context(cafile=document["ca_bundle_file"])
    proxy = port_of(document["proxy_url"])
    connection = http.client.HTTPSConnection("127.0.0.1", proxy, context=context, timeout=HANGS_SECONDS)
    connection.set_tunnel(host, 443)
    try:
        yield connection
    finally:
        connection.close()


def status(connection: http.client.HTTPConnection, host: str) -> int:
    """Return the status of a request with that `Host`."""
    connection.request("GET", "/.well-known/oauth-authorization-server", headers={"Host": host})
    answer = connection.getresponse()
    answer.read()
    return answer.status


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--proxy", "--host", "0.0.0.0"), "--proxy does not work with --host 0.0.0.0"),  # noqa: S104 - refused
        (("--proxy", "--host", "192.168.1.20"), "--proxy does not work with --host 192.168.1.20"),
        (("--proxy-port", "8379"), "--proxy-port needs --proxy"),
        (("--tls", "--proxy-port", "8379"), "--proxy-port needs --proxy"),
        (("--proxy", "--port", "65534"), "There is no port 65536. Choose one with --proxy-port."),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    """With a message, before anything is created."""
    ended = command("dev", *options, folder=tmp_path, XDG_DATA_HOME=str(tmp_path / "home"))
    assert ended.returncode == 2
    assert message in " ".join(ended.stderr.split())
    assert not list(tmp_path.iterdir())


def test_serve_has_no_proxy(tmp_path: Path) -> None:
    """It is for development alone."""
    ended = command("serve", "--proxy", folder=tmp_path)
    assert ended.returncode == 2
    assert "No such option" in ended.stderr


def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    """The message names the option."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        options = ("--port", "0", "--proxy", "--proxy-port", port)
        ended = command("dev", *options, folder=tmp_path, XDG_DATA_HOME=str(tmp_path / "home"))
    assert ended.returncode != 0
    assert f"127.0.0.1:{port}" in ended.stderr
    assert "--proxy-port" in ended.stderr


def test_the_output_has_the_variables_after_the_first_line(service: Dev) -> None:
    """Programs wait for the first line, and developers copy the other."""
    found = credentials(service.folder)
    https, proxy, export = service.lines[1:4]
    assert service.lines[0] == f"paydesk ready {found['base_url']}\n"
    assert https == f"https {found['tls_base_url']}, CA certificate {found['ca_file']}\n"
    assert proxy == f"proxy {found['proxy_url']}, for api.mercadopago.com and auth.mercadopago.com\n"
    assert export == (
        f"export HTTPS_PROXY={found['proxy_url']} NO_PROXY=localhost,127.0.0.1 NODE_USE_ENV_PROXY=1"
        f" SSL_CERT_FILE={found['ca_bundle_file']} REQUESTS_CA_BUNDLE={found['ca_bundle_file']}"
        f" NODE_EXTRA_CA_CERTS={found['ca_file']}\n"
    )


def test_the_bundle_has_the_certificates_of_public_authorities_too(service: Dev) -> None:
    """A program that trusts it can still call other hosts."""
    found = credentials(service.folder)
    bundle = ssl.create_default_context(cafile=found["ca_bundle_file"]).cert_store_stats()["x509_ca"]
    assert bundle > 20
    assert Path(found["ca_file"]).read_text() in Path(found["ca_bundle_file"]).read_text()
    assert stat.S_IMODE(Path(found["ca_bundle_file"]).stat().st_mode) == 0o600


def test_the_vendors_hosts_are_served_through_the_proxy(service: Dev) -> None:
    """Whatever the service's own address is, on one connection for several requests."""
    for host in (API, "auth.mercadopago.com", "auth.mercadopago.com.br"):
        with tunnel(credentials(service.folder), host) as connection:
            assert [status(connection, name) for name in (host, host, f"{host}:443")] == [200, 200, 200]


def test_another_host_inside_the_tunnel_is_refused(service: Dev) -> None:
    """As on any connection: 421."""
    with tunnel(credentials(service.folder)) as connection:
        for host in ("www.mercadopago.com", "api.mercadopago.com.evil.example", "example.org"):
            assert status(connection, host) == 421


def test_the_vendors_hosts_are_refused_without_tls(service: Dev) -> None:
    """On the http port, with `--proxy` too."""
    plain = http.client.HTTPConnection(
        "127.0.0.1", port_of(credentials(service.folder)["base_url"]), timeout=HANGS_SECONDS
    )
    assert status(plain, API) == 421
    plain.close()


def test_http_2_inside_the_tunnel_is_refused(service: Dev) -> None:
    """The service speaks HTTP/1.1; a client that insists on another protocol gets an error, not silence."""
    found = credentials(service.folder)
    context = ssl.create_default_context(cafile=found["ca_bundle_file"])
    with socket.create_connection(("127.0.0.1", port_of(found["proxy_url"])), timeout=HANGS_SECONDS) as connection:
        connection.sendall(f"CONNECT {API}:443 HTTP/1.1\r\n\r\n".encode())
        assert connection.recv(1000) == b"HTTP/1.1 200 Connection established\r\n\r\n"
        with context.wrap_socket(connection, server_hostname=API) as secure:
            secure.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            assert secure.recv(1000).startswith(b"HTTP/1.1 4")


@pytest.mark.slow
def test_fields_of_the_credentials_file_are_removed_without_the_options(tmp_path: Path) -> None:
    """A later start without them would leave addresses that lead nowhere. Another CA is not made."""
    home = str(tmp_path / "home")
    with dev(tmp_path, "--proxy", XDG_DATA_HOME=home):
        first = credentials(tmp_path)
        assert set(FIELDS) <= set(first)
    with dev(tmp_path, "--tls", XDG_DATA_HOME=home):
        second = credentials(tmp_path)
        assert set(FIELDS) - set(second) == {"proxy_url"}
        assert second["ca_file"] == first["ca_file"]
    with dev(tmp_path, XDG_DATA_HOME=home):
        assert not set(FIELDS) & set(credentials(tmp_path))


@pytest.mark.long("starts the service with a proxy, and waits for its connections to end")
def test_it_ends_in_time_while_clients_are_connected(tmp_path: Path) -> None:
    """With a tunnel without a request, one that waits for an answer, and one that has not said what it wants."""
    with dev(tmp_path, "--proxy", XDG_DATA_HOME=str(tmp_path / "home")) as service:
        found = credentials(tmp_path)
        with (
            tunnel(found) as idle,
            tunnel(found) as waiting,
            socket.create_connection(("127.0.0.1", port_of(found["proxy_url"]))) as silent,
        ):
            assert status(idle, API) == 200
            token = {"Host": API, "Authorization": f"Bearer {found['test']['access_token']}"}
            waiting.request("GET", "/v1/events?wait=20", headers=token)
            silent.sendall(b"CONNECT")
            service.end()
            assert service.process.returncode == 0
            assert waiting.getresponse().status == 200
            assert silent.recv(1) == b""
    assert "requests_aborted" not in "".join(service.errors)
    assert not [line for line in service.errors if "Traceback" in line or '"level":"error"' in line]
