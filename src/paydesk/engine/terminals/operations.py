"""Operations of applications on terminals, and of terminals that are not paired yet."""

from __future__ import annotations

from paydesk.core.errors import PROPERTY_VALUE, TOO_MANY_REQUESTS
from paydesk.engine.terminals import handlers
from paydesk.engine.terminals.errors import (
    ACCESS_DENIED,
    AUTHORIZATION_PENDING,
    EXPIRED_TOKEN,
    PRECONDITION_FAILED,
    SLOW_DOWN,
    TERMINAL_BUSY,
    TERMINAL_NOT_FOUND,
)
from paydesk.engine.terminals.pairing import handlers as pairing
from paydesk.engine.terminals.pairing.codes import EXAMPLE_USER_CODE
from paydesk.engine.terminals.schemas import (
    EXAMPLE_TERMINAL_ID,
    ITEMS_MAX,
    NewPairing,
    PairedDevice,
    PairingRequest,
    PairingTokenRequest,
    SetupAnswer,
    SetupRequest,
    TerminalList,
)
from paydesk.platform.operation import Operation
from paydesk.platform.rows import Rows

_TERMINALS = Rows("application", "/terminals/v1", errors=(PROPERTY_VALUE,))
_PAIRINGS = Rows("public", "/device/v1/pairings", transaction="none", errors=(TOO_MANY_REQUESTS,))

OPERATIONS: tuple[Operation, ...] = (
    _TERMINALS.get(
        "/list",
        "list_terminals",
        handlers.list_terminals,
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
                        "status": "active",
                        "presence": "online",
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
        description=(
            "`status` is `inactive` for a terminal without a valid device token. `presence` follows from"
            " `last_seen_date`, the last sign of life: `online` until 45 s after it, `degraded` until 120 s, then"
            " `offline`. `current_order` is the order that is waiting for the terminal or at it, and since when it has"
            " its status."
        ),
    ),
    _TERMINALS.patch(
        "/setup",
        "setup_terminals",
        handlers.setup,
        body=SetupRequest,
        answer=SetupAnswer,
        example={"terminals": [{"id": EXAMPLE_TERMINAL_ID, "operating_mode": "PDV"}]},
        errors=(TERMINAL_NOT_FOUND, TERMINAL_BUSY, PRECONDITION_FAILED),
        description="Sets all of the modes, or none. A point of sale can have at most one terminal in mode PDV.",
    ),
    _PAIRINGS.post(
        "",
        "device_pair",
        pairing.begin,
        status=201,
        body=PairingRequest,
        answer=NewPairing,
        example={
            "device_code": "3f7b0c5e9a2d4816b0c7d2e5f8a1934c6e0b7d25",
            "user_code": EXAMPLE_USER_CODE,
            "expires_in": 300,
            "interval": 3,
            "verification_uri": "https://pay.example/console/pair",
        },
        description=(
            "For a terminal without a token (RFC 8628). It shows `user_code`, which an operator approves, and polls"
            " `POST /device/v1/pairings/token` every `interval` seconds with `device_code`, which it keeps secret."
        ),
    ),
    _PAIRINGS.post(
        "/token",
        "device_pairing_token",
        pairing.token,
        body=PairingTokenRequest,
        answer=PairedDevice,
        example={
            "terminal_id": EXAMPLE_TERMINAL_ID,
            "device_token": "PDT-8d0b3c1f5e7a94260c8b1d3f5a7e92406b8d1f3c-1160535239",
        },
        errors=(EXPIRED_TOKEN, ACCESS_DENIED, SLOW_DOWN, AUTHORIZATION_PENDING),
        description=(
            "The same token is returned again until the terminal's first hello, for at most 10 minutes after the"
            " approval."
        ),
    ),
)
