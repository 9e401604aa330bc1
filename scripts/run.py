"""`make run`: starts `paydesk dev`, makes a payment, prints where to go next, and shows requests until Ctrl-C.

The log file has the whole log as JSON; shown are the lines that `paydesk_dev.dev.log_lines` makes of it. Its arguments
and its exit code are those of `paydesk dev`. With `--acquirer http`, live orders go to the example switch, and a live
payment follows (`live_payment.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TextIO

from paydesk_dev.dev.log_lines import LogLines, has_colors

if TYPE_CHECKING:
    from live_payment import Switch

PAYDESK = Path(sys.executable).with_name("paydesk")
DEFAULT_CREDENTIALS = Path(".paydesk/credentials.json")
READY = "paydesk ready "
STOP_SECONDS_MAX = 10
LOG_SECONDS = 0.1
NEXT_STEPS = """
That was a complete payment: an order, a terminal that accepted it, and the webhooks.
Paydesk runs until Ctrl-C. Where to go next:

  The console: the payment step by step, its notifications and requests; you are signed in by the link

  {console_url}

{playable}{https}{acquirer}{places}

  curl -H "Authorization: Bearer $TOKEN" {base_url}/terminals/v1/list    (TOKEN: test.access_token of the file above)
{seller}
Your requests, the webhooks and all warnings follow. The whole log is in {log}.
"""
PLAYABLE = """\
  A card terminal that you play yourself: open it, and put an order on it with
  .venv/bin/paydesk pay 24.90 --terminal {id}{option}

  {page_url}

"""
ACQUIRER = """\
  The live payment went to the acquirer `{PAYDESK_ACQUIRER}` of {PAYDESK_ACQUIRERS_FILE}:
  the example switch in examples/switch/. docs/acquirers.md says how to connect yours. An echo, which charges nothing:

  .venv/bin/paydesk acquirers test {PAYDESK_ACQUIRER}{option}

"""
HTTPS = """\
  {tls_base_url} is the same service with https, for clients that refuse http. They must trust its CA:

  export {trust}

"""
HTTPS_AND_PROXY = """\
  {tls_base_url} is the same service with https, for clients that refuse http.
  {proxy_url} is a proxy for programs that call api.mercadopago.com. With these variables they call Paydesk,
  and trust the CA of both addresses:

  export HTTPS_PROXY={proxy_url} NO_PROXY=localhost,127.0.0.1 NODE_USE_ENV_PROXY=1 {trust}

"""
TRUST = "SSL_CERT_FILE={bundle} REQUESTS_CA_BUNDLE={bundle} NODE_EXTRA_CA_CERTS={file}"
SELLER = """
A seller signs in to authorize an application. Try it as {email} with the password in the
file above (seller.password); `paydesk authorize-url{option}` prints this URL again:

  {address}
"""


def main(arguments: list[str]) -> int:
    """Run until the service ends or a signal arrives; return its exit code."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--data", type=Path, default=Path(".paydesk"))
    parser.add_argument("--credentials", type=Path)
    parser.add_argument("--acquirer", choices=("http",))
    options, _ = parser.parse_known_args(arguments)
    arguments = _without_acquirer(arguments)
    credentials = options.credentials or options.data / "credentials.json"
    options.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = options.data / "service.log"
    with _private(log) as written, log.open() as read, _acquirer(options.acquirer, options.data) as switch:
        # In its own session the service gets Ctrl-C only from here, once, and so the payment can end first.
        service = subprocess.Popen(
            [PAYDESK, "dev", *arguments],
            env={**_environment(), **(switch.settings if switch is not None else {})},
            stdout=subprocess.PIPE,
            stderr=written,
            text=True,
            start_new_session=True,
        )

        def stop(_signal: int, _frame: FrameType | None) -> None:
            # A second signal, which may arrive at the same time, does not wait for open requests.
            _on_signals(lambda *_: service.kill())
            raise KeyboardInterrupt

        shown = Shown(read)
        try:
            _on_signals(stop)
            _show(service, credentials, log, shown, switch)
        except KeyboardInterrupt:
            print()
        finally:
            code = _stop(service)
            shown.print_new(sys.stderr)
    return code


class Shown:
    """The lines of the log file that are to be shown."""

    def __init__(self, file: TextIO) -> None:
        self._file, self._rest = file, ""
        # With the most colors that both outputs have.
        self._lines = LogLines(colors=has_colors(sys.stdout) and has_colors(sys.stderr))

    def skip(self) -> None:
        """Leave out what was written so far."""
        self._file.seek(0, os.SEEK_END)
        self._rest = ""

    def print_new(self, output: TextIO) -> None:
        """Print the lines that were completed since the last call."""
        *lines, self._rest = (self._rest + self._file.read()).split("\n")
        for line in lines:
            text = self._lines.of_json(line)
            if text is not None:
                print(text, file=output, flush=True)


