"""`GET /console/events`: the stream of hints of a live page."""

from __future__ import annotations

from paydesk.console.request import ConsoleRequest
from paydesk.console.screen import screen
from paydesk.console.sessions import OPERATORS
from paydesk.platform.operation import Answer
from paydesk.platform.web.event_streams import LAST_EVENT_ID
from paydesk.platform.web.hints import Hints


@screen
async def events(request: ConsoleRequest) -> Answer:
    """Stream hints until the session ends."""
    call, idle_ms = request.call, request.call.settings.session_idle_minutes * 60_000

    async def is_permitted() -> bool:
        now_ms = call.clock.now_ms()
        return await OPERATORS.opened(call.database, request.token, now_ms, idle_ms=idle_ms, is_use=False) is not None

    seen = call.headers.get(LAST_EVENT_ID) or call.query.get("after", "")
    return call.shared.objects[Hints].answer(request.operator.operator_id, seen, is_permitted)
