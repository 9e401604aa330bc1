"""`paydesk dev`, which runs everything on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from paydesk.commands.client.credentials import LOOPBACK_NAMES
from paydesk.commands.client.failure import WrongUsage
from paydesk.commands.client.options import examples, top
from paydesk.commands.local.local import fast_loop, import_structlog, load_settings, run

EPILOG = examples(
    "paydesk dev",
    "paydesk dev --fresh",
    "paydesk dev --bare --port 0",
    "paydesk dev --tls",
    "paydesk dev --proxy",
    "paydesk dev --port 0 --data /var/tmp/paydesk --credentials credentials.json",
    "PAYDESK_DATABASE_URL=postgresql://me@localhost/paydesk paydesk dev",
)

PORT_MAX = 65535


def _second_port(help_text: str, default: str) -> Any:
    return typer.Option(min=0, max=PORT_MAX, help=help_text, show_default=default)


@top.command("dev", epilog=EPILOG)
def dev(  # noqa: PLR0913 - one parameter for each option
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=PORT_MAX, help="The port to listen on; 0 for a free one.")] = 8377,
    data: Annotated[Path, typer.Option(file_okay=False, help="The folder for all data, kept between runs.")] = Path(
        ".paydesk"
    ),
    credentials: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False, help="The credentials file to write. [default: credentials.json in the data folder]"
        ),
    ] = None,
    *,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help="Remove the development database and start anew. Server keys stay; another database is refused.",
        ),
    ] = False,
    bare: Annotated[
        bool,
        typer.Option(
            "--bare",
            help="Add no demo data. The credentials file has the operator's token alone; `POST /dev/scenes` adds a"
            " seller, an application and tokens.",
        ),
    ] = False,
    until_eof: Annotated[
        bool,
        typer.Option(
            "--until-eof", help="Stop at the end of standard input too: with the program that holds its other end."
        ),
    ] = False,
    tls: Annotated[
        bool,
        typer.Option(
            "--tls",
            help="Accept https too, on a port of its own, with a certificate for localhost, 127.0.0.1 and ::1 only.",
        ),
    ] = False,
    tls_port: Annotated[
        int | None, _second_port("The port for https; 0 for a free one. Needs --tls.", "--port + 1")
    ] = None,
    proxy: Annotated[
        bool,
        typer.Option(
            "--proxy",
            help="Run a proxy for programs that call api.mercadopago.com: with HTTPS_PROXY set, they call Paydesk."
            " Includes --tls.",
        ),
    ] = False,
    proxy_port: Annotated[
        int | None, _second_port("The port of the proxy; 0 for a free one. Needs --proxy.", "--port + 2")
    ] = None,
) -> None:
    """Run everything on this machine: service, database, workers, virtual terminals, webhook inbox.

    Prints `paydesk ready http://127.0.0.1:8377` when it accepts requests, then the address of a virtual terminal that
    you play yourself, and writes the credentials file for clients.
    Ctrl-C stops it; the data is kept for the next start.

    With --tls, clients must trust the certificate of an authority that is created once for this user; its path is
    printed, and in the credentials file.

    With --proxy, programs whose addresses cannot be changed need only the printed environment variables. The proxy
    answers for api.mercadopago.com and auth.mercadopago.com, and opens no connection but to Paydesk.
    """
    tls = tls or proxy
    if tls_port is not None and not tls:
        raise WrongUsage("--tls-port needs --tls.")
    if proxy_port is not None and not proxy:
        raise WrongUsage("--proxy-port needs --proxy.")
    if proxy and host not in LOOPBACK_NAMES:
        raise WrongUsage(
            f"--proxy does not work with --host {host}: only programs on this machine may use the proxy. Leave --host"
            " out."
        )
    https_port = _port_after(port, 1, tls_port, "--tls-port") if tls else None
    proxied_port = _port_after(port, 2, proxy_port, "--proxy-port") if proxy else None
    base = load_settings()
    import_structlog()
    from paydesk_dev.dev import service as development

    options = development.Options(
        host,
        port,
        data,
        credentials or data / "credentials.json",
        fresh=fresh,
        bare=bare,
        until_eof=until_eof,
        tls_port=https_port,
        proxy_port=proxied_port,
    )
    settings = load_settings(**development.overrides(base, options))
    run(development.run(options, settings), fast_loop())


def _port_after(port: int, distance: int, chosen: int | None, option: str) -> int:
    """Return the chosen port, otherwise the one so far after `port`, or a free one if `port` is a free one."""
    if chosen is not None:
        return chosen
    if port + distance > PORT_MAX:
        raise WrongUsage(f"There is no port {port + distance}. Choose one with {option}.")
    return port + distance if port else 0