def _private(file: Path) -> TextIO:
    """Open an empty file that only its owner can read, also if it exists with another mode."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "w")


def _on_signals(handler: Callable[[int, FrameType | None], object]) -> None:
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signal_number, handler)


def _environment() -> dict[str, str]:
    return {"PAYDESK_LOG_FORMAT": "json", **os.environ}


def _without_acquirer(arguments: list[str]) -> list[str]:
    """Return the arguments of `paydesk dev`."""
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    own.add_argument("--acquirer")
    return own.parse_known_args(arguments)[1]


def _show(service: subprocess.Popen[str], credentials: Path, log: Path, shown: Shown, switch: Switch | None) -> None:
    """Show the service's output, and a payment once it is ready; with a `switch`, a live one too."""
    assert service.stdout is not None, "stdout is a pipe"
    for line in service.stdout:
        print(line, end="", flush=True)
        if line.startswith(READY):
            console_url = json.loads(credentials.read_text())["console_url"]
            print(f"console {console_url}", flush=True)
            _pay(credentials)
            base_url = line.removeprefix(READY).strip()
            if switch is not None:
                _pay_live(base_url, credentials, switch)
            seller = _seller(credentials)
            playable, https = _playable(credentials), _https(credentials)
            places = _places(base_url, credentials)
            acquirer = ACQUIRER.format(**switch.settings, option=_option(credentials)) if switch is not None else ""
            print(
                NEXT_STEPS.format(
                    base_url=base_url,
                    log=log,
                    seller=seller,
                    playable=playable,
                    https=https,
                    acquirer=acquirer,
                    places=places,
                    console_url=console_url,
                ),
                flush=True,
            )
            shown.skip()
            _follow(service, shown)


def _pay(credentials: Path) -> None:
    payment = subprocess.run([PAYDESK, "pay", "24.90", "--credentials", credentials], check=False)
    if payment.returncode:
        print("The payment failed. The service keeps running.", file=sys.stderr)


def _acquirer(name: str | None, data: Path) -> AbstractContextManager[Switch | None]:
    """Run the acquirer of live orders, if one is chosen."""
    if name is None:
        return nullcontext()
    import live_payment  # Only this needs the adapter.

    return live_payment.run_switch(data)


def _pay_live(base_url: str, credentials: Path, switch: Switch) -> None:
    import live_payment

    try:
        live_payment.pay(base_url, credentials, switch)
    except live_payment.LiveFailed as failure:
        print(f"The live payment failed: {failure} The service keeps running.", file=sys.stderr)


def _option(credentials: Path) -> str:
    """Return the option that names the credentials file to a command, or an empty string for the default file."""
    return "" if credentials == DEFAULT_CREDENTIALS else f" --credentials {shlex.quote(str(credentials))}"


def _places(base_url: str, credentials: Path) -> str:
    """Return the addresses, files and commands to try, each with its purpose in a second column."""
    places = {
        f"{base_url}/docs": "the API reference",
        f"{base_url}/demo/inbox": "the received webhooks",
        str(credentials): "tokens, terminals and secrets",
        f".venv/bin/paydesk pay 12.50{_option(credentials)}": "another payment; --help lists all commands",
        "docs/quickstart.md": "the same steps with curl",
    }
    width = max(map(len, places))
    return "\n".join(f"  {place:<{width}}   {purpose}" for place, purpose in places.items())


def _playable(credentials: Path) -> str:
    """Return the hint about the virtual terminal that a person plays, or an empty string if there is none."""
    terminals = json.loads(credentials.read_text())["terminals"]
    found = next((terminal for terminal in terminals if terminal["script"] == "manual"), None)
    return PLAYABLE.format(**found, option=_option(credentials)) if found is not None else ""


def _https(credentials: Path) -> str:
    """Return what clients need for https or for the proxy, or an empty string without `--tls` and `--proxy`."""
    found = json.loads(credentials.read_text())
    if "tls_base_url" not in found:
        return ""
    trust = TRUST.format(bundle=shlex.quote(found["ca_bundle_file"]), file=shlex.quote(found["ca_file"]))
    return (HTTPS_AND_PROXY if "proxy_url" in found else HTTPS).format(**found, trust=trust)


def _seller(credentials: Path) -> str:
    """Return the hint about the authorization page, or an empty string if the command fails."""
    command = subprocess.run(
        [PAYDESK, "authorize-url", "--credentials", credentials], capture_output=True, text=True, check=False
    )
    if command.returncode:
        return ""
    email = json.loads(credentials.read_text())["seller"]["email"]
    return SELLER.format(email=email, address=command.stdout.strip(), option=_option(credentials))


def _follow(service: subprocess.Popen[str], shown: Shown) -> None:
    while service.poll() is None:
        shown.print_new(sys.stdout)
        time.sleep(LOG_SECONDS)


def _stop(service: subprocess.Popen[str]) -> int:
    service.terminate()
    try:
        code = service.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        service.kill()
        code = service.wait()
    # The code that a shell has for a signal.
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
