"""Each of a node's processes has its part of every rate limit, so that together they allow what the settings say."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from paydesk.core.clock import SystemClock
from paydesk.core.errors import UNAUTHORIZED, Refusal
from paydesk.engine.oauth.clients.authentication import ClientThrottle
from paydesk.engine.sellers.throttle import SignInThrottles
from paydesk.engine.terminals.pairing.rates import PairingRates
from paydesk.operators.deliveries.handlers import Resends
from paydesk.platform.docs.site import Site
from paydesk.platform.http.rate_limit import BearerRates
from paydesk.platform.operation import Caller
from paydesk.platform.settings import THROTTLES, UNTHROTTLED, Settings
from paydesk.platform.shared import Shared
from paydesk.platform.storage.database import Database
from paydesk.service.compose import compose
from shared_objects import KEYS

AT_ONCE, PROCESSES = 8, 4
BURSTS = {name: AT_ONCE for name in Settings.model_fields if name.endswith("_requests_burst")}
HOME, EMAIL = "198.51.100.1", "ana@shop.example"


def client_failure(shared: Shared, client: int) -> int | None:
    """A client fails to authenticate, if it may try."""
    seconds = shared.objects[ClientThrottle].refusal(client, HOME)
    if seconds is None:
        shared.objects[ClientThrottle].failed(client, HOME)
    return seconds


def sign_in_failure(shared: Shared, email: str, address: str) -> int | None:
    """A seller fails to sign in, if it may try."""
    attempt = shared.objects[SignInThrottles]["seller"].begin(email, address)
    return attempt if isinstance(attempt, int) else None


def application_request(shared: Shared, token: int) -> None:
    """A request of an application for a seller."""
    check = shared.objects[BearerRates].check_application
    assert check is not None
    check(Caller(1, 2, token_digest=bytes([token])))


def device_request(shared: Shared) -> None:
    """A request of a terminal."""
    check = shared.objects[BearerRates].check_device
    assert check is not None
    check(Caller(1, token_digest=b"d"))


def guess(shared: Shared) -> bool:
    """A request with an unknown token; return whether it is refused as one too many."""
    return shared.objects[BearerRates].failed(UNAUTHORIZED.with_reason("unknown"), "x", HOME).kind is not UNAUTHORIZED


def wrong_code(shared: Shared) -> None:
    """An operator types a wrong pairing code, if it may try."""
    shared.objects[PairingRates].check_operator("1")
    shared.objects[PairingRates].count_wrong_code("1")


def search(shared: Shared) -> None:
    """A reader searches in the documentation."""
    shared.objects[Site].count_search(HOME)


COUNTED: dict[str, Callable[[Shared, int], object]] = {
    "client_requests_per_second": lambda shared, _: shared.objects[ClientThrottle].succeeded(1, HOME),
    "client_failures_per_minute": lambda shared, _: client_failure(shared, 1),
    "client_failures_per_minute_address": client_failure,
    "token_requests_per_second": lambda shared, _: application_request(shared, 1),
    "application_requests_per_second": application_request,
    "device_requests_per_second": lambda shared, _: device_request(shared),
    "pairings_per_minute_address": lambda shared, _: shared.objects[PairingRates].count_pairing(HOME),
    "pairing_polls_per_minute_address": lambda shared, _: shared.objects[PairingRates].count_poll(HOME),
    "pairing_failures_per_minute": lambda shared, _: wrong_code(shared),
    "resends_per_minute": lambda shared, _: shared.objects[Resends].take("1"),
    "searches_per_minute_address": lambda shared, _: search(shared),
    "bearer_failures_per_minute": lambda shared, _: guess(shared),
    "sign_in_failures_per_hour": lambda shared, _: sign_in_failure(shared, EMAIL, HOME),
    "sign_in_failures_per_hour_address": lambda shared, number: sign_in_failure(shared, f"{number}@shop.example", HOME),
    "sign_in_failures_per_hour_email": lambda shared, number: sign_in_failure(shared, EMAIL, f"192.0.2.{number}"),
}
"""What each setting counts: raises, or returns something true, if it is one too many. Calls differ by their number."""


@pytest.mark.parametrize("processes", [1, PROCESSES])
async def test_each_process_has_its_part_of_every_limit(database: Database, processes: int) -> None:
    """Of eight at once each of four processes allows two."""

    def allowed(name: str) -> int:
        # One a second, so that none comes back meanwhile.
        limit = 1 if name.endswith("_per_second") else AT_ONCE
        settings = Settings(**{**UNTHROTTLED, **BURSTS, name: limit})
        shared = compose(settings, database, KEYS, SystemClock(), processes=processes).shared
        for number in range(AT_ONCE):
            try:
                if COUNTED[name](shared, number):
                    return number
            except Refusal:
                return number
        return AT_ONCE

    assert {name: allowed(name) for name in THROTTLES} == dict.fromkeys(THROTTLES, AT_ONCE // processes)
