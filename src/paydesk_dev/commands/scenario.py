"""`paydesk scenario`: an unhappy path of a sale, played for a till that is a program or has a person."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path as File
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from paydesk.commands.client.client import Answer, as_operator
from paydesk.commands.client.credentials import find_credentials
from paydesk.commands.client.failure import Failure, Unreachable, WrongUsage
from paydesk.commands.client.options import AsJson, CredentialsFile, examples, group, harmless, show, show_list
from paydesk_dev.paths.path import Path, all_paths
from paydesk_dev.paths.tills import AskedTill, ProgramTill

if TYPE_CHECKING:
    from paydesk_dev.paths.play import Play
    from paydesk_dev.testing.service import Service

app = group("Scenarios: play an unhappy path of a sale for your till, and check how it ended.")

COLUMNS = ("id", "group", "title", "ends")
RUN_EXAMPLES = (
    "paydesk scenario run create-answer-lost",
    "paydesk scenario run wrong-pin -- python till.py",
    "paydesk scenario run forged --webhook-url http://127.0.0.1:3000/webhooks -- ./till",
    "paydesk scenario run nobody-comes --json -- python till.py",
)
PROGRESS_SECONDS, POLL_SECONDS = 10.0, 0.2
Say = Callable[[str], None]


@app.command("list", epilog=examples("paydesk scenario list", "paydesk scenario list --json"))
def list_paths(*, as_json: AsJson = False) -> None:
    """List the paths."""
    rows = [{"id": one.id, "group": one.group, "title": one.title, "ends": ", then ".join(one.ends), "till": one.till}
            for one in all_paths().values()]  # fmt: skip
    show_list({"data": rows}, COLUMNS, as_json=as_json)


@app.command("run", epilog=examples(*RUN_EXAMPLES))
def run(
    name: Annotated[str, typer.Argument(help="A path, see `paydesk scenario list`.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(
            help="After `--`: the till, a program that is run with `sale REFERENCE AMOUNT`, `cancel REFERENCE`,"
            " `refund REFERENCE [AMOUNT]` or `sweep`. Exit code: 0 if the sale is paid or refunded, 1 if it is unpaid,"
            " 3 if a person has to look, 4 if it is open. Without it you are asked to do these things."
        ),
    ] = None,
    *,
    seconds: Annotated[int, typer.Option(min=1, help="How long each step waits for the till.")] = 600,
    quiet: Annotated[
        int, typer.Option(min=1, max=50, metavar="SECONDS", help="After how long without a request it has given up.")
    ] = 20,
    webhook_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Where the till gets notifications. [default: the demo inbox]")
    ] = None,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Play a path at a new seller and terminal, with the running `paydesk dev` or one of its own.

    Exits 0 if the order ended as the path says and was charged once, 1 if not.
    """
    path = all_paths().get(name)
    if path is None:
        raise WrongUsage(f"There is no path {name}.", f"There are {', '.join(all_paths())}.")
    if command and shutil.which(command[0]) is None:
        raise WrongUsage(f"There is no program {command[0]}.")
    say = _say_to(sys.stderr if as_json else sys.stdout)
    with _service(credentials, say, path) as service:
        answer = _play(path, service, command, (seconds, quiet), webhook_url, say)
    if as_json:
        show(answer, as_json=True)
    if answer["problems"]:
        raise Failure(f"{path.id} has not ended as it has to.", *answer["problems"])
    say("It has ended as it has to, and the buyer was not charged more than once.")


def _say_to(output: TextIO) -> Say:
    def say(line: str) -> None:
        output.write(harmless(line) + "\n")
        output.flush()

    return say


@contextmanager
def _service(file: File | None, say: Say, path: Path) -> Iterator[Service]:
    """Yield the service of the credentials; if none is named, one that runs here, or a new one.

    A path that moves the clock gets a new one: other orders of a running service would expire.
    """
    from paydesk_dev.testing.service import Service

    is_named = file is not None or os.environ.get("PAYDESK_BASE_URL") or os.environ.get("PAYDESK_CREDENTIALS")
    if is_named or not path.moves_clock:
        try:
            credentials = find_credentials(file)
            as_operator(credentials).get("/dev/clock")
        except Unreachable:
            if is_named:
                raise
        else:
            say(f"With the service at {credentials.base_url}.")
            yield Service(credentials.base_url, credentials.operator_token)
            return
    say("Starting a service for this run: the path moves the clock." if path.moves_clock
        else "No service runs here: starting one for this run.")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="paydesk-") as folder:
        started = Service.start(File(folder))
        try:
            yield started
        finally:
            started.stop()


def _play(
    path: Path, service: Service, command: list[str] | None, waits: tuple[int, int], webhook_url: str | None, say: Say
) -> Answer:
    from paydesk_dev.paths.play import Play
    from paydesk_dev.testing.errors import PaydeskError

    seconds, quiet = waits
    play = Play(path, service, seconds=seconds, quiet_seconds=quiet, say=lambda step: say(f"> {step}"))
    if webhook_url is not None:
        try:
            play.paydesk.webhooks.send_to(webhook_url)
        except PaydeskError as error:
            play.paydesk.close()
            raise WrongUsage(str(error)) from None
    say(f"{path.id}: {path.title}. A correct till {path.till}.")
    if not_shown := path.group == "Notifications" and webhook_url is None:
        say("Not shown: what the till does with notifications. The demo inbox gets them; use --webhook-url.")
    if command:
        till: ProgramTill | AskedTill = ProgramTill(command, play.environment)
    else:
        till = AskedTill(lambda sentence: say(f"  NOW: {sentence}"))
        say("The till needs these:")
        for name, value in play.environment.items():
            say(f"export {name}={shlex.quote(value)}")
    is_over = threading.Event()
    watching = threading.Thread(target=_watch, args=(play, say, is_over))
    watching.start()
    try:
        problems = play.run(till)
    finally:
        is_over.set()
        watching.join()
        if command:
            till.kill()
    orders = [{name: getattr(one, name) for name in ("id", "reference", "status", "detail")} for one in play.ended]
    shown = {"not_shown": ["notifications"] if not_shown else []}
    return {"id": path.id, "ends": path.ends, "orders": orders, **shown, "problems": problems}


def _watch(play: Play, say: Say, is_over: threading.Event) -> None:
    """Print each status, each firing, and how long a step waits."""
    from paydesk_dev.testing.errors import PaydeskError

    after, fired = "", defaultdict[int, int](int)
    began = last = time.monotonic()
    while not is_over.wait(POLL_SECONDS):
        lines = list[str]()
        with suppress(PaydeskError):
            lines, after = play.news(after, fired)
        if lines:
            last = time.monotonic()
        elif time.monotonic() - last > PROGRESS_SECONDS:
            last = time.monotonic()
            lines = [f"{last - began:.0f} s: waiting for `{play.step}`"]
        for line in lines:
            say(f"  {line}")
