"""How a client of a service with several addresses calls it: an outcome that is unknown is repeated until it is known.

An answer is *ok* (2xx), *no* (4xx but 423: nothing happened) or *unknown* (5xx, 423, no answer in time, no answer at
all: it happened once or not). A client knows all addresses, asks any node that did not fail lately, and repeats an
unknown at another one: at once the first time, then with growing pauses. Every attempt beyond a request's first is a
repeat, a refused connection too.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import aiohttp

Outcome = Literal["ok", "no", "unknown"]
AVOIDED_SECONDS = 1.0
PAUSES_SECONDS = (0.0, 0.05, 0.1, 0.2, 0.4)
TIMEOUT_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a node answered; without an answer the status is 0. `attempts` were needed until the outcome was known."""

    status: int
    raw: bytes = b""
    attempts: int = 1
    node: str = ""

    @property
    def outcome(self) -> Outcome:
        """Whether it happened."""
        if 200 <= self.status < 300:
            return "ok"
        return "no" if 400 <= self.status < 500 and self.status != 423 else "unknown"

    @property
    def body(self) -> Any:
        """The document."""
        return json.loads(self.raw) if self.raw else {}

    @property
    def code(self) -> str:
        """The code of the first error, or nothing."""
        error = self.body.get("error", "") if self.raw else ""
        return str(error)


@dataclass
class Tally:
    """What all clients together have seen: the figures of a run, and what no client should ever see."""

    attempts: int = 0
    unknowns: Counter[str] = field(default_factory=Counter)
    requests: Counter[int] = field(default_factory=Counter)
    polls: Counter[int] = field(default_factory=Counter)
    """How many needed so many attempts: long polls, which are open when a node dies more often than not, apart."""
    acknowledged: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    @property
    def known(self) -> int:
        """Of how many requests and polls the outcome became known."""
        return self.requests.total() + self.polls.total()

    @property
    def repeats(self) -> int:
        """Attempts beyond the first of each."""
        return sum((attempts - 1) * count for attempts, count in [*self.requests.items(), *self.polls.items()])


def share_after_one_repeat(by_attempts: Counter[int]) -> float:
    """How many needed at most one repeat."""
    return (by_attempts[1] + by_attempts[2]) / by_attempts.total() if by_attempts else 1.0


class GaveUp(Exception):
    """A request's outcome did not become known although nothing is broken any more."""


class Addresses:
    """Where the nodes are, and which of them failed; all clients of a run share it, as those of one process would."""

    def __init__(self, addresses: list[str], chance: random.Random) -> None:
        self._addresses, self._chance = addresses, chance
        self._avoided_until: dict[str, float] = {}

    def pick(self, other_than: str = "") -> str:
        """Any node that did not fail lately; for a repeat not the one that just failed.

        Once a second the first attempt of one request tries a node that failed; a repeat takes no such risk.
        """
        now = time.monotonic()
        if not other_than:
            for node, until in self._avoided_until.items():
                if until <= now:
                    self.failed(node)
                    return node
        others = [one for one in self._addresses if one != other_than] or self._addresses
        return self._chance.choice([one for one in others if one not in self._avoided_until] or others)

    def failed(self, node: str) -> None:
        """It is avoided for a while."""
        self._avoided_until[node] = time.monotonic() + AVOIDED_SECONDS

    def answered(self, node: str) -> None:
        """It is good again."""
        self._avoided_until.pop(node, None)


class Caller:
    """One client's requests."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        addresses: Addresses,
        tally: Tally,
        chance: random.Random,
        give_up: asyncio.Event,
    ) -> None:
        self._session, self._addresses, self.tally, self.chance = session, addresses, tally, chance
        self._give_up = give_up

    async def known(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        expected: Collection[str] = (),
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> Answer:
        """Repeat the very same request until its outcome is known. `expected`: the codes of refusals that may come."""
        node, attempts = self._addresses.pick(), 1
        while True:
            answer = await self.once(method, path, body, headers=headers, node=node, timeout_seconds=timeout_seconds)
            if answer.outcome != "unknown":
                break
            if self._give_up.is_set():
                self.tally.faults.append(f"{method} {_plain(path)} at {node} never became known: {answer.status}")
                raise GaveUp
            await asyncio.sleep(PAUSES_SECONDS[min(attempts, len(PAUSES_SECONDS)) - 1])
            node, attempts = self._addresses.pick(other_than=node), attempts + 1
        (self.tally.polls if timeout_seconds > TIMEOUT_SECONDS else self.tally.requests)[attempts] += 1
        if answer.outcome == "no" and answer.code not in expected:
            self.tally.faults.append(
                f"{method} {_plain(path)} was refused with {answer.status} {answer.code} after {attempts} attempts"
            )
        return Answer(answer.status, answer.raw, attempts, node)

    async def once(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        node: str,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> Answer:
        """One attempt."""
        self.tally.attempts += 1
        timeout = aiohttp.ClientTimeout(timeout_seconds)
        try:
            async with self._session.request(method, node + path, json=body, headers=headers, timeout=timeout) as reply:
                answer = Answer(reply.status, await reply.read(), node=node)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._addresses.failed(node)
            self.tally.unknowns[type(error).__name__] += 1
            return Answer(0, node=node)
        if answer.outcome == "unknown":
            self._addresses.failed(node)
            self.tally.unknowns[str(answer.status)] += 1
            if answer.status == 500:
                self.tally.faults.append(f"{method} {_plain(path)} at {node}: 500 {answer.code}")
        else:
            self._addresses.answered(node)
        return answer


def _plain(path: str) -> str:
    return path.partition("?")[0]
