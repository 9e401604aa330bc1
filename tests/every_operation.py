"""Every operation there is: where the development kit is installed, its own too."""

from __future__ import annotations

from importlib.util import find_spec

from paydesk.service.api import OWN

if find_spec("paydesk_dev") is None:
    API = OWN
else:
    from paydesk_dev.api import API as API  # noqa: PLC0414 - it is imported from here

OPERATIONS, DOCUMENTED = API.operations, API.documented
