"""The shared objects of a service under test, as `compose` makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack

from paydesk.core.clock import Clock, SystemClock
from paydesk.core.keys import Keys
from paydesk.engine.device.gateway import Gateway
from paydesk.engine.oauth.clients.authentication import AuthenticationCache, ClientThrottle
from paydesk.engine.orders.routing import Routing
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.platform.health.readiness import Readiness
from paydesk.platform.http.rate_limit import BearerRates
from paydesk.platform.settings import UNTHROTTLED, Settings
from paydesk.platform.shared import Shared
from paydesk.platform.storage.database import Database
from paydesk.platform.web.event_streams import EventStreams
from paydesk.service.compose import Composition, Parts, compose

if TYPE_CHECKING:
    from paydesk_dev.console_key import ConsoleKey
    from paydesk_dev.credentials_file import KeptCredentials
    from paydesk_dev.virtual.fleet import Fleet

KEYS = Keys(1, {1: b"k" * 32})


class Chosen(TypedDict, total=False):
    """The objects that a test chooses itself."""

    wall: Clock
    bearer_rates: BearerRates
    client_throttle: ClientThrottle
    authentication_cache: AuthenticationCache
    gateway: Gateway
    acquirers: Acquirers
    routing: Routing
    readiness: Readiness
    fleet: Fleet
    credentials: KeptCredentials
    streams: EventStreams
    console_key: ConsoleKey


def make_shared(
    database: Database, settings: Settings | None = None, clock: Clock | None = None, **chosen: Unpack[Chosen]
) -> Shared:
    """Return the shared objects of a service that throttles only what `settings` says itself."""
    return composed(database, settings, clock, **chosen).shared


def composed(
    database: Database,
    settings: Settings | None = None,
    clock: Clock | None = None,
    *,
    keys: Keys = KEYS,
    development: bool = False,
    **chosen: Unpack[Chosen],
) -> Composition:
    """Return a service that throttles only what `settings` says itself, and sends webhooks to this machine."""
    settings = settings or Settings()
    off_by_default = {**UNTHROTTLED, "log_each_refusal": True}
    unset = {name: off for name, off in off_by_default.items() if name not in settings.model_fields_set}
    settings = settings.model_copy(update=unset)
    wall = chosen.pop("wall", None)
    if development:
        from paydesk_dev.parts import parts as parts_of_the_kit

        fleet = chosen.pop("fleet", None)
        parts = parts_of_the_kit(settings, keys, *chosen.values(), fleet=fleet, wall=wall)
    else:
        parts = Parts(objects=tuple(chosen.values()), loopback_allowed=True, wall=wall)
    return compose(settings, database, keys, clock or SystemClock(), parts)
