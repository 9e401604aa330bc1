"""Access to the page of a virtual terminal, by the key in its address.

A wrong key and an unknown terminal are the same error after the same work, so that neither can be found by trying.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from paydesk.core.clock import Clock
from paydesk.core.errors import NOT_FOUND, UNAUTHORIZED
from paydesk.core.secrets import digest
from paydesk.platform.http.rate_limit import BearerRates
from paydesk.platform.operation import Call, Caller
from paydesk.platform.web.forms import BrowserRequest
from paydesk_dev.virtual import page_keys
from paydesk_dev.virtual.api import store
from paydesk_dev.virtual.api.store import Place
from paydesk_dev.virtual.fleet import Fleet
from paydesk_dev.virtual.terminal.panel import Panel


@dataclass(frozen=True, slots=True)
class Access:
    """Access to the page of one terminal of this process."""

    fleet: Fleet
    panel: Panel
    place: Place
    clock: Clock
    terminal_id: str
    key: str = field(repr=False)

    @property
    def path(self) -> str:
        """The path of the page."""
        return f"{page_keys.PATH}{self.terminal_id}"

    def address(self, below: str = "") -> str:
        """Return the path of the page, or of something below it, with the key."""
        return f"{self.path}{below}?key={self.key}"

    @property
    def script(self) -> str:
        """The script that plays the terminal."""
        return self.fleet.find(self.terminal_id).journal.script


async def check_form(call: Call, key: str) -> Access:
    """Return the access of a form's sender. Raises `forbidden` for a form of another site, and as `check_key`."""
    access = await check_key(call, key)
    BrowserRequest(call).check_origin()
    return access


async def check_key(call: Call, key: str) -> Access:
    """Return the access of the key's holder, counted as a request.

    Raises `not_found`, and `too_many_requests` for an address that tries keys, or a page that sends too much.
    """
    terminal_id, rates = call.paths[0], call.shared.objects[BearerRates]
    if not page_keys.is_valid(call.keys, terminal_id, key):
        guess = UNAUTHORIZED.with_reason("wrong key of a page")
        counted = rates.failed(guess, key or None, call.address)
        raise NOT_FOUND.with_reason("wrong key") if counted is guess else counted
    if rates.check_application is not None:
        rates.check_application(Caller(0, token_digest=digest(key)))
    place = await call.database.read(lambda tx: store.find_place(tx, terminal_id))
    fleet = call.shared.objects.get(Fleet)
    if place is None or fleet is None or terminal_id not in fleet.terminals():
        raise NOT_FOUND.with_reason("no terminal of this process")
    return Access(fleet, fleet.find(terminal_id).panel, place, call.clock, terminal_id, key)
