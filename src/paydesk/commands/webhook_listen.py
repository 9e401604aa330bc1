"""`paydesk webhooks listen`: prints the application's events as they occur, and forwards them to a receiver."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paydesk.commands import webhooks
from paydesk.commands.failure import WrongUsage
from paydesk.commands.options import CredentialsFile, examples, harmless_json, note
from paydesk.commands.webhook_attempts import checked_url, head, send, show_attempt, write_lines
from paydesk.commands.webhook_secret import SigningSecret, signing_secret
from paydesk.core.secrets import Secret

if TYPE_CHECKING:
    from paydesk.webhooks.forwarding import Notice
    from paydesk.webhooks.sending import Sender

EPILOG = examples(
    "paydesk webhooks listen --forward-to http://localhost:3000/hook",
    "paydesk webhooks listen --forward-to http://localhost:3000/hook --action order.failed --action order.processed",
    "paydesk webhooks listen --from-beginning --json",
)
CONCURRENT_MAX = 16
PAUSE_SECONDS_MAX = 30.0


@webhooks.app.command("listen", epilog=EPILOG)
def listen(
    *,
    forward_to: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Send each event to this URL. [default: only print them]", show_default=False),
    ] = None,
    action: Annotated[
        list[str] | None,
        typer.Option(metavar="ACTION", help="Only this action; may be repeated. [default: all]", show_default=False),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Events of live orders. [default: of test orders]")] = False,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Start with the oldest event that is kept. [default: from now on]")
    ] = False,
    retries: Annotated[
        int, typer.Option(min=0, max=20, help="Repeat a failed delivery this often, after 1 s, 2 s, 4 s and so on.")
    ] = 0,
    secret: SigningSecret = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each event and attempt.")] = False,
    credentials: CredentialsFile = None,
) -> None:
    """Print the application's events until Ctrl-C, and forward them to a receiver on this machine, as webhooks.

    Needs no subscription and no public URL: it reads the events with the application's token. An order's events are
    forwarded in order. If the service is away, it waits, and misses no event.
    """
    _check_actions(action or [])
    url = checked_url(forward_to, "--forward-to") if forward_to is not None else None
    signing = signing_secret(secret, credentials) if url is not None else None
    target = Target(url, signing, retries, secret is None) if url is not None and signing is not None else None
    asyncio.run(_run(Listening(credentials, live, from_beginning, frozenset(action or ()), as_json, target)))


def _check_actions(actions: list[str]) -> None:
    from paydesk.webhooks.schemas import ACTIONS, ACTIONS_OF, CONNECT_TOPIC

    for action in actions:
        if action in ACTIONS_OF[CONNECT_TOPIC]:
            raise WrongUsage(f"{action} is not among the events of orders. Subscribe to {CONNECT_TOPIC} for consents.")
        if action not in ACTIONS:
            raise WrongUsage(f"{action!r} is no action. The actions are {', '.join(ACTIONS)}.")


@dataclass(frozen=True, slots=True)
class Target:
    """The receiver, the secret to sign with, and how often a failed delivery is repeated."""

    url: str
    secret: Secret
    retries: int
    is_secret_shown: bool = True
    """Not if the person who runs the command has given it: it is known then, and may be one of production."""


@dataclass(frozen=True, slots=True)
class Listening:
    """What is read, and what is done with it. No `actions` are all."""

    credentials: Path | None
    live: bool
    from_beginning: bool
    actions: frozenset[str]
    as_json: bool
    target: Target | None


async def _run(listening: Listening) -> None:
    """Listen until SIGTERM or Ctrl-C."""
    from paydesk import node

    stop = asyncio.Event()
    node.stop_on_signals(stop)
    work = asyncio.create_task(_listen(listening))
    try:
        await node.until(stop, work)
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work


async def _listen(listening: Listening) -> None:
    from paydesk.commands.webhook_feed import EventFeed
    from paydesk.sandbox import http_client
    from paydesk.webhooks import forwarding

    target = listening.target
    async with AsyncExitStack() as opened:
        http = await opened.enter_async_context(http_client.session())
        feed = EventFeed(http, listening.credentials, live=listening.live)
        if not listening.from_beginning:
            await feed.skip_to_end()
        printing = Printing(as_json=listening.as_json)
        if target is not None:
            sender = await opened.enter_async_context(forwarding.sender())
            if target.is_secret_shown:
                note(f"Signed with the secret {target.secret.reveal()}")
            printing = Forwarding(as_json=listening.as_json, sender=sender, target=target)
        mode, goal = "live" if listening.live else "test", f", forwarded to {target.url}" if target is not None else ""
        note(f"Listening for {mode} events at {feed.access.base_url}{goal}. Ctrl-C ends it.")
        opened.push_async_callback(printing.close)
        async for event in feed.events():
            if not listening.actions or event.action in listening.actions:
                await printing.take(event)


@dataclass
class Printing:
    """Prints events."""

    as_json: bool

    async def take(self, event: Notice) -> None:
        """Print the event."""
        import time

        write_lines([harmless_json(event.body) if self.as_json else head(event, time.time_ns() // 1_000_000)])

    async def close(self) -> None:
        """End what is running."""


@dataclass
class Forwarding(Printing):
    """Forwards events and prints each attempt. An order's events go one after another, orders side by side."""

    sender: Sender
    target: Target
    _latest: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    """The latest event of each order that is being forwarded."""
    _running: set[asyncio.Task[None]] = field(default_factory=set)
    _free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CONCURRENT_MAX))
    _error: BaseException | None = None

    async def take(self, event: Notice) -> None:
        """Begin to forward the event; wait first while many are being forwarded. Raises what an earlier one raised."""
        await self._free.acquire()
        if self._error is not None:
            raise self._error
        task = asyncio.create_task(self._forward(event, self._latest.get(event.source_id)))
        self._latest[event.source_id] = task
        self._running.add(task)
        task.add_done_callback(lambda done: self._ended(event, done))

    async def close(self) -> None:
        """Cancel what is running."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _forward(self, event: Notice, earlier: asyncio.Task[None] | None) -> None:
        if earlier is not None:
            await asyncio.wait((earlier,))
        pause = 1.0
        for number in range(1, self.target.retries + 2):
            attempt = await send(self.sender, event, self.target.url, self.target.secret, number)
            show_attempt(attempt, as_json=self.as_json)
            if attempt.outcome.delivered or number > self.target.retries:
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS_MAX)

    def _ended(self, event: Notice, task: asyncio.Task[None]) -> None:
        self._free.release()
        self._running.discard(task)
        if self._latest.get(event.source_id) is task:
            del self._latest[event.source_id]
        if not task.cancelled() and task.exception() is not None:
            self._error = task.exception()
