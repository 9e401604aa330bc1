"""The lifecycle of a token family as one table, from the authorization code to the end: its states and moves.

The conditions of the UPDATEs, docs/token-lifecycle.md and the tests are derived from it. Any other event changes
nothing: it is refused, or has had its effect before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

OnReplay = Literal["revoke", "refuse"]
"""The effect of a replayed refresh token: revoke its family, or nothing. An operator chooses for each application."""


@dataclass(frozen=True, slots=True)
class State:
    """A state: the columns that are set in it, those that are NULL, and which credentials are valid."""

    name: str
    filled: tuple[str, ...]
    empty: tuple[str, ...]
    valid: str


EXCHANGED_AT, CODE_EXPIRED_AT = "codes.exchanged_ms", "codes.expired_ms"
REVOKED_AT, EXPIRED_AT = "token_families.revoked_ms", "token_families.expired_ms"
WITHDRAWN_AT = "authorizations.withdrawn_ms"
COLUMNS = (EXCHANGED_AT, CODE_EXPIRED_AT, REVOKED_AT, EXPIRED_AT, WITHDRAWN_AT)

CODE_ISSUED = State("code_issued", (), (EXCHANGED_AT, CODE_EXPIRED_AT, WITHDRAWN_AT), "the code")
CODE_EXPIRED = State("code_expired", (CODE_EXPIRED_AT,), (EXCHANGED_AT, WITHDRAWN_AT), "nothing")
ACTIVE = State(
    "active",
    (EXCHANGED_AT,),
    (REVOKED_AT, EXPIRED_AT, WITHDRAWN_AT),
    "the newest refresh token, if `offline_access` was granted; each access token until it expires",
)
EXPIRED = State("expired", (EXCHANGED_AT, EXPIRED_AT), (REVOKED_AT, WITHDRAWN_AT), "each access token until it expires")
REVOKED = State("revoked", (EXCHANGED_AT, REVOKED_AT), (WITHDRAWN_AT,), "nothing")
WITHDRAWN = State("withdrawn", (WITHDRAWN_AT,), (), "nothing")

STATES = (CODE_ISSUED, CODE_EXPIRED, ACTIVE, EXPIRED, REVOKED, WITHDRAWN)


@dataclass(frozen=True, slots=True)
class Move:
    """A move from any of `sources` to `target` (None: the state stays), with its trigger and the response."""

    name: str
    when: str
    sources: tuple[State, ...]
    target: State | None
    answer: str
    reason: str = ""
    """The reason of a refusal in the log."""

    def guard(self, table: str) -> str:
        """Return the condition of the UPDATE of `table` that makes this move: what all its sources have in common."""
        columns = [column for column in COLUMNS if column.startswith(f"{table}.")]
        empty = [column for column in columns if all(column in source.empty for source in self.sources)]
        filled = [column for column in columns if all(column in source.filled for source in self.sources)]
        parts = [f"{column.partition('.')[2]} IS NULL" for column in empty]
        parts += [f"{column.partition('.')[2]} IS NOT NULL" for column in filled]
        assert parts, "an UPDATE without a condition"
        return " AND ".join(parts)


_NOT_REVOKED = (ACTIVE, EXPIRED)
_REFUSED = "`invalid_grant`"

AUTHORIZE = Move("authorize", "the seller agrees", (), CODE_ISSUED, "a code")
EXCHANGE = Move("exchange", "the code, before it expires", (CODE_ISSUED,), ACTIVE, "the first tokens")
EXPIRE_CODE = Move("expire_code", "the code, after it expired", (CODE_ISSUED,), CODE_EXPIRED, _REFUSED, "code expired")
RETRY_CODE = Move(
    "retry_code",
    "the exchanged code, within `code_repeat_seconds`: a retry by a network or browser",
    _NOT_REVOKED,
    None,
    _REFUSED,
    "code exchanged already",
)
REUSE_CODE = Move(
    "reuse_code",
    "the exchanged code, later, before it expires: treated as theft",
    _NOT_REVOKED,
    REVOKED,
    _REFUSED,
    "code presented again",
)
REFUSE_CODE = Move("refuse_code", "the exchanged code, after it expired", _NOT_REVOKED, None, _REFUSED, "code expired")
REFRESH = Move("refresh", "the newest refresh token, before it expires", (ACTIVE,), None, "the next tokens, once")
RETRY_REFRESH = Move(
    "retry_refresh",
    "a used refresh token, until `refresh_repeat_seconds` after its successor was refreshed",
    _NOT_REVOKED,
    None,
    "the same tokens as before",
)
REUSE_REFRESH = Move(
    "reuse_refresh", "a used refresh token, later", _NOT_REVOKED, REVOKED, _REFUSED, "refresh token replayed"
)
REFUSE_REFRESH = Move(
    "refuse_refresh",
    "the same, if `on_replay` of the application is `refuse`",
    _NOT_REVOKED,
    None,
    _REFUSED,
    "refresh token replayed",
)
EXPIRE = Move(
    "expire", "the newest refresh token, after it expired", (ACTIVE,), EXPIRED, _REFUSED, "refresh token expired"
)
REVOKE = Move("revoke", "POST /oauth/revoke with any of its refresh tokens", _NOT_REVOKED, REVOKED, "`{}`")
REVOKE_ACCESS = Move(
    "revoke_access", "POST /oauth/revoke with an access token, which alone is revoked", _NOT_REVOKED, None, "`{}`"
)
WITHDRAW = Move(
    "withdraw",
    "the seller or an operator withdraws the authorization",
    (CODE_ISSUED, CODE_EXPIRED, ACTIVE, EXPIRED, REVOKED),
    WITHDRAWN,
    "from then on `unauthorized_client`",
)

MOVES = (
    AUTHORIZE,
    EXCHANGE,
    EXPIRE_CODE,
    RETRY_CODE,
    REUSE_CODE,
    REFUSE_CODE,
    REFRESH,
    RETRY_REFRESH,
    REUSE_REFRESH,
    REFUSE_REFRESH,
    EXPIRE,
    REVOKE,
    REVOKE_ACCESS,
    WITHDRAW,
)
