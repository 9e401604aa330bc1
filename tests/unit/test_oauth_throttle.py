"""Failed sign-ins: limited by e-mail and address, with separate limits for known browsers and addresses."""

from __future__ import annotations

import pytest

from hand_clock import HandClock
from paydesk.oauth.consent.throttle import SignInRates, SignInThrottle

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
    """However the address is written; other addresses and e-mails are not affected; one more after 20 minutes."""
    assert fail(throttle, OWNER, HOME) == 3
    assert throttle.refusal(OWNER.upper() + " ", HOME) == 1200
    assert throttle.refusal(OWNER, STRANGE) is None
    assert throttle.refusal("other@shop.example", HOME) is None
    hand.advance(1200)
    assert fail(throttle, OWNER, HOME) == 1


async def test_an_address_is_refused_over_all_emails(throttle: SignInThrottle) -> None:
    """Six failures from one address, over all e-mails; other addresses are not affected."""
    tried = sum(fail(throttle, f"guess-{number}@shop.example", STRANGE) for number in range(10))
    assert tried == 6
    assert throttle.refusal(OWNER, STRANGE) is not None
    assert throttle.refusal(OWNER, HOME) is None


async def test_an_email_is_refused_at_all_unknown_addresses(throttle: SignInThrottle) -> None:
    """Nine failures with one e-mail, over all addresses unknown for it."""
    assert sum(fail(throttle, OWNER, f"203.0.113.{number}") for number in range(100)) == 9
    assert throttle.refusal(OWNER, "192.0.2.1") is not None


async def test_failures_from_elsewhere_lock_out_no_seller(throttle: SignInThrottle, hand: HandClock) -> None:
    """A seller at an address of the last 24 hours, or in a known browser, is not affected."""
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


async def test_failures_from_the_same_address_lock_out_no_known_browser(throttle: SignInThrottle) -> None:
    """Neighbours share the address, not the browser."""
    throttle.succeeded(OWNER, HOME)
    assert fail(throttle, OWNER, HOME) == 3
    fail(throttle, "guess-1@shop.example", HOME)
    fail(throttle, "guess-2@shop.example", HOME)
    assert throttle.refusal("new@shop.example", HOME) is not None
    assert throttle.refusal(OWNER, HOME, known_browser=True) is None


async def test_a_known_browser_is_limited(throttle: SignInThrottle) -> None:
    """It has its own limit; beyond that, those of unknown browsers apply."""
    for _ in range(3):
        assert throttle.refusal(OWNER, STRANGE, known_browser=True) is None
        throttle.failed(OWNER, STRANGE, known_browser=True)
    assert fail(throttle, OWNER, STRANGE) == 3
    assert throttle.refusal(OWNER, STRANGE, known_browser=True) is not None
    for number in range(100):
        fail(throttle, OWNER, f"203.0.113.{number}", known_browser=True)
    assert throttle.refusal(OWNER, "192.0.2.1", known_browser=True) is not None


async def test_an_earlier_known_browser_does_not_lock_out_the_seller(throttle: SignInThrottle) -> None:
    """Its failures, from any address, leave the seller the address of the last sign-in."""
    throttle.succeeded(OWNER, HOME)
    for number in range(100):
        fail(throttle, OWNER, f"203.0.113.{number}", known_browser=True)
    assert throttle.refusal(OWNER, HOME, known_browser=True) is None
    assert fail(throttle, OWNER, HOME, known_browser=True) == 3


async def test_a_success_resets_the_failures(throttle: SignInThrottle) -> None:
    """Two failures, a success: three more failures are allowed. Failures of others stay counted."""
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


async def test_own_sign_ins_allow_no_more_guesses_at_others(throttle: SignInThrottle) -> None:
    """An attacker with an own account gets no further attempts at others from the address."""
    tried = 0
    for number in range(20):
        tried += fail(throttle, f"guess-{number}@shop.example", STRANGE)
        throttle.succeeded("attacker@shop.example", STRANGE)
    assert tried == 6


async def test_zero_is_off(hand: HandClock) -> None:
    """Each limit can be switched off, or all of them."""
    throttle = SignInThrottle(SignInRates(0, 0, 0, 0), monotonic=hand)
    assert fail(throttle, OWNER, HOME) == 100
    throttle.succeeded(OWNER, HOME)
    assert not throttle.is_known_origin(OWNER, HOME)


async def test_known_origins(throttle: SignInThrottle) -> None:
    """An address of the last day, however its /64 is written, and a browser with its signed cookie."""
    throttle.succeeded(OWNER, "2001:db8:1:2::5")
    assert throttle.is_known_origin(OWNER, "2001:db8:1:2::6")
    assert not throttle.is_known_origin(OWNER, "2001:db8:1:3::5")
    assert not throttle.is_known_origin("other@shop.example", "2001:db8:1:2::5")
    assert throttle.is_known_origin("other@shop.example", STRANGE, known_browser=True)
