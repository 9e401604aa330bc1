"""Who was let in where lately: in a bounded table of this node, which the other nodes are told of."""

from __future__ import annotations

import time
from collections import OrderedDict

from paydesk.core.rates import ENTRIES_MAX, SECOND_NS, Monotonic
from paydesk.core.signals import Signals

PLACES_MAX = 200
"""So many places are remembered of one subject: it can't push the others out."""

LONGER_SHARE = 24
"""It is kept by this part longer, so that not every time must be written down and told to the others."""


class RecentAddresses:
    """Who was where within `seconds`, or a little longer: each subject's places, the latest kept. With zero nobody.

    With `signals` other nodes hear of it under the topic `<name>:<subject>:<place>`, and this one of what they know: a
    client is met by whichever node its connection comes to. Where none is heard, each knows its own.
    """

    def __init__(
        self,
        name: str,
        seconds: int,
        signals: Signals | None = None,
        *,
        entries_max: int = ENTRIES_MAX,
        monotonic: Monotonic = time.monotonic_ns,
    ) -> None:
        self._prefix, self._signals = f"{name}:", signals
        self._promised_ns, self._entries_max, self._monotonic = seconds * SECOND_NS, entries_max, monotonic
        self._subjects: OrderedDict[str, OrderedDict[str, int]] = OrderedDict()
        self._count = 0
        if signals is not None and seconds:
            signals.listen(self._prefix, self._heard)

    def __len__(self) -> int:
        return self._count

    def has(self, subject: str, place: str) -> bool:
        """Whether the subject was there within the time."""
        places = self._subjects.get(subject)
        return places is not None and places.get(place, 0) > self._monotonic()

    def add(self, subject: str, place: str) -> None:
        """The subject is there now; every node is to know, and is told when that is news."""
        if not self._promised_ns:
            return
        places = self._subjects.get(subject)
        known_until = places.get(place, 0) if places is not None else 0
        if known_until - self._monotonic() >= self._promised_ns:
            return
        self._put(subject, place)
        if self._signals is not None:
            self._signals.publish((f"{self._prefix}{subject}:{place}",))

    def _heard(self, topic: str) -> None:
        subject, _, place = topic.removeprefix(self._prefix).partition(":")
        self._put(subject, place)

    def _put(self, subject: str, place: str) -> None:
        """Where there is no room, the subject that was not seen for the longest loses a place."""
        places = self._subjects.setdefault(subject, OrderedDict())
        self._count += place not in places
        places[place] = self._monotonic() + self._promised_ns + self._promised_ns // LONGER_SHARE
        places.move_to_end(place)
        self._subjects.move_to_end(subject)
        if len(places) > PLACES_MAX:
            self._drop_oldest(subject)
        if self._count > self._entries_max:
            self._drop_oldest(next(iter(self._subjects)))

    def _drop_oldest(self, subject: str) -> None:
        places = self._subjects[subject]
        places.popitem(last=False)
        self._count -= 1
        if not places:
            del self._subjects[subject]
