"""Rate limits of requests per token, per application and seller, and of failed authentications per address."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

from paydesk.core import runtime
from paydesk.core.errors import TOO_MANY_REQUESTS, UNAUTHORIZED, Refusal
from paydesk.core.limits.rates import Buckets, Monotonic, network
from paydesk.core.limits.throttle_log import ThrottleLog
from paydesk.core.secrets import digest
from paydesk.platform.http.request_metrics import TOKEN_REFUSALS
from paydesk.platform.operation import Caller
from paydesk.platform.settings import Settings

MINUTE_SECONDS = 60
RETRY_AFTER_SECONDS_MAX = 5
"""Official clients sleep for the whole `Retry-After`, three times."""

CheckRate = Callable[[Caller], None]


class Shared(TypedDict):
    """The arguments that all buckets of a process share."""

    processes: int
    monotonic: Monotonic


class BearerRates:
    """The rate limits of one of a node's `processes`; 0 turns one off.

    `check_application` and `check_device` count a token's request and raise `too_many_requests`; None if they are off.
    """

    def __init__(
        self, settings: Settings, log: ThrottleLog, processes: int = 1, monotonic: Monotonic = runtime.monotonic_ns
    ) -> None:
        self._log = log
        shared: Shared = {"processes": processes, "monotonic": monotonic}
        per_second, burst = settings.token_requests_per_second, settings.token_requests_burst
        self._requests: Buckets[bytes] = Buckets(per_second, burst=burst, **shared)
        all_per_second, burst = settings.application_requests_per_second, settings.application_requests_burst
        self._all_requests: Buckets[tuple[int, int]] = Buckets(all_per_second, burst=burst, **shared)
        device_per_second, burst = settings.device_requests_per_second, settings.device_requests_burst
        self._device_requests: Buckets[bytes] = Buckets(device_per_second, burst=burst, **shared)
        self._failures: Buckets[tuple[str, bytes]] = Buckets(
            settings.bearer_failures_per_minute, MINUTE_SECONDS, **shared
        )
        self.check_application: CheckRate | None = self._check if per_second or all_per_second else None
        self.check_device: CheckRate | None = self._check_device if device_per_second else None

    def _check(self, caller: Caller) -> None:
        seconds = self._requests.take(caller.token_digest)
        if seconds:
            self._log.note("token_requests")
            raise too_many("token calls too often", seconds)
        if caller.application_id and (seconds := self._all_requests.take((caller.application_id, caller.seller_id))):
            self._requests.put_back(caller.token_digest)
            facts = {"application_id": str(caller.application_id), "seller_id": str(caller.seller_id)}
            self._log.note("application_requests", **facts)
            raise too_many("application calls too often for the seller", seconds)

    def _check_device(self, caller: Caller) -> None:
        seconds = self._device_requests.take(caller.token_digest)
        if seconds:
            self._log.note("device_requests", terminal_id=caller.terminal_id)
            raise too_many("device token calls too often", seconds)

    def failed(self, refusal: Refusal, token: str | None, address: str) -> Refusal:
        """Count a failed authentication; return its refusal, or `too_many_requests` over the limit of the address.

        Guesses of an address are counted together. A token that was valid once is counted by itself, so that its client
        learns that it has expired regardless of other clients at the address.
        """
        source, facts = network(address), refusal.facts
        key = source, digest(token) if token and refusal.credential_was_valid else b""
        if refusal.kind is UNAUTHORIZED and (seconds := self._failures.take(key)):
            self._log.note("bearer_failures", address=source)
            refusal = too_many("address fails too often", seconds)
            refusal.facts = facts
        TOKEN_REFUSALS.add(refusal.kind.code)
        return refusal


def too_many(reason: str, seconds: int) -> Refusal:
    """Return `too_many_requests` with `Retry-After`."""
    return TOO_MANY_REQUESTS.with_reason(reason, headers=(("retry-after", str(min(seconds, RETRY_AFTER_SECONDS_MAX))),))
