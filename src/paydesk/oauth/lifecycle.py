"""The life of a family of tokens as one table, from the code to its end: every state and every move between them.

The guards of the UPDATEs, the picture in the docs and the tests are read from here. What stands in no row changes
nothing: it is refused, or it was done before.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class State:
    """A state: which columns are filled in it and which are empty, and what is good for something."""

    name: str
    filled: tuple[str, ...]
    empty: tuple[str, ...]
    good: str

    def fits(self, filled: Collection[str]) -> bool:
        """Whether these are the columns that it has filled, so far as they matter to it."""
        return all(column in filled for column in self.filled) and not any(column in filled for column in self.empty)


EXCHANGED, CODE_EXPIRED = "codes.exchanged_ms", "codes.expired_ms"
REVOKED_AT, EXPIRED_AT = "token_families.revoked_ms", "token_families.expired_ms"
WITHDRAWN_AT = "authorizations.withdrawn_ms"
COLUMNS = (EXCHANGED, CODE_EXPIRED, REVOKED_AT, EXPIRED_AT, WITHDRAWN_AT)

FRESH = State("fresh", (), (EXCHANGED, CODE_EXPIRED, WITHDRAWN_AT), "the code")
LAPSED = State("lapsed", (CODE_EXPIRED,), (EXCHANGED, WITHDRAWN_AT), "nothing")
OPEN = State(
    "open",
    (EXCHANGED,),
    (REVOKED_AT, EXPIRED_AT, WITHDRAWN_AT),
    "the newest refresh token, where `offline_access` was granted; every access token to its own end",
)
EXPIRED = State(
    "expired", (EXCHANGED, EXPIRED_AT), (REVOKED_AT, WITHDRAWN_AT), "access tokens, as far as theirs is a later end"
)
REVOKED = State("revoked", (EXCHANGED, REVOKED_AT), (WITHDRAWN_AT,), "nothing")
WITHDRAWN = State("withdrawn", (WITHDRAWN_AT,), (), "nothing")

STATES = (FRESH, LAPSED, OPEN, EXPIRED, REVOKED, WITHDRAWN)


@dataclass(frozen=True, slots=True)
class Move:
    """One move: from any of `sources` to `target` (None: it stays), when what is presented, and what is answered."""

    name: str
    when: str
    sources: tuple[State, ...]
    target: State | None
    answer: str
    reason: str = ""
    """What the log has of a refusal."""

    def guard(self, table: str) -> str:
        """The condition of the UPDATE of a table that makes this move: the check *is* the statement."""
        parts = [
            f"{column.partition('.')[2]} IS {'NOT ' if column in self.sources[0].filled else ''}NULL"
            for column in COLUMNS
            if column.startswith(f"{table}.") and self._all_agree(column)
        ]
        assert parts, "a guard that guards nothing"
        return " AND ".join(parts)

    def _all_agree(self, column: str) -> bool:
        return all(column in source.filled for source in self.sources) or all(
            column in source.empty for source in self.sources
        )


_LIVING = (OPEN, EXPIRED)
_REFUSED = "`invalid_grant`"

AGREE = Move("agree", "the seller agrees", (), FRESH, "a code")
EXCHANGE = Move("exchange", "the code, within its time", (FRESH,), OPEN, "the first tokens")
LAPSE = Move("lapse", "the code, after its time", (FRESH,), LAPSED, _REFUSED, "code expired")
DOUBLE = Move(
    "double",
    "the code again, sooner than `code_repeat_seconds`: a repeat of the network's or a browser's making",
    _LIVING,
    None,
    _REFUSED,
    "code exchanged already",
)
STEAL = Move(
    "steal",
    "the code again, later, within its time: somebody else has it too",
    _LIVING,
    REVOKED,
    _REFUSED,
    "code presented again",
)
LATE = Move("late", "the code again, after its time", _LIVING, None, _REFUSED, "code expired")
REFRESH = Move("refresh", "the newest refresh token, within its time", (OPEN,), None, "the next tokens, once")
REPEAT = Move(
    "repeat",
    "a used refresh token, until `refresh_repeat_seconds` after its successor was refreshed",
    _LIVING,
    None,
    "the very same tokens as before",
)
REPLAY = Move("replay", "a used refresh token, later", _LIVING, REVOKED, _REFUSED, "refresh token replayed")
REFUSE = Move(
    "refuse",
    "the same, where the application has `on_replay` set to `refuse`",
    _LIVING,
    None,
    _REFUSED,
    "refresh token replayed",
)
EXPIRE = Move("expire", "the newest refresh token, after its time", (OPEN,), EXPIRED, _REFUSED, "refresh token expired")
REVOKE = Move("revoke", "POST /oauth/revoke with any of its refresh tokens", _LIVING, REVOKED, "`{}`")
REVOKE_ONE = Move("revoke_one", "POST /oauth/revoke with an access token, which ends alone", _LIVING, None, "`{}`")
WITHDRAW = Move(
    "withdraw",
    "the seller or the operator withdraws what the application was allowed",
    (FRESH, LAPSED, OPEN, EXPIRED, REVOKED),
    WITHDRAWN,
    "from then on `unauthorized_client`",
)

MOVES = (
    AGREE,
    EXCHANGE,
    LAPSE,
    DOUBLE,
    STEAL,
    LATE,
    REFRESH,
    REPEAT,
    REPLAY,
    REFUSE,
    EXPIRE,
    REVOKE,
    REVOKE_ONE,
    WITHDRAW,
)


def state(filled: Collection[str]) -> State:
    """The state of a family of whose `COLUMNS` these are filled."""
    return next(one for one in STATES if one.fits(filled))
