"""Sellers who sign in, and their sessions in browsers: one row per session, found by the digest of its cookie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paydesk.core import ids
from paydesk.core.secrets import digest, new_hex
from paydesk.engine.sellers import store as sellers
from paydesk.engine.sellers.accounts import Accounts
from paydesk.engine.sellers.errors import SELLER_SUSPENDED
from paydesk.engine.sellers.throttle import FAILURES_PER_ALERT
from paydesk.platform.operation import Call
from paydesk.platform.operator_events import OperatorEvent
from paydesk.platform.retention import Rule, prune
from paydesk.platform.storage.database import Transaction

RULES = (Rule(lambda settings: settings.tokens_keep_days, prune("seller_sessions", "digest", "expires_ms")),)
"""The retention of sessions."""


@dataclass(frozen=True, slots=True)
class Session:
    """A valid session with its seller."""

    seller_id: int
    digest: bytes
    email: str
    name: str


def _alert(address: str, seller_id: int | None, is_repeated: bool) -> OperatorEvent | None:  # noqa: FBT001 - private
    subject = "unknown_email" if seller_id is None else str(seller_id)
    message = f"{FAILURES_PER_ALERT} sign-ins with one e-mail address failed from one address within an hour."
    facts = {"address": address, "failures": FAILURES_PER_ALERT}
    return OperatorEvent("sign_in_failures", subject, message, seller_id, facts) if is_repeated else None


def _admit(call: Call, seller_id: int, suspended_ms: int | None) -> None:
    call.logged_seller_id = seller_id
    if suspended_ms is not None:
        raise SELLER_SUSPENDED.with_reason("seller suspended")


def _key_of(cookie: str) -> tuple[Any, ...]:
    seller_id = ids.seller_of(cookie)
    return () if seller_id is None else (seller_id, digest(cookie))


SELLERS: Accounts[int, Session] = Accounts(
    noun="seller",
    barred="suspended_ms",
    session=Session,
    columns="s.seller_id, s.digest, a.email, a.name",
    found_by=("seller_id", "digest"),
    key_of=_key_of,
    new_token=lambda seller_id: f"{new_hex(256)}-{seller_id}",
    unknown="unknown e-mail address",
    alert=_alert,
    admit=_admit,
    expired="expired_ms",
)


async def end_everywhere(tx: Transaction, cookie: str, now_ms: int, *, idle_ms: int) -> bool:
    """End all sessions of the seller of this session. Return False, without effect, if this session is not valid.

    The seller is locked first, as when a password is set, so that two such transactions can't deadlock on sessions.
    """
    seller_id = ids.seller_of(cookie)
    if seller_id is None or await sellers.lock(tx, seller_id) is None:
        return False
    if await SELLERS.current(tx, cookie, now_ms, idle_ms=idle_ms) is None:
        return False
    await SELLERS.end_all(tx, seller_id, now_ms)
    return True
