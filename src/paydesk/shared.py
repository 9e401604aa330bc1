"""The objects that the endpoints and handlers of a process share. `app.create_shared` creates them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paydesk.core.recent import Recent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paydesk.core.clock import Clock
    from paydesk.core.keys import Keys
    from paydesk.core.rates import Buckets
    from paydesk.device.authorizations import Authorizations
    from paydesk.device.gateway import Gateway
    from paydesk.events.readers import Readers
    from paydesk.health.readiness import Readiness
    from paydesk.http.in_process import InProcess
    from paydesk.http.large_bodies import LargeBodies
    from paydesk.http.rate_limit import BearerRates
    from paydesk.http.request_recorder import RequestRecorder
    from paydesk.oauth.bearer import Bearers
    from paydesk.oauth.clients.authentication import AuthenticationCache, ClientThrottle
    from paydesk.oauth.consent.throttle import SignInThrottle
    from paydesk.operator_events import Reporter
    from paydesk.operators.console_key import ConsoleKey
    from paydesk.operators.credentials import OperatorBearers
    from paydesk.orders.status_labels import Labels
    from paydesk.payments.acquirer import Acquirers
    from paydesk.sandbox.dev_credentials import CredentialsFile
    from paydesk.sandbox.resets import Resets
    from paydesk.sandbox.terminals.fleet import Fleet
    from paydesk.settings import Settings
    from paydesk.storage.database import Database
    from paydesk.terminals.bearer import DeviceBearers
    from paydesk.terminals.pairing_rates import PairingRates
    from paydesk.web.event_streams import EventStreams
    from paydesk.web.hints import Hints


@dataclass(frozen=True, slots=True)
class Shared:
    """The shared objects of one listener of a process."""

    settings: Settings
    database: Database
    """Refuses units of work above `requests_max`."""
    keys: Keys
    clock: Clock
    wall: Clock
    """The machine's clock, which leases follow: `clock` may be moved in development."""
    host_names: frozenset[str]
    """The accepted values of `Host`."""
    labels: Labels
    """The status labels that the setting `order_statuses` chooses."""
    development: bool
    """Whether this is `paydesk dev`: it has the development operations, and URLs may lead to this machine."""
    bearers: Bearers
    device_bearers: DeviceBearers
    operator_bearers: OperatorBearers
    bearer_rates: BearerRates
    client_throttle: ClientThrottle
    sign_in_throttles: Mapping[str, SignInThrottle]
    """By the noun of the accounts: `seller` or `operator`."""
    authentication_cache: AuthenticationCache
    pairing_rates: PairingRates
    resends: Buckets[str]
    """How many notifications each operator may send again."""
    gateway: Gateway
    authorizations: Authorizations
    large_bodies: LargeBodies
    """Of all operations."""
    event_readers: Readers
    acquirers: Acquirers
    readiness: Readiness
    reporter: Reporter
    streams: EventStreams
    """The streams of the pages that are open."""
    hints: Hints
    """The open streams of the console."""
    in_process: InProcess
    """Sends requests to the application of this listener."""
    recorder: RequestRecorder
    """The requests that wait to be recorded."""
    resets: Resets
    """The orders that resets of `paydesk dev` removed while work on them was under way."""
    fleet: Fleet | None = None
    """The virtual terminals of `paydesk dev`."""
    console_key: ConsoleKey | None = None
    """The key to the console that `paydesk dev` prints."""
    credentials: CredentialsFile | None = None
    """The credentials file of `paydesk dev`."""
    https_host_names: frozenset[str] = frozenset()
    """Further values of `Host` that are accepted only on the TLS listener of `paydesk dev`."""
    figures: Recent = field(default_factory=Recent)
    """The figures of days, kept for up to 20 s."""
    exporting: set[str] = field(default_factory=set)
    """The operators whose export is under way."""
