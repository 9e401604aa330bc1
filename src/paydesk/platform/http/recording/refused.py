"""Logs and records requests that were refused before their operation: those without one, and faults of development."""

from __future__ import annotations

from paydesk.platform.http import request_log
from paydesk.platform.http.recording import recorder
from paydesk.platform.http.recording.recorder import RequestRecorder
from paydesk.platform.http.refusals.repeated import RepeatedRefusals
from paydesk.platform.http.reply import Reply
from paydesk.platform.http.request import Request
from paydesk.platform.operation import Operation
from paydesk.platform.shared import Shared


def note_refused(
    shared: Shared, operation: Operation | None, request: Request, reply: Reply, identity: str, started: float
) -> None:
    """Log and record a request; a status of 0 is no answer, and is not logged."""
    address, repeated = request.client_address(shared.settings.trusted_proxies), shared.objects.get(RepeatedRefusals)
    if reply.status:
        facts = request.method, request.path, reply.status, identity, started, reply.refusal, address
        request_log.write(*facts, request.identity, repeated=repeated)
    if recorder.is_recorded(operation) if operation else request.path.startswith(recorder.PATHS):
        name = operation.name if operation else ""
        shared.objects[RequestRecorder].note(name, request, reply, identity, address, started)
