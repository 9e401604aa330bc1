"""Operations of applications on terminals."""

from __future__ import annotations

from paydesk.core.errors import PROPERTY_VALUE
from paydesk.operation import Operation
from paydesk.terminals import handlers
from paydesk.terminals.errors import PRECONDITION_FAILED, TERMINAL_BUSY, TERMINAL_NOT_FOUND
from paydesk.terminals.schemas import EXAMPLE_TERMINAL_ID, ITEMS_MAX, SetupAnswer, SetupRequest, TerminalList

LIST = Operation(
    method="GET",
    path="/terminals/v1/list",
    name="list_terminals",
    summary="List the seller's terminals",
    surface="application",
    handler=handlers.list_terminals,
    scope="read",
    transaction="heavy",
    query=(handlers.LIMIT, handlers.OFFSET, handlers.STORE_ID, handlers.POS_ID),
    answer=TerminalList,
    example={
        "data": {
            "terminals": [
                {
                    "id": EXAMPLE_TERMINAL_ID,
                    "terminal_id": EXAMPLE_TERMINAL_ID,
                    "pos_id": 47792476,
                    "store_id": "47792478",
                    "external_pos_id": "SUC0101POS",
                    "operating_mode": "PDV",
                    "status": "online",
                    "last_seen_date": "2026-01-31T14:26:42.109Z",
                    "current_order": {
                        "id": "ORD01J67CQQH5904WDBVZEM4JMEP3",
                        "status": "at_terminal",
                        "since_date": "2026-01-31T14:26:40.312Z",
                    },
                }
            ]
        },
        "paging": {"total": 1, "offset": 0, "limit": ITEMS_MAX},
    },
    errors=(PROPERTY_VALUE,),
    description=(
        "`status` follows from `last_seen_date`, the last sign of life: a terminal is `online` until 45 s after it,"
        " `degraded` until 120 s, then `offline`. `current_order` is the order that is waiting for the terminal or at"
        " it, and since when it has its status."
    ),
)

SETUP = Operation(
    method="PATCH",
    path="/terminals/v1/setup",
    name="setup_terminals",
    summary="Set the operating mode of one or several terminals",
    surface="application",
    handler=handlers.setup,
    scope="write",
    body=SetupRequest,
    answer=SetupAnswer,
    example={"terminals": [{"id": EXAMPLE_TERMINAL_ID, "operating_mode": "PDV"}]},
    errors=(PROPERTY_VALUE, TERMINAL_NOT_FOUND, TERMINAL_BUSY, PRECONDITION_FAILED),
    description="Sets all of the modes, or none. A point of sale can have at most one terminal in mode PDV.",
)

OPERATIONS: tuple[Operation, ...] = (LIST, SETUP)
