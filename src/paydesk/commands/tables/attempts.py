"""One attempt to deliver a notification from the command line, and the lines of its outcome."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paydesk.commands.client.client import given
from paydesk.commands.client.failure import WrongUsage
from paydesk.commands.client.options import harmless_json, harmless_line
from paydesk.core.clock import rfc3339
from paydesk.core.secrets import Secret

if TYPE_CHECKING:
    from paydesk.engine.webhooks.delivery.notice import Notice
    from paydesk.engine.webhooks.delivery.sending import Outcome, Sender

ANSWER_CHARACTERS_MAX = 300
"""Maximum of a failed answer that is printed."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt with its outcome."""

    notice: Notice
    number: int
    outcome: Outcome
    milliseconds: int
    started_ms: int

    def document(self) -> Mapping[str, Any]:
        """Return the attempt as JSON has it, with the notification."""
        return given(
            {
                "date": rfc3339(self.started_ms),
                "action": self.notice.action,
                "id": self.notice.source_id,
                "event_id": self.notice.event_id,
                "attempt": self.number,
                "delivered": self.outcome.delivered,
                "status": self.outcome.status,
                "error": self.outcome.error,
                "milliseconds": self.milliseconds,
                "answer": self.outcome.body or None,
                "event": json.loads(self.notice.body),
            }
        )

    def lines(self) -> list[str]:
        """Return the attempt as people read it: one line, and of a failure the beginning of the answer."""
        result = f"{self.outcome.status}" if self.outcome.error is None else f"no answer: {self.outcome.error}"
        again = f"  attempt {self.number}" if self.number > 1 else ""
        line = f"{head(self.notice, self.started_ms)}  {harmless_line(result)}  {self.milliseconds} ms{again}"
        if self.outcome.delivered or not self.outcome.body.strip():
            return [line]
        beginning = self.outcome.body.strip()[:ANSWER_CHARACTERS_MAX]
        return [line, *(f"    {harmless_line(text)}" for text in beginning.splitlines())]


async def send(sender: Sender, notice: Notice, url: str, secret: Secret, number: int = 1) -> Attempt:
    """Send the notification once; `number` is the attempt's, from 1."""
    from paydesk.engine.webhooks.delivery import send as sending

    started_ms = time.time_ns() // 1_000_000
    sent = await sending.send(sender, notice.message(url, number), [secret], started_ms // 1000)
    return Attempt(notice, number, sent.outcome, sent.milliseconds, started_ms)


def show_attempt(attempt: Attempt, *, as_json: bool) -> None:
    """Print the attempt: with `as_json` as one line of JSON."""
    write_lines([harmless_json(json.dumps(attempt.document(), ensure_ascii=False))] if as_json else attempt.lines())


def write_lines(lines: Sequence[str]) -> None:
    """Print the lines at once, also into a pipe."""
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def head(notice: Notice, now_ms: int) -> str:
    """Return the beginning of a notification's line: the time in UTC, the action, and what it is about."""
    return f"{rfc3339(now_ms)[11:23]}  {harmless_line(notice.action):<21}  {harmless_line(notice.source_id)}"


def checked_url(url: str, option: str) -> str:
    """Return the URL. Raises `WrongUsage` unless a notification can be sent to it."""
    from paydesk.engine.webhooks import urls

    faults = urls.faults(url, ports=(), loopback_allowed=True)
    if faults:
        raise WrongUsage(f"{option} {' and '.join(faults)}, such as http://localhost:3000/hook.")
    return url
