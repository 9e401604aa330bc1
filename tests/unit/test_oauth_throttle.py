"""Failed sign-ins: limited by e-mail and address, with separate limits for known browsers and addresses."""

from __future__ import annotations

import pytest

from hand_clock import HandClock
from paydesk.engine.sellers.throttle import Attempt, SignInRates, SignInThrottle

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


def begun(throttle: SignInThrottle, email: str, address: str, *, known_browser: bool = False) -> Attempt:
    """Begin a sign-in that must not be refused."""
    attempt = throttle.begin(email, address, known_browser=known_browser)
    assert isinstance(attempt, Attempt)
    return attempt


def refusal(throttle: SignInThrottle, email: str, address: str, *, known_browser: bool = False) -> int | None:
    """Return the seconds until a sign-in may be tried, or None if it may now; it is not tried."""
    attempt = throttle.begin(email, address, known_browser=known_browser)
    if isinstance(attempt, int):
        return attempt
    attempt.withdraw()
    return None


def succeed(throttle: SignInThrottle, email: str, address: str, *, known_browser: bool = False) -> None:
    """Sign in."""
    throttle.succeeded(begun(throttle, email, address, known_browser=known_browser))


def fail(throttle: SignInThrottle, email: str, address: str, *, known_browser: bool = False) -> int:
    """Fail until refused; how often that was possible."""
    for count in range(100):
        attempt = throttle.begin(email, address, known_browser=known_browser)
        if isinstance(attempt, int):
            return count
        throttle.failed(attempt)
    return 100


async def test_a_pair_is_refused_after_its_failures(throttle: SignInThrottle, hand: HandClock) -> None:
    """However the address is written; other addresses and e-mails are not affected; one more after 20 minutes."""
    assert fail(throttle, OWNER, HOME) == 3
    assert refusal(throttle, OWNER.upper() + " ", HOME) == 1200
    assert refusal(throttle, OWNER, STRANGE) is None
    assert refusal(throttle, "other@shop.example", HOME) is None
    hand.advance(1200)
    assert fail(throttle, OWNER, HOME) == 1


async def test_an_address_is_refused_over_all_emails(throttle: SignInThrottle) -> None:
    """Six failures from one address, over all e-mails; other addresses are not affected."""
    tried = sum(fail(throttle, f"guess-{number}@shop.example", STRANGE) for number in range(10))
    assert tried == 6
    assert refusal(throttle, OWNER, STRANGE) is not None
    assert refusal(throttle, OWNER, HOME) is None


async def test_an_email_is_refused_at_all_unknown_addresses(throttle: SignInThrottle) -> None:
    """Nine failures with one e-mail, over all addresses unknown for it."""
    assert sum(fail(throttle, OWNER, f"203.0.113.{number}") for number in range(100)) == 9
    assert refusal(throttle, OWNER, "192.0.2.1") is not None


async def test_failures_from_elsewhere_lock_out_no_seller(throttle: SignInThrottle, hand: HandClock) -> None:
    """A seller at an address of the last 24 hours, or in a known browser, is not affected."""
    succeed(throttle, OWNER, HOME)
    for number in range(100):
        fail(throttle, OWNER, f"203.0.113.{number}")
    assert refusal(throttle, OWNER, "192.0.2.1") is not None
    assert refusal(throttle, OWNER, HOME) is None
    assert refusal(throttle, OWNER, "192.0.2.1", known_browser=True) is None
    hand.advance(24 * 3600 - 1)
    for number in range(100):
        fail(throttle, OWNER, f"203.0.113.{number}")
    assert refusal(throttle, OWNER, HOME) is None
    hand.advance(3601)
    for number in range(100):
        fail(throttle, OWNER, f"203.0.113.{number}")
    assert refusal(throttle, OWNER, HOME) is not None


async def test_failures_from_the_same_address_lock_out_no_known_browser(throttle: SignInThrottle) -> None:
    """Neighbours share the address, not the browser."""
    succeed(throttle, OWNER, HOME)
    assert fail(throttle, OWNER, HOME) == 3
    fail(throttle, "guess-1@shop.example", HOME)
    fail(throttle, "guess-2@shop.example", HOME)
    assert refusal(throttle, "new@shop.example", HOME) is not None
    assert refusal(throttle, OWNER, HOME, known_browser=True) is None


