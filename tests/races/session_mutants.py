"""The defects that belong to the sessions of sellers: when they end, and what is done in them until then."""

from __future__ import annotations

from mutant import Mutant

SIGN_IN = "tests/contract/test_pages_sign_in.py"
ENDS = "tests/races/test_session_ends.py"
PROMISE = "Nothing is done in a session that has ended"

END_ALL = "        await SELLERS.set_password(tx, seller.seller_id, password_hash, call.now_ms)\n"
WITHDRAW_ALL = (
    "        ended: list[str] | None = None\n"
    "        if body.withdraw_all:\n"
    "            ended = await authorizations.withdraw_all(tx, seller_id=seller.seller_id, now_ms=call.now_ms)\n"
)

SESSION_MUTANTS = (
    Mutant(
        PROMISE,
        "PostgreSQL: a consent is given in a session that is not locked",
        "paydesk/engine/oauth/pages/seller_request.py",
        "idle_ms=idle_ms, locked=True)",
        "idle_ms=idle_ms)",
        ENDS,
        "consent and postgres",
    ),
    Mutant(
        PROMISE,
        "everything is withdrawn before the sessions end",
        "paydesk/operators/sellers/handlers.py",
        END_ALL + WITHDRAW_ALL,
        WITHDRAW_ALL + END_ALL,
        ENDS,
        "authorization and postgres",
    ),
    Mutant(
        PROMISE,
        "a session that has ended ends the others",
        "paydesk/engine/sellers/sessions.py",
        "    if await SELLERS.current(tx, cookie, now_ms, idle_ms=idle_ms) is None:\n        return False\n",
        "",
        SIGN_IN,
        "ended_session and sqlite",
    ),
    Mutant(
        PROMISE,
        "a session that is not used lives as long as one that is",
        "paydesk/engine/sellers/accounts.py",
        "min(expires_ms, used_ms + idle_ms) <= now_ms",
        "expires_ms <= now_ms",
        SIGN_IN,
        "30_minutes and sqlite",
    ),
)
