"""The development endpoints: clock, reset, demo inbox, scenes of tests, and the acquirer of virtual terminals."""

from __future__ import annotations

from paydesk.core.errors import FORBIDDEN, FORM_OUTDATED, IN_USE, PROPERTY_VALUE
from paydesk.core.faults import parse
from paydesk.core.ids import ULID_PATTERN
from paydesk.platform.operation import WAIT, Operation, Query
from paydesk.platform.rows import Rows
from paydesk.platform.web import assets, html
from paydesk_dev.charges import OPERATIONS as CHARGES
from paydesk_dev.clock import handlers
from paydesk_dev.faults import handlers as faults
from paydesk_dev.faults.active import Active
from paydesk_dev.faults.schemas import ActiveFault, ActiveFaults, NewFault, document_of
from paydesk_dev.inbox import callback
from paydesk_dev.inbox import page as inbox_page
from paydesk_dev.inbox import receiver as inbox
from paydesk_dev.inbox.notifications import OPERATIONS as NOTIFICATIONS
from paydesk_dev.reset import reset
from paydesk_dev.scenes import OPERATIONS as SCENES
from paydesk_dev.schemas import (
    Accepted,
    ClockAnswer,
    ClockMove,
    Inbox,
    ResetRequest,
)
from paydesk_dev.virtual.acquirer import OPERATIONS as ACQUIRER

_PUBLIC = Rows("public", development=True)
_INBOX = _PUBLIC.below(inbox.PATH)
_OPERATOR = Rows("operator", "/dev", development=True, transaction="none")
_FAULTS = Rows("virtual", "/dev/faults", development=True, transaction="none", refuses_repeated=True)
_FAULT = _FAULTS.below("/{fault_id}", path_pattern=f"^FLT{ULID_PATTERN}$", errors=(faults.FAULT_NOT_FOUND,))
_FAULT_EXAMPLE = document_of(
    Active(
        "FLT01J67CQQH5904WDBVZEM4JMEP3",
        parse("till create_order slow:5s every=3 seed=7 reference=s1"),
        1_769_869_602_109,
    )
)

OPERATIONS: tuple[Operation, ...] = (
    _INBOX.post(
        "",
        "demo_inbox_receive",
        handlers.receive,
        answer=Accepted,
        example={},
        transaction="none",
        raw_body=True,
        query=(Query("data.id", {"type": "string"}, "The id of the notification's subject, in lower case."),),
        refuses_repeated=True,
        errors=(PROPERTY_VALUE,),
        description=(
            "The receiver of `paydesk dev`: verifies both signatures and stores the last 1,000 notifications of each"
            " application."
        ),
    ),
    _INBOX.get(
        "",
        "demo_inbox_show",
        handlers.show_inbox,
        description="All as JSON, newest last. If `Accept` names `text/html`, as browsers do: a page, newest first.",
        answer=Inbox,
        transaction="none",
        query=inbox_page.QUERY,
        refuses_repeated=True,
        errors=(PROPERTY_VALUE,),
    ),
    _INBOX.delete("", "demo_inbox_empty", handlers.empty_inbox, status=204),
    Rows("page", development=True).post(
        inbox_page.EMPTY_PATH,
        "demo_inbox_button",
        inbox_page.empty,
        loopback_only=True,
        status=303,
        body=inbox_page.EmptyForm,
        errors=(FORBIDDEN, FORM_OUTDATED),
        media_type=html.HTML,
    ),
    _PUBLIC.get(
        "/demo/callback",
        "demo_callback",
        handlers.show_callback,
        transaction="none",
        query=tuple(Query(name, {"type": "string"}, f"Displayed as `{name}`.") for name in callback.PARAMETERS),
        is_constant=True,
        media_type="text/html",
    ),
    *ACQUIRER,
    _OPERATOR.get(
        "/clock",
        "clock_show",
        handlers.show_clock,
        answer=ClockAnswer,
        example={
            "now": "2026-01-31T14:26:42.109Z",
            "frozen": False,
            "offset_seconds": 61.0,
            "next": {"kind": "order_expiry", "due_date": "2026-01-31T14:41:40.000Z", "count": 1},
        },
    ),
    _OPERATOR.post(
        "/clock",
        "clock_move",
        handlers.move_clock,
        answer=ClockAnswer,
        example={"now": "2026-01-31T14:26:42.109Z", "frozen": True, "offset_seconds": 61.0},
        body=ClockMove,
        errors=(PROPERTY_VALUE, IN_USE),
        description=(
            "Expiry, token lifetimes, webhook retries and the presence of terminals follow this clock, which survives a"
            " restart: a terminal that is switched off is `degraded` once the clock is advanced by 61 s, and `offline`"
            " by 121 s. Sockets, repeated offers, rates and the time in signatures follow the machine's clock. If the"
            " tokens of the credentials file have expired by the move, the file gets new ones, and the answer names it."
            " `to_next` advances to the next expiry, deadline or attempt, and `next` in the answer says what it is; if"
            " nothing is due, the clock is not moved, and `next` is absent. Only `reset` moves the clock back, to the"
            " machine's time. It is refused while there are orders, print actions, idempotency keys, codes, or tokens"
            " that are not in the credentials file: `POST /dev/reset` removes them."
        ),
    ),
    _OPERATOR.post(
        "/reset",
        "dev_reset",
        reset.reset,
        status=204,
        body=ResetRequest,
        description=(
            "Removes the orders of all sellers with their events, notifications, payments and print actions, stored"
            " idempotency keys, recorded requests, the demo inbox, codes, and every token that is not in the"
            " credentials file. Virtual terminals stop what they are doing and are idle. Applications, sellers,"
            " terminals, subscriptions, grants and the clock stay, and so do cursors of `/v1/events`, which get the"
            " events from then on. `terminals` also removes the virtual terminals for which a point of sale was made,"
            " as `POST /virtual/v1/terminals` does, with their points of sale."
        ),
    ),
    *SCENES,
    *NOTIFICATIONS,
    *CHARGES,
    _FAULTS.post(
        "",
        "add_fault",
        faults.add,
        status=201,
        body=NewFault,
        answer=ActiveFault,
        example=_FAULT_EXAMPLE,
        errors=(PROPERTY_VALUE, faults.TOO_MANY_FAULTS),
        description="With an operator's token a fault of all requests; with a test token, of those of its application"
        " and seller. The faults of this process are gone after a restart; `POST /dev/reset` counts anew.",
    ),
    _FAULTS.get(
        "",
        "list_faults",
        faults.find_all,
        answer=ActiveFaults,
        example=ActiveFaults([_FAULT_EXAMPLE]),
        query=(faults.EDGE, faults.APPLICATION),
        errors=(PROPERTY_VALUE,),
    ),
    _FAULT.get(
        "",
        "get_fault",
        faults.get,
        answer=ActiveFault,
        example=_FAULT_EXAMPLE,
        query=(WAIT, faults.FIRED),
        errors=(PROPERTY_VALUE,),
        description="A request that is held has fired; one whose answer is lost has fired once it has taken effect.",
    ),
    _FAULT.post("/release", "release_fault", faults.release, status=204),
    _FAULT.delete("", "remove_fault", faults.remove, answer=ActiveFault, example=_FAULT_EXAMPLE),
    _FAULTS.delete(
        "",
        "clear_faults",
        faults.clear,
        answer=ActiveFaults,
        example=ActiveFaults([_FAULT_EXAMPLE]),
        query=(faults.EDGE, faults.APPLICATION),
        errors=(PROPERTY_VALUE,),
    ),
    *assets.operations("paydesk_dev.inbox", development=True),
)
