"""The switch of examples/switch behind TLS: with certificates of a private authority, and with wrong ones."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from authorize_scene import authorize, service_terminal
from operator_calls import operator
from paydesk.core import runtime
from paydesk.engine.payments.acquirer import Approved, NotSent
from paydesk.engine.payments.adapters.context import AdapterContext
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk_process import command
from played_switch import CARD, PAYMENT, PlayedSwitch, playing
from private_authority import DAY_SECONDS, Authority
from refund_scene import body_of
from service import Service, running
from switch_process import SECRET, SwitchProcess, switch
from tables import each

FILE = """
[acquirers.main]
adapter = "http"
url = "https://127.0.0.1:{port}/paydesk"
key_id = "shop-1"
secret = "env:SWITCH_KEY"
{options}"""
CHUNK_BYTES = 65_536


@dataclass
class Files:
    """The certificates of a shop, its switch, and others."""

    folder: Path
    own: Authority
    other: Authority

    def options(self, **given: Path) -> str:
        """Return options of the acquirers file."""
        return "".join(f'{name} = "{file}"\n' for name, file in given.items())

    def server(self, version: ssl.TLSVersion) -> ssl.SSLContext:
        """Return the context of a server that wants a client certificate of the shop's authority."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.own.file)
        context.load_cert_chain(self.own.certificate("switch"))
        context.verify_mode, context.maximum_version = ssl.CERT_REQUIRED, version
        return context


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    """The two authorities."""
    monkeypatch.setenv("SWITCH_KEY", SECRET)
    return Files(tmp_path, Authority(tmp_path, "own"), Authority(tmp_path, "other"))


@asynccontextmanager
async def fronted(target: SwitchProcess, context: ssl.SSLContext) -> AsyncIterator[int]:
    """Pass what comes by TLS on to the switch, and yield the port."""

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            writer.write(chunk)
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_switch, to_switch = await asyncio.open_connection("127.0.0.1", target.port)
        await asyncio.gather(pass_on(reader, to_switch), pass_on(from_switch, writer), return_exceptions=True)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def settings(files: Files, port: int, options: str) -> Settings:
    """Write the acquirers file and return the settings that name it."""
    path = files.folder / "acquirers.toml"
    path.touch(0o600)
    path.write_text(FILE.format(port=port, options=options))
    return Settings(acquirer="main", acquirers_file=str(path))


async def sold(service: Service) -> str:
    """Sell at a terminal of kind `service`; return what came of it."""
    device = await service.device(await service_terminal(service, live=True))
    body, token = body_of(device, "24.90"), service.live_access_token
    order_id: str = (await service.request("POST", "/v1/orders", body, token=token)).body["id"]
    assert (await device.ack(order_id[3:])).status == 200
    answer = (await authorize(device, order_id[3:])).body
    order = (await service.request("GET", f"/v1/orders/{order_id}", token=token)).body
    return f"{answer['outcome']} {order['status']} {answer['status_detail']}"


@each("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_sale_is_made_with_the_right_certificates(
    version: ssl.TLSVersion, database: Database, files: Files
) -> None:
    """The front wants a client certificate, and the switch a signature."""
    options = files.options(ca_file=files.own.file, client_certificate=files.own.certificate("shop"))
    with switch(files.folder) as played:
        async with (
            fronted(played, files.server(version)) as port,
            running(database, settings=settings(files, port, options)) as service,
        ):
            tested = await (await operator(service, "support")).did("POST", "acquirers/main/test")
            assert tested["reachable"], tested
            assert await sold(service) == "approved processed accredited"
        assert {entry["kind"] for entry in played.ledger()} == {"payment"}


WRONG = {
    "another authority of the switch": ("certificate is not valid", "other", "shop", 1),
    "no client certificate": ("does not accept the client certificate, or needs one", "own", "", 1),
    "a client certificate of another authority": ("does not accept the client certificate", "own", "other", 1),
    "an expired client certificate": ("the client certificate expired on ", "own", "shop", -1),
}


@each("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@each("wrong", [*WRONG])
async def test_a_sale_is_declined_with_a_wrong_certificate(
    wrong: str, version: ssl.TLSVersion, database: Database, files: Files
) -> None:
    """It is never unknown, nothing is sent to the switch, and the test of the acquirer says why."""
    said, authority, client, days = WRONG[wrong]
    given = {"ca_file": (files.own if authority == "own" else files.other).file}
    if client:
        signer = files.other if client == "other" else files.own
        given["client_certificate"] = signer.certificate(client, days)
    with switch(files.folder) as played:
        async with (
            fronted(played, files.server(version)) as port,
            running(database, settings=settings(files, port, files.options(**given))) as service,
        ):
            tested = await (await operator(service, "support")).did("POST", "acquirers/main/test")
            assert not tested["reachable"]
            assert said in tested["reason"]
            assert await sold(service) == "declined failed processing_error"
        assert played.ledger() == []


async def test_a_client_certificate_that_expires_meanwhile_sends_nothing(files: Files) -> None:
    """The node runs, and has sold: with TLS 1.3 it would learn that after the payment was sent."""
    now_ns = runtime.wall_ns()
    context = AdapterContext(now_ns=lambda: now_ns)
    client = files.own.certificate("shop")
    tls = files.server(ssl.TLSVersion.TLSv1_3)
    options = {"ca_file": str(files.own.file), "client_certificate": str(client), "secret": None, "key_id": None}
    played = PlayedSwitch()
    async with playing(played, context, tls=tls, **options) as acquirer:
        assert isinstance(await acquirer.authorize(PAYMENT, CARD), Approved)
        now_ns += 2 * DAY_SECONDS * 1_000_000_000
        refused = await acquirer.authorize(PAYMENT, CARD)
        assert isinstance(refused, NotSent)
        assert refused.reason.startswith("the client certificate expired on 20")
    assert len(played.requests) == 1


async def test_the_kit_tests_a_switch_behind_tls(files: Files) -> None:
    """Its own requests have the certificates, too."""
    options = files.options(ca_file=files.own.file, client_certificate=files.own.certificate("shop"))
    with switch(files.folder) as played:
        async with fronted(played, files.server(ssl.TLSVersion.TLSv1_3)) as port:
            file = settings(files, port, options).acquirers_file or ""
            arguments = ("acquirers", "conformance", "main", "--only", "approve", "--only", "timeout_is_unknown")
            ended = await asyncio.to_thread(
                command, *arguments, folder=files.folder, PAYDESK_ACQUIRERS_FILE=file, SWITCH_KEY=SECRET
            )
    assert ended.returncode == 0, ended.stdout + ended.stderr


@each(
    "options, said",
    [
        ("", "certificate is not valid"),
        ('ca_file = "missing.pem"', "`ca_file` missing.pem cannot be used: No such file or directory."),
    ],
)
async def test_the_kit_says_that_it_cannot_reach_a_switch(options: str, said: str, files: Files) -> None:
    """Before the first case, in a sentence."""
    with switch(files.folder) as played:
        async with fronted(played, files.server(ssl.TLSVersion.TLSv1_3)) as port:
            file = settings(files, port, options).acquirers_file or ""
            arguments = ("acquirers", "conformance", "main")
            ended = await asyncio.to_thread(
                command, *arguments, folder=files.folder, PAYDESK_ACQUIRERS_FILE=file, SWITCH_KEY=SECRET
            )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
