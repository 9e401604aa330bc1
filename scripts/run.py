"""What `make run` does once `.venv` is there: a service for development, and one payment to watch.

It starts `paydesk dev`, plays the payment into the same terminal window, says where to go next, and shows the log until
Ctrl-C. Its arguments are those of `paydesk dev`, and so is its exit code.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TextIO

PAYDESK = Path(sys.executable).with_name("paydesk")
READY = "paydesk ready "
STOP_SECONDS_MAX = 10
LOG_SECONDS = 0.1
NEXT_STEPS = """
That was a whole payment: an order, a terminal that took it, a webhook that was delivered.
Paydesk goes on serving until Ctrl-C. Where to go next:

  {base_url}/docs            every operation, every error
  {base_url}/demo/inbox      the webhooks that have arrived
  {credentials}   ready-made tokens, terminals and secrets
  .venv/bin/paydesk pay 12.50           another payment; --help says what else there is
  README.md                             the same path with curl alone, such as

  curl -H "Authorization: Bearer $TOKEN" {base_url}/terminals/v1/list    (TOKEN: test.access_token of the file above)
{seller}
The log of every request follows; it is in {log}.
"""
SELLER = """
Before an application may act for a seller, the seller signs in and agrees. See it as {email}
with the password in the file above (seller.password); `paydesk authorize-url` prints this address anew:

  {address}
"""


def main(arguments: list[str]) -> int:
    """Run until the service ends or is told to; its exit code."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--data", type=Path, default=Path(".paydesk"))
    parser.add_argument("--credentials", type=Path)
    options, _ = parser.parse_known_args(arguments)
    credentials = options.credentials or options.data / "credentials.json"
    options.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = options.data / "service.log"
    _on_signals(signal.default_int_handler)
    with _private(log) as written, log.open() as read:
        # In a session of its own it hears of Ctrl-C from here alone, once, and so the payment can end first.
        service = subprocess.Popen(
            [PAYDESK, "dev", *arguments],
            env=_environment(),
            stdout=subprocess.PIPE,
            stderr=written,
            text=True,
            start_new_session=True,
        )
        try:
            _show(service, credentials, log, read)
        except KeyboardInterrupt:
            # Whoever asks again won't wait for what is still under way.
            _on_signals(lambda *_: service.kill())
            print()
        finally:
            code = _stop(service)
            print(read.read(), end="", file=sys.stderr)
    return code


def _private(file: Path) -> TextIO:
    """Open an empty file that its owner alone may read, also where others could before."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "w")


def _on_signals(do: Callable[[int, FrameType | None], object]) -> None:
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signal_number, do)


def _environment() -> dict[str, str]:
    text = {"PAYDESK_LOG_FORMAT": "text"} if sys.stdout.isatty() else {}
    return {**text, **os.environ}


def _show(service: subprocess.Popen[str], credentials: Path, log: Path, lines: TextIO) -> None:
    assert service.stdout is not None, "it was asked for"
    for line in service.stdout:
        print(line, end="", flush=True)
        if line.startswith(READY):
            _pay(credentials)
            base_url = line.removeprefix(READY).strip()
            seller = _seller(credentials)
            print(NEXT_STEPS.format(base_url=base_url, credentials=credentials, log=log, seller=seller), flush=True)
            lines.seek(0, os.SEEK_END)
            _follow(service, lines)


def _pay(credentials: Path) -> None:
    played = subprocess.run([PAYDESK, "pay", "24.90", "--credentials", credentials], check=False)
    if played.returncode:
        print("The payment did not go through; the service goes on.", file=sys.stderr)


def _seller(credentials: Path) -> str:
    """How to meet the authorization page as the demo seller; nothing where its address can't be told."""
    told = subprocess.run(
        [PAYDESK, "authorize-url", "--credentials", credentials], capture_output=True, text=True, check=False
    )
    if told.returncode:
        return ""
    email = json.loads(credentials.read_text())["seller"]["email"]
    return SELLER.format(email=email, address=told.stdout.strip())


def _follow(service: subprocess.Popen[str], lines: TextIO) -> None:
    while service.poll() is None:
        print(lines.read(), end="", flush=True)
        time.sleep(LOG_SECONDS)


def _stop(service: subprocess.Popen[str]) -> int:
    service.terminate()
    try:
        code = service.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        service.kill()
        code = service.wait()
    # As a shell tells of a signal.
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
