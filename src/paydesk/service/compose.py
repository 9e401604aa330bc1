"""Put a service together: its objects, its application and its workers.

`serve`, `dev`, the conformance kit, the benchmarks and the tests all do it here; what each adds is its `Parts`.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from paydesk.core.clock import Clock, SystemClock
from paydesk.core.keys import Keys
from paydesk.core.limits.throttle_log import ThrottleLog
from paydesk.core.objects import Objects
from paydesk.core.signals import Signals
from paydesk.engine.device.authorization.calls import Authorizations
from paydesk.engine.device.gateway import Gateway
from paydesk.engine.events.readers import Readers
from paydesk.engine.oauth.bearer import Bearers
from paydesk.engine.oauth.clients.authentication import AuthenticationCache, ClientRates, ClientThrottle
from paydesk.engine.orders.openapi import WEBHOOKS
from paydesk.engine.orders.status_labels import labels_of
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.refunds.attempts import RefundCalls
from paydesk.engine.payments.simulator.faults import FaultSource
from paydesk.engine.payments.simulator.removals import Removals
from paydesk.engine.sellers.throttle import SignInRates, SignInThrottle, SignInThrottles
from paydesk.engine.terminals.bearer import DeviceBearers
from paydesk.engine.terminals.pairing.rates import PairingRates
from paydesk.engine.terminals.presence import OrderLabels
from paydesk.operators.accounts.credentials import OperatorBearers
from paydesk.operators.deliveries.handlers import Resends
from paydesk.operators.orders.export.handlers import Exporting
from paydesk.operators.overview.figures import RecentFigures
from paydesk.platform.docs.site import AtHand, Site
from paydesk.platform.health.readiness import Readiness
from paydesk.platform.http.asgi import ASGIApp
from paydesk.platform.http.in_process import InProcess
from paydesk.platform.http.large_bodies import LargeBodies
from paydesk.platform.http.rate_limit import BearerRates
from paydesk.platform.http.recording.recorder import RequestRecorder
from paydesk.platform.http.refusals.repeated import RepeatedRefusals
from paydesk.platform.http.request import host_name
from paydesk.platform.metrics.database import DatabaseMetrics
from paydesk.platform.metrics.token import ScrapeToken
from paydesk.platform.operation import Surface
from paydesk.platform.operator_events import Reporter
from paydesk.platform.process.node import StartRefused
from paydesk.platform.process.siblings import Siblings
from paydesk.platform.settings import Settings
from paydesk.platform.shared import Shared
from paydesk.platform.storage.bounded import BoundedDatabase
from paydesk.platform.storage.database import Database
from paydesk.platform.web.event_streams import EventStreams
from paydesk.platform.web.hints import Hints
from paydesk.platform.worker import WorkerContext
from paydesk.service.acquirers import acquirers_of
from paydesk.service.api import OWN, Api
from paydesk.service.app import EVERY_SURFACE, Wire, build_app
from paydesk.service.callers import callers
from paydesk.service.readings import READINGS

MINUTE_SECONDS = 60
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
ONE_PER_PROCESS = (Acquirers, DatabaseMetrics, LargeBodies, Readiness, Reporter, RequestRecorder, Siblings)
"""What the listeners of a process share; of everything else each listener has its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What is added to the service; `paydesk serve` adds nothing."""

    api: Api = OWN
    objects: tuple[object, ...] = ()
    """Further objects, or others in place of those of the same type."""
    wire: Wire | None = None
    """What requests pass before the application, and responses after it."""
    development: bool = False
    """Whether this is `paydesk dev`."""
    loopback_allowed: bool = False
    """Whether webhooks may be sent to this machine."""
    https_host_names: frozenset[str] = frozenset()
    """Further values of `Host` that are accepted only on a TLS listener."""
    wall: Clock | None = None
    """The clock that leases follow; by default the machine's."""


NO_PARTS = Parts()


@dataclass(frozen=True, slots=True)
class Composition:
    """A service that is put together, with one listener."""

    shared: Shared
    context: WorkerContext
    """What the workers of the process get."""
    parts: Parts

    def app(self, surfaces: Collection[Surface] = EVERY_SURFACE) -> ASGIApp:
        """Return the application of these surfaces."""
        return build_app(self.shared, self.parts.api, surfaces, self.parts.wire)


