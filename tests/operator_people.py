"""Operators who sign in: a person with a password, a session, and a browser at the sign-in page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from argon2 import PasswordHasher

from page_scene import Browser, Page
from paydesk.console.sessions import OPERATORS
from paydesk.operators.accounts import credentials
from paydesk.platform.storage.database import Transaction
from service import Service

PASSWORD = "a pass phrase of the operator's"
SIGN_IN = "/console/sign-in"
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Person:
    """An operator with the password `PASSWORD`."""

    operator_id: str
    email: str


@cache
def _hash() -> str:
    return PasswordHasher().hash(PASSWORD)


async def make_person(service: Service, role: str = "operator", email: str = "eva@shop.example") -> Person:
    """Add an operator with an e-mail address and the password `PASSWORD`."""
    now_ms = service.clock.now_ms()

    async def work(tx: Transaction) -> str:
        operator_id = await credentials.add_operator(tx, None, "Eva", role, now_ms, email=email)
        await OPERATORS.set_password(tx, operator_id, _hash(), now_ms)
        return operator_id

    return Person(await service.database.write(work), email)


async def begin_session(service: Service, operator_id: str) -> str:
    """Begin a session of the operator, and return its token."""
    now_ms = service.clock.now_ms()
    token = await service.database.write(
        lambda tx: OPERATORS.begin(
            tx,
            operator_id,
            password_hash="",
            details=OPERATORS.details(now_ms, "127.0.0.1", ""),
            now_ms=now_ms,
            expires_ms=now_ms + 12 * HOUR_MS,
        )
    )
    assert token is not None
    return token.reveal()


async def sign_in_page(browser: Browser, email: str, password: str = PASSWORD, return_to: str = "") -> Page:
    """Open the sign-in page, fill in the form and send it; return the answer."""
    page = await browser.get(f"{SIGN_IN}?return_to={return_to}" if return_to else SIGN_IN)
    return await browser.submit(page.form(SIGN_IN), email=email, password=password)


async def signed_in(browser: Browser) -> bool:
    """Return whether the browser has a valid session."""
    return (await browser.get("/console/account")).status == 200
