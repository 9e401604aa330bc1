"""The rows of the interface table that are about terminals: two for applications, the others for terminals alone."""

from __future__ import annotations

from typing import Any

from paydesk.core.errors import PROPERTY_VALUE
from paydesk.operation import Operation
from paydesk.terminals import handlers
from paydesk.terminals.errors import PRECONDITION_FAILED, TERMINAL_BUSY, TERMINAL_NOT_FOUND
from paydesk.terminals.schemas import ITEMS_MAX, SetupRequest

TEXT = {"type": "string"}
MODE = {"enum": ["PDV", "STANDALONE", "SELF_SERVICE", "UNDEFINED"]}
TERMINAL_ID, LEASE_ID = "NEWLAND_N950__N950NCB801293324", "01J67CQQH5904WDBVZEM4JMEP3"


def _object(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": {**required, **optional}}


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


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
    answer=_object(
        {
            "data": _object(
                {
                    "terminals": _array(
                        _object(
                            {
                                "id": TEXT,
                                "terminal_id": TEXT,
                                "pos_id": handlers.COUNT,
                                "store_id": TEXT,
                                "external_pos_id": TEXT,
                                "operating_mode": MODE,
                            }
                        )
                    )
                }
            ),
            "paging": _object({"total": handlers.COUNT, "offset": handlers.COUNT, "limit": handlers.COUNT}),
        }
    ),
    example={
        "data": {
            "terminals": [
                {
                    "id": TERMINAL_ID,
                    "terminal_id": TERMINAL_ID,
                    "pos_id": 47792476,
                    "store_id": "47792478",
                    "external_pos_id": "SUC0101POS",
                    "operating_mode": "PDV",
                }
            ]
        },
        "paging": {"total": 1, "offset": 0, "limit": ITEMS_MAX},
    },
    errors=(PROPERTY_VALUE,),
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
    answer=_object({"terminals": _array(_object({"id": TEXT, "operating_mode": MODE}))}),
    example={"terminals": [{"id": TERMINAL_ID, "operating_mode": "PDV"}]},
    errors=(PROPERTY_VALUE, TERMINAL_NOT_FOUND, TERMINAL_BUSY, PRECONDITION_FAILED),
    description="All of the modes are set, or none. A point of sale has at most one terminal in mode PDV.",
)

OPERATIONS: tuple[Operation, ...] = (LIST, SETUP)
