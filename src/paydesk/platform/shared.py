"""The objects that the endpoints and handlers of a process share. `compose` makes them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from paydesk.core.clock import Clock
from paydesk.core.keys import Keys
from paydesk.core.objects import Objects
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database


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
    development: bool
    """Whether this is `paydesk dev`: operations for development are served, and URLs may lead to this machine."""
    objects: Objects
    """The objects of the packages above, such as bearers, throttles, the gateway; those of `paydesk dev`, too."""
    https_host_names: frozenset[str] = frozenset()
    """Further values of `Host` that are accepted only on the TLS listener of `paydesk dev`."""

    def including(self, *objects: object) -> Shared:
        """Return the same with these objects, which replace those of the same types."""
        return replace(self, objects=self.objects.including(*objects))
