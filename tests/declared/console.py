"""The declared errors of the console: every operation has a good request, made from its path, as a signed-in owner."""

from __future__ import annotations

import re
from dataclasses import replace

import counted
from declared.attempt import Attempt, Table
from declared.everywhere import FAILURES
from declared.pages import SIGN_IN_FAILURES
from every_operation import OPERATIONS
from faulty_database import FaultyDatabase
from operator_people import Person, begin_session, make_person
from paydesk.console.request import PURPOSE, SESSION
from paydesk.operators.accounts import links
from paydesk.operators.sign_in import page as sign_in
from paydesk.operators.sign_in import password
from paydesk.platform.operation import Operation
from paydesk.platform.web.forms import ANONYMOUS
from paydesk_dev.console_key import ConsoleKey
from service import KEYS, Reply, Service

FORM = "application/x-www-form-urlencoded"
IDS = (
    "ORD01J67CQQH5904WDBVZEM4JMEP3",
    "REF01J67CQQH5904WDBVZEM4JMEP3",
    "01J67CQQH5904WDBVZEM4JMEP3",
    "NEWLAND_N950__N950NCB801293324",
    "5f0c3ad1-8f1e-4f0b-9d5c-2b7a90c1e4d6",
    "1160535239",
    "01J67CQQH5904WDBVZEM4JMEP3-1160535239",
    "5f0c3ad1-8f1e-4f0b-9d5c-2b7a90c1e4d6.5f0c3ad1-8f1e-4f0b-9d5c-2b7a90c1e4d6",
    "BCDF-GHJK",
)
"""Ids for paths: the first that the operation's pattern permits. Nothing has them, so a page says that."""
PURPOSES = {"console_sign_in": sign_in.PURPOSE, "console_password": password.PURPOSE}
"""Of the forms before sign-in, whose tokens are bound to the cookie `VISIT`."""
VISIT = "0" * 64
KEY = ConsoleKey("OP-REVOKED", "k" * 40)
"""The key of `paydesk dev`'s link; its operator is revoked."""
STREAM = "console_events"
"""Its answer does not end."""


async def _person(service: Service) -> Person:
    return await make_person(service, "owner", counted.email())


def cookies(service: Service, token: str) -> str:
    """Return the header with the session, for requests with the service's port in `Host` and for those without."""
    port = service.base_url.rpartition(":")[2]
    return f"{SESSION}_{port}={token}; {SESSION}_80={token}; {ANONYMOUS}={VISIT}"


def form_token(cookie: str, purpose: str = PURPOSE) -> str:
    """Return the token of the forms of a session, or of a form before sign-in."""
    return f"{KEYS.active}-{KEYS.derive(KEYS.active, 'pages', 'form', purpose, cookie).hex()}"


async def _good(service: Service, database: FaultyDatabase, operation: Operation) -> Attempt:
    token = await begin_session(service, (await _person(service)).operator_id)
    attempt = Attempt(service, database, operation, headers={"Cookie": cookies(service, token)})
    identity = next(one for one in IDS if re.fullmatch(operation.path_pattern or ".*", one))
    attempt = attempt.at(**dict.fromkeys(re.findall(r"{(\w+)}", operation.path), identity))
    if operation.method == "GET":
        return replace(attempt, query=f"?key={KEY.value}" if operation.name == "console_enter" else "")
    purpose = PURPOSES.get(operation.name)
    form = form_token(token) if purpose is None else form_token(VISIT, purpose)
    body = {"form_token": form}
    if purpose is not None:
        body["password"] = "correct horse staple"
    if operation.name == "console_sign_in":
        body["email"] = counted.email()
    if operation.name == "console_password":
        body["link"] = await _link(service)
    return replace(attempt, body=body, headers={**attempt.headers, "Content-Type": FORM})


async def _link(service: Service) -> str:
    """Return the token of a new link of a new operator."""
    one, now_ms = await _person(service), service.clock.now_ms()
    link = await service.database.write(lambda tx: links.create(tx, one.operator_id, now_ms))
    return link.token.reveal()


_ROWS = [operation for operation in OPERATIONS if operation.surface == "console"]
TABLE = Table(
    "console",
    _good,
    needs_more=tuple(
        row.name
        for row in _ROWS
        if row.method == "POST" or "{" in row.path or any(one.required for one in row.query) or row.name == STREAM
    ),
    elsewhere=("console_refused",),
)
"""Forms need their fields, ids something that has them, and links a key: the tests of each screen send those.
`console_refused` stands for all errors of `/operator/v1`, which are reached there."""


@TABLE.way("forbidden")
async def _form_of_another_site(attempt: Attempt) -> Reply:
    return await attempt.send(headers={"Sec-Fetch-Site": "cross-site"})


@TABLE.way("form_outdated")
async def _form_of_another_session(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "form_token": "1-0"})


@TABLE.way("sign_in_failed")
async def _unknown_address(attempt: Attempt) -> Reply:
    return await attempt.send()


@TABLE.way("sign_in_throttled")
async def _guessed_passwords(attempt: Attempt) -> Reply:
    for _ in range(SIGN_IN_FAILURES):
        assert (await attempt.send()).status == 403
    return await attempt.send()


@TABLE.way("link_not_valid")
async def _used_link(attempt: Attempt) -> Reply:
    if attempt.operation.method == "POST":
        assert (await attempt.send()).status == 303
    return await attempt.send()


@TABLE.way("console_password/property_value")
async def _common_password(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "password": "password1234"})


@TABLE.way("not_found")
async def _key_of_a_revoked_operator(attempt: Attempt) -> Reply:
    return await attempt.send()


@TABLE.way("too_many_requests")
async def _guessed_keys(attempt: Attempt) -> Reply:
    # More than that, because some are permitted again meanwhile.
    for guess in range(3 * FAILURES):
        reply = await replace(attempt, query=f"?key={guess}").send()
        if reply.status == 429:
            break
        assert reply.status == 404
    return reply
