"""Who calls the token endpoints: an application, by the credentials in the body. They are checked nowhere else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from paydesk.errors import Refusal
from paydesk.oauth import applications
from paydesk.oauth.applications import Application
from paydesk.oauth.errors import TOKEN_FORBIDDEN
from paydesk.oauth.proven import ProvenClients
from paydesk.oauth.schemas import Credentials
from paydesk.operation import Answer, Call

Work = Callable[[Application], Awaitable[Answer | Refusal]]


async def as_client(call: Call, credentials: Credentials, work: Work) -> Answer | Refusal:
    """What `work` answers the application that these credentials prove.

    A client that this node remembers is not looked up first; where `work` then refuses, it is, and `work` runs again.
    """
    proven: ProvenClients | None = call.state.get("proven_clients")
    client_id, client_secret = credentials.client_id, credentials.client_secret
    known = proven.find(client_id, client_secret, call.now_ms) if proven is not None else None
    if known is not None:
        writes = call.tx.writes
        try:
            return await work(known)
        except Refusal:
            # What this node remembers may be seconds old: nobody is refused for it.
            if call.tx.writes != writes:
                raise
    application = await applications.authenticate(call.tx, client_id, client_secret, call.now_ms, proven)
    if isinstance(application, Refusal):
        return application
    if application.suspended_ms is not None:
        raise TOKEN_FORBIDDEN.because("application suspended")
    return await work(application)
