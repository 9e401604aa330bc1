"""`paydesk webhooks listen`: prints the application's events as they occur, and forwards them to a receiver."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paydesk.commands.client.failure import WrongUsage
from paydesk.commands.client.options import CredentialsFile, examples, harmless_json, note
from paydesk.commands.local.secret import SigningSecret, signing_secret
from paydesk.commands.nouns import webhooks
from paydesk.commands.tables.attempts import checked_url, head, send, show_attempt, write_lines
from paydesk.core.secrets import Secret

if TYPE_CHECKING:
    from paydesk.engine.webhooks.delivery.notice import Notice
    from paydesk.engine.webhooks.delivery.sending import Sender

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
        str | None, typer.Option(metavar="URL", help="Send each event to this URL. [default: only print them]")
    ] = None,
    action: Annotated[
        list[str] | None, typer.Option(metavar="ACTION", help="Only this action; may be repeated. [default: all]")
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
    from paydesk.engine.webhooks.schemas import ACTIONS, ACTIONS_OF, CONNECT_TOPIC
    from paydesk.platform.process import node

    for one in action or ():
        if one in ACTIONS_OF[CONNECT_TOPIC]:
            raise WrongUsage(f"{one} is not among the events of orders. Subscribe to {CONNECT_TOPIC} for consents.")
        if one not in ACTIONS:
            raise WrongUsage(f"{one!r} is no action. The actions are {', '.join(ACTIONS)}.")
    target = None
    if forward_to is not None:
        url = checked_url(forward_to, "--forward-to")
        target = Target(url, signing_secret(secret, credentials), retries, secret is None)
    options = {"live": live, "from_beginning": from_beginning, "as_json": as_json}
    work = _listen(credentials, frozenset(action or ()), target, **options)

    async def until_stopped() -> None:
        stop = asyncio.Event()
        node.stop_on_signals(stop)
        await node.until(stop, asyncio.create_task(work))

    # What is open at SIGTERM or Ctrl-C is closed by `asyncio.run`, which cancels the work.
    asyncio.run(until_stopped())


@dataclass(frozen=True, slots=True)
class Target:
    """The receiver, the secret to sign with, and how often a failed delivery is repeated."""

    url: str
    secret: Secret
    retries: int
    is_secret_shown: bool
    """False if the person who runs the command has given it: it is known then, and may be one of production."""


async def _listen(
    credentials: Path | None,
    actions: frozenset[str],
    target: Target | None,
    *,
    live: bool,
    from_beginning: bool,
    as_json: bool,
) -> None:
    """Print the events, or forward them. No `actions` are all."""
    from paydesk.engine.webhooks.delivery import notice as forwarding
    from paydesk_dev import http_client
    from paydesk_dev.forwarding.feed import EventFeed

    forwarded, goal = None, ""
    async with AsyncExitStack() as opened:
        http = await opened.enter_async_context(http_client.session())
        feed = EventFeed(http, credentials, live=live)
        if not from_beginning:
            await feed.skip_to_end()
        if target is not None:
            sender = await opened.enter_async_context(forwarding.sender())
            if target.is_secret_shown:
                note(f"Signed with the secret {target.secret.reveal()}")
            forwarded, goal = Forwarding(sender, target, as_json), f", forwarded to {target.url}"
            opened.push_async_callback(forwarded.close)
        note(f"Listening for {'live' if live else 'test'} events at {feed.access.base_url}{goal}. Ctrl-C ends it.")
        async for event in feed.events():
            if actions and event.action not in actions:
                continue
            if forwarded is not None:
                await forwarded.take(event)
            else:
                now_ms = time.time_ns() // 1_000_000
                write_lines([harmless_json(event.body) if as_json else head(event, now_ms)])


@dataclass
class Forwarding:
    """Forwards events and prints each attempt. An order's events go one after another, orders side by side."""

    sender: Sender
    target: Target
    as_json: bool
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

        def ended(_task: asyncio.Task[None]) -> None:
            self._free.release()
            self._running.discard(task)
            if self._latest.get(event.source_id) is task:
                del self._latest[event.source_id]
            if not task.cancelled() and task.exception() is not None:
                self._error = task.exception()

        task.add_done_callback(ended)

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