def compose(
    settings: Settings, database: Database, keys: Keys, clock: Clock, parts: Parts = NO_PARTS, *, processes: int = 1
) -> Composition:
    """Put a service with one listener together. Raises `StartRefused` for invalid acquirers or simulator scripts.

    Each of the node's `processes` has an equal part of the rate limits.
    """
    if settings.faults and not parts.development:
        raise StartRefused("faults: only `paydesk dev` has faults. Unset PAYDESK_FAULTS.")
    labels, bounded = labels_of(settings), BoundedDatabase(database, settings.requests_max)
    # With a limit of its own: what needs a person is recorded even while requests take all units of work.
    reporter, removals = Reporter(BoundedDatabase(database, settings.requests_max)), Removals()
    source = next((one for one in parts.objects if isinstance(one, FaultSource)), None)
    acquirers = next((one for one in parts.objects if isinstance(one, Acquirers)), None) or acquirers_of(
        settings, database, clock, removals, reporter, source
    )
    cache_seconds, throttle_log = settings.bearer_cache_seconds, ThrottleLog()
    applications, terminals = Bearers(bounded, cache_seconds), DeviceBearers(bounded, cache_seconds)
    sign_in_throttle = partial(SignInThrottle, _sign_in_rates(settings, processes), database.signals, throttle_log)
    objects = Objects(
        labels,
        OrderLabels(labels.of_status),
        applications,
        terminals,
        callers(
            applications,
            terminals,
            OperatorBearers(bounded, settings.session_idle_minutes * 60_000),
            ScrapeToken(settings.metrics_token, development=parts.development),
        ),
        BearerRates(settings, throttle_log, processes),
        _client_throttle(settings, database.signals, throttle_log, processes),
        SignInThrottles((noun, sign_in_throttle(accounts=noun)) for noun in ("seller", "operator")),
        AuthenticationCache(database.signals, cache_seconds),
        _pairing_rates(settings, throttle_log, processes),
        Resends(settings.resends_per_minute, MINUTE_SECONDS, processes=processes),
        Gateway(database.signals),
        Authorizations(),
        LargeBodies(),
        Readers(database.signals),
        acquirers,
        acquirers.routing,
        RefundCalls(),
        Readiness(database, keys, clock),
        DatabaseMetrics(database, clock, settings, READINGS),
        reporter,
        EventStreams(database.signals),
        Hints(database.signals),
        InProcess(),
        RequestRecorder(development=parts.development),
        RecentFigures(),
        Exporting(),
        removals,
        Siblings(),
        Site(WEBHOOKS, settings, next((one for one in parts.objects if isinstance(one, AtHand)), None), processes),
        # A developer sees each refusal.
        *(() if parts.development or settings.log_each_refusal else (RepeatedRefusals(),)),
        *parts.objects,
    )
    shared = Shared(
        settings=settings,
        database=bounded,
        keys=keys,
        clock=clock,
        wall=parts.wall or SystemClock(),
        host_names=_host_names(settings, loopback=parts.development or settings.public_url is None),
        development=parts.development,
        objects=objects,
        https_host_names=parts.https_host_names,
    )
    context = WorkerContext(
        database,
        settings,
        clock,
        keys,
        loopback_allowed=parts.loopback_allowed,
        development=parts.development,
        objects=objects,
    )
    return Composition(shared, context, parts)


def _client_throttle(settings: Settings, signals: Signals, log: ThrottleLog, processes: int) -> ClientThrottle:
    rates = ClientRates(
        pair_per_minute=settings.client_failures_per_minute,
        address_per_minute=settings.client_failures_per_minute_address,
        requests_per_second=settings.client_requests_per_second,
        requests_burst=settings.client_requests_burst,
        known_hours=settings.known_address_hours,
        processes=processes,
    )
    return ClientThrottle(rates, signals, log)


def _pairing_rates(settings: Settings, log: ThrottleLog, processes: int) -> PairingRates:
    return PairingRates(
        log,
        pairings_per_minute_address=settings.pairings_per_minute_address,
        polls_per_minute_address=settings.pairing_polls_per_minute_address,
        failures_per_minute=settings.pairing_failures_per_minute,
        processes=processes,
    )


def _sign_in_rates(settings: Settings, processes: int) -> SignInRates:
    return SignInRates(
        pair_per_hour=settings.sign_in_failures_per_hour,
        address_per_hour=settings.sign_in_failures_per_hour_address,
        email_per_hour=settings.sign_in_failures_per_hour_email,
        known_hours=settings.known_address_hours,
        processes=processes,
    )


def _host_names(settings: Settings, *, loopback: bool) -> frozenset[str]:
    names = [host_name(name) for name in settings.host_names]
    if settings.public_url is not None:
        names.append(host_name(urllib.parse.urlsplit(settings.public_url).netloc))
    return frozenset((*names, *LOOPBACK_NAMES) if loopback else names)
