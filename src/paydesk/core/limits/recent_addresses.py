"""The addresses from which each client, seller or operator authenticated recently, bounded and shared between nodes."""

from __future__ import annotations

from collections import OrderedDict

from paydesk.core import runtime
from paydesk.core.limits.rates import ENTRIES_MAX, SECOND_NS, Monotonic
from paydesk.core.signals import Signals

ADDRESSES_MAX = 200
"""Addresses kept per subject: one subject cannot displace the others."""

EXTRA_SHARE = 24
"""An entry is kept 1/24 longer than `seconds`, so that not every authentication refreshes and publishes it."""


class RecentAddresses:
    """The latest addresses of each subject, each for `seconds` or slightly longer; nothing is kept for 0 seconds.

    With `signals` new entries are published under the topic `<name>:<subject>:<address>`, and those of other nodes are
    added: a client may connect to any node. Without a connection between nodes each has its own entries only.
    """

    def __init__(
        self,
        name: str,
        seconds: int,
        signals: Signals | None = None,
        *,
        entries_max: int = ENTRIES_MAX,
        monotonic: Monotonic = runtime.monotonic_ns,
    ) -> None:
        self._prefix, self._signals = f"{name}:", signals
        self._keep_ns, self._entries_max, self._monotonic = seconds * SECOND_NS, entries_max, monotonic
        self._subjects: OrderedDict[str, OrderedDict[str, int]] = OrderedDict()
        self._count = 0
        if signals is not None and seconds:
            signals.listen(self._prefix, self._add_remote)

    def __len__(self) -> int:
        return self._count

    def has(self, subject: str, address: str) -> bool:
        """Return whether the subject has authenticated from that address recently."""
        addresses = self._subjects.get(subject)
        return addresses is not None and addresses.get(address, 0) > self._monotonic()

    def add(self, subject: str, address: str) -> None:
        """Add or refresh an entry, and publish it unless it was refreshed a short time ago."""
        if not self._keep_ns:
            return
        addresses = self._subjects.get(subject)
        expires_ns = addresses.get(address, 0) if addresses is not None else 0
        if expires_ns - self._monotonic() >= self._keep_ns:
            return
        self._put(subject, address)
        if self._signals is not None:
            self._signals.publish((f"{self._prefix}{subject}:{address}",))

    def _add_remote(self, topic: str) -> None:
        subject, _, address = topic.removeprefix(self._prefix).partition(":")
        self._put(subject, address)

    def _put(self, subject: str, address: str) -> None:
        """Put the entry; in a full table the subject that authenticated the longest ago loses an address."""
        addresses = self._subjects.setdefault(subject, OrderedDict())
        self._count += address not in addresses
        addresses[address] = self._monotonic() + self._keep_ns + self._keep_ns // EXTRA_SHARE
        addresses.move_to_end(address)
        self._subjects.move_to_end(subject)
        if len(addresses) > ADDRESSES_MAX:
            self._drop_oldest(subject)
        if self._count > self._entries_max:
            self._drop_oldest(next(iter(self._subjects)))

    def _drop_oldest(self, subject: str) -> None:
        addresses = self._subjects[subject]
        addresses.popitem(last=False)
        self._count -= 1
        if not addresses:
            del self._subjects[subject]
