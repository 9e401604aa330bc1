"""Recent addresses: kept for their time, in a bounded table, on every node."""

from __future__ import annotations

import pytest

from hand_clock import HandClock
from paydesk.core.limits.recent_addresses import ADDRESSES_MAX, RecentAddresses
from paydesk.core.signals import Signals

HOUR = 3600


@pytest.fixture
def hand() -> HandClock:
    """A clock that is moved by hand."""
    return HandClock()


def test_an_address_is_known_until_its_time_is_over(hand: HandClock) -> None:
    """Known at that address only, for the time since the last authentication; never with 0 seconds."""
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
    disabled = RecentAddresses("known", 0, monotonic=hand)
    disabled.add("a", "here")
    assert not disabled.has("a", "here")
    assert len(disabled) == 0


def test_one_subject_does_not_displace_others(hand: HandClock) -> None:
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
    """A full table drops the subject that authenticated the longest ago."""
    known = RecentAddresses("known", HOUR, entries_max=100, monotonic=hand)
    for subject in range(1000):
        known.add(str(subject), "home")
        hand.advance(1)
        assert len(known) <= 100
    assert known.has("999", "home")
    assert known.has("900", "home")
    assert not known.has("899", "home")


def test_new_entries_are_published_to_other_nodes(hand: HandClock) -> None:
    """A node publishes new entries once per interval; a receiving node keeps them as long and does not publish them."""
    local, remote = Signals(), Signals()
    published: list[str] = []

    def deliver(topics: object) -> None:
        assert isinstance(topics, tuple)
        published.extend(topics)
        remote.notify_local(topics)

    local.publish_remote, remote.publish_remote = deliver, published.extend
    known, other = (RecentAddresses("known-client", 24 * HOUR, signals, monotonic=hand) for signals in (local, remote))
    for _ in range(100):
        known.add("7", "2001:db8:1:2::/64")
        hand.advance(60)
    assert published == ["known-client:7:2001:db8:1:2::/64"] * 2
    hand.advance(24 * HOUR - 60 * 60)
    assert other.has("7", "2001:db8:1:2::/64")
    assert not other.has("7", "192.0.2.1")


def test_zero_seconds_publish_and_keep_nothing() -> None:
    """Nothing is published and nothing of other nodes is kept."""
    signals, published = Signals(), list[str]()
    signals.publish_remote = published.extend
    known = RecentAddresses("known-client", 0, signals)
    known.add("7", "192.0.2.1")
    signals.notify_local(("known-client:7:192.0.2.1",))
    assert published == []
    assert len(known) == 0
