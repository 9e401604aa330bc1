"""The codes of a pairing, and the limits on asking for them."""

from __future__ import annotations

import asyncio
import re

import pytest

from paydesk.core.errors import TOO_MANY_REQUESTS, Refusal
from paydesk.core.limits.rates import SECOND_NS
from paydesk.core.limits.throttle_log import ThrottleLog
from paydesk.engine.terminals.pairing import handlers as pairing
from paydesk.engine.terminals.pairing import rates as pairing_rates
from paydesk.engine.terminals.pairing.codes import CONSONANTS, canonical, new_device_code, new_user_code
from paydesk.engine.terminals.pairing.rates import PairingRates


class Watch:
    """A monotonic clock that a test sets."""

    now_ns = 0

    def __call__(self) -> int:
        """Return the time in nanoseconds."""
        return self.now_ns


def rates(watch: Watch, per_minute: int = 0) -> PairingRates:
    """Return rates with one limit for everything."""
    return PairingRates(
        ThrottleLog(),
        pairings_per_minute_address=per_minute,
        polls_per_minute_address=per_minute,
        failures_per_minute=per_minute,
        monotonic=watch,
    )


def test_codes_are_random_and_of_their_form() -> None:
    """160 bits for the device; eight consonants for a person."""
    assert re.fullmatch("[0-9a-f]{40}", new_device_code())
    assert len({new_device_code() for _ in range(100)}) == 100
    codes = {new_user_code() for _ in range(1000)}
    assert len(codes) == 1000
    assert all(re.fullmatch(f"[{CONSONANTS}]{{4}}-[{CONSONANTS}]{{4}}", code) for code in codes)
    assert set("".join(codes)) == set(CONSONANTS) | {"-"}


@pytest.mark.parametrize("typed", ["BCDF-GHJK", "bcdfghjk", "bcdf ghjk", " BCDF -  ghjk ", "b-c-d-f-g-h-j-k"])
def test_user_code_is_read_however_it_is_typed(typed: str) -> None:
    """In any case, with any blanks and hyphens."""
    assert canonical(typed) == "BCDF-GHJK"


@pytest.mark.parametrize("typed", ["", "BCDF-GHJ", "BCDF-GHJKL", "ABCD-FGHJ", "BCDF_GHJK", "ßCDFGHJK", "BCDF-GHJK\0"])
def test_other_text_is_no_user_code(typed: str) -> None:
    """Vowels, other signs, and too few or too many letters."""
    assert canonical(typed) is None


def test_polls_that_come_too_early_get_a_longer_interval() -> None:
    """Five seconds longer each time, up to a minute; polls at the interval are accepted, also with some jitter."""
    watch = Watch()
    limits = rates(watch)
    assert not limits.is_too_fast(b"a")
    watch.now_ns += 26 * SECOND_NS // 10
    assert not limits.is_too_fast(b"a")
    watch.now_ns += SECOND_NS
    assert limits.is_too_fast(b"a")
    watch.now_ns += 7 * SECOND_NS
    assert limits.is_too_fast(b"a")
    watch.now_ns += 13 * SECOND_NS
    assert not limits.is_too_fast(b"a")
    for _ in range(20):
        limits.is_too_fast(b"a")
    watch.now_ns += pairing_rates.INTERVAL_SECONDS_MAX * SECOND_NS
    assert not limits.is_too_fast(b"a")
    assert not limits.is_too_fast(b"b")


def test_table_of_polls_is_bounded() -> None:
    """The oldest entries are dropped."""
    limits = rates(Watch())
    for number in range(pairing_rates.ENTRIES_MAX + 100):
        limits.is_too_fast(number.to_bytes(4, "big"))
    assert len(limits._due) == pairing_rates.ENTRIES_MAX


async def test_wrong_codes_are_counted_per_operator() -> None:
    """Five at once, then one each 12 s; another operator is not affected."""
    watch = Watch()
    limits = rates(watch, 5)
    for _ in range(5):
        limits.check_operator("ana")
        limits.count_wrong_code("ana")
    with pytest.raises(Refusal) as refused:
        limits.check_operator("ana")
    assert refused.value.kind is TOO_MANY_REQUESTS
    assert dict(refused.value.headers) == {"retry-after": "12"}
    limits.check_operator("bea")
    watch.now_ns += 12 * SECOND_NS
    limits.check_operator("ana")
    await asyncio.sleep(0)


async def test_addresses_of_one_network_share_a_limit() -> None:
    """A /64 of IPv6 is one subscriber."""
    limits = rates(Watch(), 2)
    for address in ("2001:db8::1", "2001:db8::2"):
        limits.count_pairing(address)
    with pytest.raises(Refusal):
        limits.count_pairing("2001:db8::3")
    limits.count_pairing("2001:db8:0:1::1")
    limits.count_poll("2001:db8::3")


def test_verification_uri_is_the_configured_page() -> None:
    """`pairing_url`, else the console, else none."""
    assert pairing.verification_uri("https://a.example/pair", "https://b.example") == "https://a.example/pair"
    assert pairing.verification_uri(None, "https://b.example") == "https://b.example/console/pair"
    assert pairing.verification_uri(None, None) is None
