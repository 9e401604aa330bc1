"""Token buckets: exact by a clock moved by hand, and bounded."""

from __future__ import annotations

import pytest

from hand_clock import HandClock
from paydesk.core.limits.rates import Buckets, network
from tables import each


@pytest.fixture
def hand() -> HandClock:
    """A clock that stands still."""
    return HandClock()


def test_a_bucket_has_its_burst_and_then_its_rate(hand: HandClock) -> None:
    """Five at once, the sixth waits; one more each tenth of a second, and after half a second all five again."""
    buckets: Buckets[str] = Buckets(10, burst=5, monotonic=hand)
    assert [buckets.take("a") for _ in range(6)] == [0, 0, 0, 0, 0, 1]
    hand.advance(0.0999)
    assert buckets.take("a") == 1
    hand.advance(0.0001)
    assert [buckets.take("a") for _ in range(2)] == [0, 1]
    hand.advance(0.5)
    assert [buckets.take("a") for _ in range(6)] == [0, 0, 0, 0, 0, 1]


def test_the_seconds_to_wait_are_enough_and_no_more_than_needed(hand: HandClock) -> None:
    """A request after the returned wait is allowed; one second earlier is too soon."""
    buckets: Buckets[str] = Buckets(2, 60, monotonic=hand)
    assert [buckets.take("a") for _ in range(3)] == [0, 0, 30]
    hand.advance(29)
    assert buckets.take("a") == 1
    hand.advance(1)
    assert buckets.take("a") == 0


def test_a_refused_request_takes_no_token(hand: HandClock) -> None:
    """Hammering makes the wait no longer, and looking uses nothing either."""
    buckets: Buckets[str] = Buckets(1, 60, monotonic=hand)
    assert buckets.wait("a") == 0
    assert buckets.take("a") == 0
    assert {buckets.take("a") for _ in range(100)} == {60}
    assert {buckets.wait("a") for _ in range(100)} == {60}


def test_each_key_has_its_own_bucket(hand: HandClock) -> None:
    """One that is empty says nothing of the others; one that is forgotten is full."""
    buckets: Buckets[str] = Buckets(1, 60, monotonic=hand)
    assert (buckets.take("a"), buckets.take("a"), buckets.take("b")) == (0, 60, 0)
    buckets.forget("a")
    buckets.forget("never seen")
    assert buckets.take("a") == 0


def test_concurrent_requests_can_overdraw_a_bucket(hand: HandClock) -> None:
    """More failures than the bucket has are paid back, but never more than one burst of them."""
    buckets: Buckets[str] = Buckets(10, 60, monotonic=hand)
    for _ in range(15):
        buckets.charge("a")
    assert buckets.wait("a") == 36
    for _ in range(1000):
        buckets.charge("a")
    assert buckets.wait("a") == 66


@pytest.mark.parametrize(
    ("count", "burst", "processes", "at_once", "seconds"),
    [(10, 6, 3, 2, 0.3), (200, 400, 4, 100, 0.02), (1, 0, 8, 1, 8)],
)
def test_processes_have_equal_parts(
    hand: HandClock, count: int, burst: int, processes: int, at_once: int, seconds: float
) -> None:
    """Of the burst and of the rate, and each has one at once; their rates together are the limit."""
    buckets: Buckets[str] = Buckets(count, burst=burst, processes=processes, monotonic=hand)
    assert [bool(buckets.take("a")) for _ in range(at_once + 1)] == [False] * at_once + [True]
    hand.advance(seconds * 0.99)
    assert buckets.take("a") > 0
    hand.advance(seconds * 0.01)
    assert [bool(buckets.take("a")) for _ in range(2)] == [False, True]


def test_what_is_put_back_can_be_taken_again(hand: HandClock) -> None:
    """Once; where the limit is off, nothing happens."""
    buckets: Buckets[str] = Buckets(1, burst=2, monotonic=hand)
    assert [buckets.take("a") for _ in range(3)] == [0, 0, 1]
    buckets.put_back("a")
    assert [buckets.take("a") for _ in range(2)] == [0, 1]
    off: Buckets[str] = Buckets(0, monotonic=hand)
    off.put_back("a")
    assert off.take("a") == 0


def test_zero_turns_the_limit_off(hand: HandClock) -> None:
    """Nothing is ever refused, and nothing is kept."""
    buckets: Buckets[str] = Buckets(0, monotonic=hand)
    for _ in range(1000):
        assert buckets.take("a") == 0
        buckets.charge("a")
    assert (buckets.wait("a"), len(buckets)) == (0, 0)


def test_a_full_table_evicts_the_fullest_of_the_oldest_buckets(hand: HandClock) -> None:
    """A crowd of new keys pushes those out that are fuller: who was refused stays refused."""
    buckets: Buckets[int] = Buckets(10, 3600, entries_max=100, monotonic=hand)
    for _ in range(10):
        assert buckets.take(-1) == 0
    for key in range(10_000):
        assert buckets.take(key) == 0
        assert len(buckets) <= 100
    assert buckets.take(-1) > 0


def test_full_buckets_are_dropped_first(hand: HandClock) -> None:
    """Of a crowd that came and went little is left once others come."""
    buckets: Buckets[int] = Buckets(10, 10, entries_max=1000, monotonic=hand)
    for key in range(1000):
        buckets.take(key)
    hand.advance(60)
    for key in range(1000, 1400):
        buckets.take(key)
    assert len(buckets) <= 400


@each(
    "address, counts_as",
    [
        ("192.0.2.7", "192.0.2.7"),
        ("192.0.2.7:50123", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::ffff:c000:207", "192.0.2.7"),
        ("[::ffff:192.0.2.7]:443", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("2001:DB8:0001:0002:ffff:ffff:ffff:ffff", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2::9]:443", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("", ""),
        ("unknown", "unknown"),
        ("no:address:at all", "no:address:at all"),
        ("x" * 5000, "x" * 64),
        (":" * 5000, ":" * 64),
    ],
)
def test_addresses_of_one_network_share_a_limit(address: str, counts_as: str) -> None:
    """A subscriber's /64 is one, IPv4 in any clothes is IPv4, and what is no address is no longer than one."""
    assert network(address) == counts_as
