"""Sign-ins that fail: throttled by e-mail and address, unless it is the seller's own browser or address."""

from __future__ import annotations

import pytest

from hand_clock import HandClock
from paydesk.oauth.clients.throttle import SignInRates, SignInThrottle

RATES = SignInRates(pair_per_hour=3, address_per_hour=6, email_per_hour=9)
OWNER, HOME, STRANGE = "owner@shop.example", "198.51.100.1", "203.0.113.9"


@pytest.fixture
def hand() -> HandClock:
    """A clock that stands still."""
    return HandClock()


@pytest.fixture
async def throttle(hand: HandClock) -> SignInThrottle:
    """Three failures a pair, six an address, nine an e-mail."""
    return SignInThrottle(RATES, monotonic=hand)


def fail(throttle: SignInThrottle, email: str, address: str, *, known_browser: bool = False) -> int:
    """Fail until refused; how often that was possible."""
    for count in range(100):
        if throttle.refusal(email, address, known_browser=known_browser):
            return count
        throttle.failed(email, address, known_browser=known_browser)
    return 100


async def test_a_pair_is_refused_after_its_failures(throttle: SignInThrottle, hand: HandClock) -> None:
    """However the address is written; from elsewhere and for others one may still try; twenty minutes later once."""
    assert fail(throttle, OWNER, HOME) == 3
    assert throttle.refusal(OWNER.upper() + " ", HOME) == 1200
    assert throttle.refusal(OWNER, STRANGE) is None
    assert throttle.refusal("other@shop.example", HOME) is None
    hand.advance(1200)
    assert fail(throttle, OWNER, HOME) == 1


async def test_an_address_is_refused_whatever_e_mail_it_tries(throttle: SignInThrottle) -> None:
    """Six failures of one address, over all e-mails; others don't feel it."""
    tried = sum(fail(throttle, f"guess-{number}@shop.example", STRANGE) for number in range(10))
    assert tried == 6
    assert throttle.refusal(OWNER, STRANGE) is not None
    assert throttle.refusal(OWNER, HOME) is None


async def test_an_e_mail_is_refused_to_strangers_of_all_addresses(throttle: SignInThrottle) -> None:
    """Nine failures of one e-mail, over all addresses new to it."""
    assert sum(fail(throttle, OWNER, f"203.0.113.{number}") for number in range(100)) == 9
    assert throttle.refusal(OWNER, "192.0.2.1") is not None


async def test_strangers_lock_nobody_out(throttle: SignInThrottle, hand: HandClock) -> None:
    """Where the seller signed in within 24 hours, and in a known browser, nothing is felt of their failures."""
    throttle.succeeded(OWNER, HOME)
    for number in range(100):
        fail(throttle, OWNER, f"203.0.113.{number}")
    assert throttle.refusal(OWNER, "192.0.2.1") is not None
    assert throttle.refusal(OWNER, HOME) is None
    assert throttle.refusal(OWNER, "192.0.2.1", known_browser=True) is None
    hand.advance(24 * 3600 - 1)
    for number in range(100):
        fail(throttle, OWNER, f"203.0.113.{number}")
    assert throttle.refusal(OWNER, HOME) is None
    hand.advance(3601)
    for number in range(100):
        fail(throttle, OWNER, f"203.0.113.{number}")
    assert throttle.refusal(OWNER, HOME) is not None


async def test_a_stranger_behind_the_same_address_locks_no_known_browser_out(throttle: SignInThrottle) -> None:
    """Neighbours share the address, not the browser."""
    throttle.succeeded(OWNER, HOME)
    assert fail(throttle, OWNER, HOME) == 3
    fail(throttle, "guess-1@shop.example", HOME)
    fail(throttle, "guess-2@shop.example", HOME)
    assert throttle.refusal("new@shop.example", HOME) is not None
    assert throttle.refusal(OWNER, HOME, known_browser=True) is None


async def test_a_known_browser_may_not_guess_for_ever(throttle: SignInThrottle) -> None:
    """It has a budget of its own, which takes nothing from anybody's; then it has what unknown ones have."""
    for _ in range(3):
        assert throttle.refusal(OWNER, STRANGE, known_browser=True) is None
        throttle.failed(OWNER, STRANGE, known_browser=True)
    assert fail(throttle, OWNER, STRANGE) == 3
    assert throttle.refusal(OWNER, STRANGE, known_browser=True) is not None
    for number in range(100):
        fail(throttle, OWNER, f"203.0.113.{number}", known_browser=True)
    assert throttle.refusal(OWNER, "192.0.2.1", known_browser=True) is not None


async def test_who_signed_in_once_locks_no_known_browser_out(throttle: SignInThrottle) -> None:
    """A browser of before, wherever it guesses from, leaves the seller the address where they sign in."""
    throttle.succeeded(OWNER, HOME)
    for number in range(100):
        fail(throttle, OWNER, f"203.0.113.{number}", known_browser=True)
    assert throttle.refusal(OWNER, HOME, known_browser=True) is None
    assert fail(throttle, OWNER, HOME, known_browser=True) == 3


async def test_a_success_forgets_what_was_mistyped(throttle: SignInThrottle) -> None:
    """Two wrong ones, a right one: three wrong ones are to spare again. What others tried stays counted."""
    for known_browser in (False, True):
        for _ in range(2):
            throttle.failed(OWNER, HOME, known_browser=known_browser)
    throttle.succeeded(OWNER, HOME, known_browser=True)
    assert fail(throttle, OWNER, HOME) == 1
    assert fail(throttle, OWNER, HOME, known_browser=True) == 3
    throttle.succeeded(OWNER, HOME)
    assert fail(throttle, OWNER, HOME) == 3
    assert throttle.refusal(OWNER, HOME, known_browser=True) is not None
    assert fail(throttle, OWNER, STRANGE, known_browser=True) == 3


async def test_a_seller_of_ones_own_buys_no_guesses(throttle: SignInThrottle) -> None:
    """Whoever signs in now and then as somebody has not more guesses at others from the address."""
    tried = 0
    for number in range(20):
        tried += fail(throttle, f"guess-{number}@shop.example", STRANGE)
        throttle.succeeded("attacker@shop.example", STRANGE)
    assert tried == 6


async def test_zero_is_off(hand: HandClock) -> None:
    """Each alone may be turned off, or all of them."""
    throttle = SignInThrottle(SignInRates(0, 0, 0, 0), monotonic=hand)
    assert fail(throttle, OWNER, HOME) == 100
    throttle.succeeded(OWNER, HOME)
    assert not throttle.is_known_origin(OWNER, HOME)


async def test_who_is_known(throttle: SignInThrottle) -> None:
    """The seller at an address of the last day, however its /64 is written, and whoever brings the browser's proof."""
    throttle.succeeded(OWNER, "2001:db8:1:2::5")
    assert throttle.is_known_origin(OWNER, "2001:db8:1:2::6")
    assert not throttle.is_known_origin(OWNER, "2001:db8:1:3::5")
    assert not throttle.is_known_origin("other@shop.example", "2001:db8:1:2::5")
    assert throttle.is_known_origin("other@shop.example", STRANGE, known_browser=True)
