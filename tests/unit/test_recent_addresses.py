"""Who was let in where: known for its time, in a bounded table, on every node."""

from __future__ import annotations

import pytest

from hand_clock import HandClock
from paydesk.core.recent_addresses import ADDRESSES_MAX, RecentAddresses
from paydesk.core.signals import Signals

HOUR = 3600


@pytest.fixture
def hand() -> HandClock:
    """A clock that stands still."""
    return HandClock()


def test_who_was_there_is_known_for_a_while(hand: HandClock) -> None:
    """There and nowhere else, for as long as promised since the last time and hardly longer; with no time never."""
    known = RecentAddresses("known", 24 * HOUR, monotonic=hand)
    known.add("a", "here")
    assert known.has("a", "here")
    assert not known.has("a", "there")
    assert not known.has("b", "here")
    for _ in range(10):
        hand.advance(0.9 * HOUR)
        known.add("a", "here")
    hand.advance(24 * HOUR - 1)
    assert known.has("a", "here")
    hand.advance(HOUR + 1)
    assert not known.has("a", "here")
    nobody = RecentAddresses("known", 0, monotonic=hand)
    nobody.add("a", "here")
    assert not nobody.has("a", "here")
    assert len(nobody) == 0


def test_nobody_pushes_the_others_out(hand: HandClock) -> None:
    """A subject with very many places keeps its latest ones; the others keep theirs."""
    known = RecentAddresses("known", HOUR, entries_max=10 * ADDRESSES_MAX, monotonic=hand)
    known.add("honest", "home")
    for number in range(20 * ADDRESSES_MAX):
        known.add("busy", str(number))
    assert known.has("honest", "home")
    assert known.has("busy", str(20 * ADDRESSES_MAX - 1))
    assert not known.has("busy", "0")
    assert len(known) == ADDRESSES_MAX + 1


def test_the_table_is_bounded(hand: HandClock) -> None:
    """With more subjects than there is room for, whoever was not seen for the longest is forgotten."""
    known = RecentAddresses("known", HOUR, entries_max=100, monotonic=hand)
    for subject in range(1000):
        known.add(str(subject), "home")
        hand.advance(1)
        assert len(known) <= 100
    assert known.has("999", "home")
    assert known.has("900", "home")
    assert not known.has("899", "home")


def test_other_nodes_hear_of_it_once_in_a_while(hand: HandClock) -> None:
    """A node tells what is news to it, and no more; whoever hears knows it for as long, and tells nobody."""
    here, elsewhere = Signals(), Signals()
    told: list[str] = []

    def carry(topics: object) -> None:
        assert isinstance(topics, tuple)
        told.extend(topics)
        elsewhere.notify_local(topics)

    here.publish_remote, elsewhere.publish_remote = carry, told.extend
    known, other = (
        RecentAddresses("known-client", 24 * HOUR, signals, monotonic=hand) for signals in (here, elsewhere)
    )
    for _ in range(100):
        known.add("7", "2001:db8:1:2::/64")
        hand.advance(60)
    assert told == ["known-client:7:2001:db8:1:2::/64"] * 2
    hand.advance(24 * HOUR - 60 * 60)
    assert other.has("7", "2001:db8:1:2::/64")
    assert not other.has("7", "192.0.2.1")


def test_who_remembers_nobody_neither_tells_nor_hears() -> None:
    """With no time there is nothing that other nodes should know, however often somebody is let in."""
    signals, told = Signals(), list[str]()
    signals.publish_remote = told.extend
    known = RecentAddresses("known-client", 0, signals)
    known.add("7", "192.0.2.1")
    signals.notify_local(("known-client:7:192.0.2.1",))
    assert told == []
    assert len(known) == 0
