"""The parts that `paydesk dev` adds to the service."""

from __future__ import annotations

from functools import partial

from paydesk.console.request import Additions
from paydesk.core.clock import Clock
from paydesk.core.keys import Keys
from paydesk.operators.terminals.virtual import VirtualTerminals
from paydesk.platform.settings import Settings
from paydesk.service.compose import Parts
from paydesk_dev.api import API
from paydesk_dev.console import terminals
from paydesk_dev.credentials_file import KeptCredentials
from paydesk_dev.faults import firings, subscriptions
from paydesk_dev.faults.acquirer import AcquirerFaults
from paydesk_dev.faults.active import Faults
from paydesk_dev.faults.held_answers import HeldAnswers
from paydesk_dev.faults.requests import Requests
from paydesk_dev.faults.webhooks import Webhooks
from paydesk_dev.resending import from_docs
from paydesk_dev.resending import page as resending
from paydesk_dev.virtual.fleet import Fleet
from paydesk_dev.virtual.page_keys import page_url
from paydesk_dev.virtual.scripts import playlists
from paydesk_dev.wire.wire import Wire

_ADDITIONS = Additions(
    {**subscriptions.ADDITIONS, **firings.ADDITIONS, **resending.ADDITIONS, **terminals.ADDITIONS},
    ((terminals.SECTION, "Development", terminals.PATH, "flask"),),
)


def parts(
    settings: Settings,
    keys: Keys,
    *objects: object,
    fleet: Fleet | None = None,
    https_host_names: frozenset[str] = frozenset(),
    wall: Clock | None = None,
) -> Parts:
    """Return the parts of a service whose virtual terminals are those of the `fleet`, with further objects."""
    requests = Requests(API.operations)
    faults = Faults(settings.faults, requests.checked)
    if fleet is not None:
        fleet.faults = faults
        virtual_terminals = VirtualTerminals(
            is_running=lambda terminal_id: terminal_id in fleet.terminals(),
            page_url=partial(page_url, settings.public_url or "", keys),
            script=playlists.canonical,
            set_script=lambda terminal_id, script: fleet.find(terminal_id).set_script(script),
            remove=fleet.remove,
        )
        objects = (*objects, fleet, virtual_terminals)
    kept = next((one for one in objects if isinstance(one, KeptCredentials)), None)
    if kept is not None:
        objects = (*objects, from_docs.at_hand(kept))
    return Parts(
        api=API,
        objects=(
            Webhooks(faults).courier,
            subscriptions.repairs(faults),
            _ADDITIONS,
            requests,
            faults,
            AcquirerFaults(faults),
            *objects,
        ),
        wire=lambda app, shared: Wire(HeldAnswers(app, shared), shared),
        development=True,
        loopback_allowed=True,
        https_host_names=https_host_names,
        wall=wall,
    )