async def test_a_known_browser_is_limited(throttle: SignInThrottle) -> None:
    """It has its own limit; beyond that, those of unknown browsers apply."""
    for _ in range(3):
        throttle.failed(begun(throttle, OWNER, STRANGE, known_browser=True))
    assert fail(throttle, OWNER, STRANGE) == 3
    assert refusal(throttle, OWNER, STRANGE, known_browser=True) is not None
    for number in range(100):
        fail(throttle, OWNER, f"203.0.113.{number}", known_browser=True)
    assert refusal(throttle, OWNER, "192.0.2.1", known_browser=True) is not None


async def test_an_earlier_known_browser_does_not_lock_out_the_seller(throttle: SignInThrottle) -> None:
    """Its failures, from any address, leave the seller the address of the last sign-in."""
    succeed(throttle, OWNER, HOME)
    for number in range(100):
        fail(throttle, OWNER, f"203.0.113.{number}", known_browser=True)
    assert refusal(throttle, OWNER, HOME, known_browser=True) is None
    assert fail(throttle, OWNER, HOME, known_browser=True) == 3


async def test_a_success_resets_the_failures(throttle: SignInThrottle) -> None:
    """Two failures, a success: three more failures are allowed. Failures of others stay counted."""
    for known_browser in (False, True):
        for _ in range(2):
            throttle.failed(begun(throttle, OWNER, HOME, known_browser=known_browser))
    right = begun(throttle, OWNER, HOME)
    succeed(throttle, OWNER, HOME, known_browser=True)
    assert fail(throttle, OWNER, HOME) == 0
    assert fail(throttle, OWNER, HOME, known_browser=True) == 3
    throttle.succeeded(right)
    assert fail(throttle, OWNER, HOME) == 3
    assert refusal(throttle, OWNER, HOME, known_browser=True) is not None
    assert fail(throttle, OWNER, STRANGE, known_browser=True) == 3


async def test_own_sign_ins_allow_no_more_guesses_at_others(throttle: SignInThrottle) -> None:
    """An attacker with an own account gets no further attempts at others from the address."""
    tried = 0
    for number in range(20):
        tried += fail(throttle, f"guess-{number}@shop.example", STRANGE)
        succeed(throttle, "attacker@shop.example", STRANGE)
    assert tried == 6


async def test_zero_is_off(hand: HandClock) -> None:
    """Each limit can be switched off, or all of them."""
    throttle = SignInThrottle(SignInRates(0, 0, 0, 0), monotonic=hand)
    assert fail(throttle, OWNER, HOME) == 100
    succeed(throttle, OWNER, HOME)
    assert not begun(throttle, OWNER, HOME).is_known_origin


async def test_known_origins(throttle: SignInThrottle) -> None:
    """An address of the last day, however its /64 is written, and a browser with its signed cookie."""
    succeed(throttle, OWNER, "2001:db8:1:2::5")
    assert begun(throttle, OWNER, "2001:db8:1:2::6").is_known_origin
    assert not begun(throttle, OWNER, "2001:db8:1:3::5").is_known_origin
    assert not begun(throttle, "other@shop.example", "2001:db8:1:2::5").is_known_origin
    assert begun(throttle, "other@shop.example", STRANGE, known_browser=True).is_known_origin


async def test_attempts_at_the_same_time_count_before_their_passwords_are_compared(throttle: SignInThrottle) -> None:
    """Three are under way: a fourth is refused. One that was not compared, or was right, gives its place back."""
    first, second, _ = (begun(throttle, OWNER, HOME) for _ in range(3))
    assert refusal(throttle, OWNER, HOME) == 1200
    with pytest.raises(TimeoutError), first:
        raise TimeoutError
    assert fail(throttle, OWNER, HOME) == 1
    throttle.succeeded(second)
    assert fail(throttle, OWNER, HOME) == 3


async def test_a_success_gives_back_only_what_it_took(throttle: SignInThrottle) -> None:
    """Sign-ins at a new address leave the limits of the address and the e-mail address as they were."""
    for number in range(20):
        succeed(throttle, f"seller-{number}@shop.example", STRANGE)
        succeed(throttle, OWNER, f"203.0.113.{number}")
    assert sum(fail(throttle, f"guess-{number}@shop.example", STRANGE) for number in range(10)) == 6
    assert sum(fail(throttle, OWNER, f"198.51.100.{number}") for number in range(100)) == 9
