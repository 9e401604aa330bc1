"""The one adapter between the wire and the handlers: read, authenticate, replay or run, answer.

The lines of `Endpoint._reply` stand in the order in which a request is checked, and so in the order of precedence.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import structlog

from paydesk import operator_events
from paydesk.core import errors
from paydesk.core.clock import Clock
from paydesk.core.crash_points import reached
from paydesk.core.errors import ErrorKind, Refusal
from paydesk.core.idempotency import Key
from paydesk.core.keys import KeyMissing, Keys
from paydesk.http import body, faults, idempotency, request_log, shared
from paydesk.http.path import PathRules
from paydesk.http.rate_limit import BearerRates
from paydesk.http.reply import GONE, Receive, Reply, Scope, Send, answered, refused, replayed, request_id, send_reply
from paydesk.http.request import READ_ONCE, Disconnected, Request, form_or_json
from paydesk.http.three_phase import ThreePhaseRunner
from paydesk.oauth.clients import authentication
from paydesk.oauth.errors import INVALID_CLIENT, INVALID_REQUEST
from paydesk.operation import Call, Caller, Operation, Surface, ThreePhase
from paydesk.operator_events import Reporter
from paydesk.settings import Settings
from paydesk.storage.database import Database, Locked, Transaction, Unavailable

log = structlog.get_logger("request")

Authenticate = Callable[[str | None, int], Awaitable[Caller]]
ANONYMOUS = Caller(seller_id=0)
INVALID_CLIENT_EVERY_SECONDS = 0.01
"""Failed authentications are told on the hundredths of a second of their request: what took how long does not show."""

IGNORED_BY_TOKENS = {"authorization", "x-idempotency-key"}
"""Official clients send these headers on every request; the token endpoints ignore them, repeated ones too."""

JSON = ("application/json",)
FORM = ("application/x-www-form-urlencoded",)
MEDIA_TYPES: Mapping[Surface, tuple[str, ...]] = {"token": (*JSON, *FORM), "page": FORM}


@dataclass(frozen=True, slots=True)
class Service:
    """What all endpoints of a process share."""

    settings: Settings
    database: Database
    keys: Keys
    clock: Clock
    host_names: frozenset[str]
    authenticate: Mapping[str, Authenticate]
    state: Mapping[str, Any]


class Endpoint:
    """One operation, served."""

    def __init__(self, operation: Operation, service: Service) -> None:
        self.operation, self.service = operation, service
        self._authenticate = service.authenticate.get(operation.surface)
        self._rates: BearerRates = service.state["bearer_rates"]
        self._reporter: Reporter = service.state["reporter"]
        self._check_rate = self._rates.check_of(operation.surface)
        self._is_token_endpoint = operation.surface == "token"
        self._read_once = READ_ONCE - IGNORED_BY_TOKENS if self._is_token_endpoint else READ_ONCE
        self._doubled = INVALID_REQUEST if self._is_token_endpoint else errors.BAD_REQUEST
        self._media_types = MEDIA_TYPES.get(operation.surface, JSON)
        self._takes_body = shared.takes_body(operation)
        self._asks_the_time = not (operation.is_health_check or operation.is_constant)
        # Without a key there is no request to wait for; nothing was done all the same.
        self._when_locked = errors.RESOURCE_LOCKED if operation.idempotent else errors.SERVICE_UNAVAILABLE
        self._own_headers = [header.name.lower() for header in operation.headers]
        self._path = PathRules(operation)
        handler = operation.handler
        self._in_steps = (
            ThreePhaseRunner(handler, service.database, self._outcome) if isinstance(handler, ThreePhase) else None
        )
        self._handle = handler if not isinstance(handler, ThreePhase) else handler.begin
        self._references_checked = service.settings.card_numbers_refused_in_references
        self._loopback_only = operation.development and operation.surface == "public"

    @cached_property
    def _declared(self) -> frozenset[ErrorKind]:
        return shared.may_answer(self.operation)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, and write its line into the log."""
        started = time.perf_counter()
        request = Request(scope)
        identity = request_id(request.headers.get("x-request-id"), checked=self._references_checked)
        address = request.client_address(self.service.settings.trusted_proxies)
        try:
            reply = await self._reply(request, receive, identity, address)
        except Disconnected:
            return
        except (Refusal, Unavailable, KeyMissing, Locked) as error:
            reply = self._refused(error, request)
            if not isinstance(error, Refusal):
                request.forget_alert()
        except Exception:
            log.exception("defect", request_id=identity, operation=self.operation.name)
            reply = self._refused(errors.INTERNAL_ERROR.with_reason("defect"), request)
            request.forget_alert()
        if reply.refusal is not None and reply.refusal.kind not in self._declared:
            # The answer is true all the same; the tests fail on this line.
            log.error("undeclared", request_id=identity, operation=self.operation.name, error=reply.refusal.kind.code)
        if reply.refusal is not None and reply.refusal.kind is INVALID_CLIENT:
            # A client that there is took microseconds longer to find.
            await _next_tick(started)
        reached("before_answer")
        await send_reply(scope, send, reply, identity)
        request_log.write(
            request.method, request.path, reply.status, identity, started, reply.refusal, address, request.identity
        )
        if request.call is not None and request.call.alert is not None:
            # After the answer, which must not show by its time whether there was anything to report.
            await self._reporter.report(request.call.alert, request.call.now_ms)

    def _refused(self, error: Refusal | Unavailable | KeyMissing | Locked, request: Request) -> Reply:
        surface = self.operation.surface
        if isinstance(error, Locked):
            error = self._when_locked.with_reason("a row stayed locked")
        elif not isinstance(error, Refusal):
            if isinstance(error, KeyMissing) and self.service.keys.is_news(error.version):
                log.error("no server key", key_version=error.version, reason=str(error))
            error = errors.SERVICE_UNAVAILABLE.with_reason(str(error), message=error.message)
        elif surface == "token":
            error = shared.in_token_dialect(error)
        elif surface == "page":
            error = shared.in_page_dialect(error)
        return refused(error, surface, request.headers)

    async def _reply(self, request: Request, receive: Receive, identity: str, address: str) -> Reply:
        operation, service = self.operation, self.service
        raw = await request.read(receive) if self._takes_body else b""
        if not operation.is_health_check:
            request.check_host(service.host_names)
        document = self._token_document(request, raw, address) if self._is_token_endpoint else None
        request.check_headers(self._read_once, self._doubled)
        if raw and document is None:
            request.check_body_headers(self._media_types)
        now_ms = service.clock.now_ms() if self._asks_the_time else 0
        if operation.development:
            request.check_development(loopback_only=self._loopback_only)
        caller = await self._caller(self._authenticate, request, now_ms, address) if self._authenticate else ANONYMOUS
        if operation.scope is not None:
            _check_scope(operation.scope, caller)
            if operation.refuses_test_header:
                _check_test_header(request, caller)
        key_value = self._idempotency_key(request) if operation.idempotent else ""
        path, paths = self._path.checked(request.scope["path_params"])
        query = self._checked_query(request) if request.query_string else {}
        document, model = self._read_body(raw, caller) if document is None else (document, document)
        request.call = call = Call(
            settings=service.settings,
            database=service.database,
            keys=service.keys,
            caller=caller,
            now_ms=now_ms,
            request_id=identity,
            clock=service.clock,
            state=service.state,
            address=address,
            body=model,
            path=path,
            paths=paths,
            query=query,
            query_string=request.query_string,
            headers=request.headers,
            gone=request.scope.get("extensions", {}).get(GONE),
        )
        if not operation.idempotent:
            return await self._run(call)
        key = Key(caller.seller_id, caller.application_id, int(caller.live), operation.name, path, key_value)
        own_headers = [request.headers.get(name, "") for name in self._own_headers]
        digest = idempotency.request_digest(document, own_headers)
        conflict_keys: tuple[Hashable, ...] = self._touches(call)
        conflict_keys = conflict_keys and (*conflict_keys, key)
        if self._in_steps is not None:
            return await self._in_steps.run(call, key, digest, conflict_keys)
        return await self._run_once(call, key, digest, conflict_keys)

    async def _caller(self, authenticate: Authenticate, request: Request, now_ms: int, address: str) -> Caller:
        """Who calls, and not too often."""
        token = None
        try:
            token = request.bearer()
            caller = await authenticate(token, now_ms)
        except Refusal as refusal:
            raise self._rates.failed(refusal, token, address) from None
        request.caller = caller
        if self._check_rate is not None:
            self._check_rate(caller)
        return caller

    def _idempotency_key(self, request: Request) -> str:
        sent = request.headers.get("x-idempotency-key")
        return idempotency.check(sent, references_checked=self._references_checked)

    def _token_document(self, request: Request, raw: bytes, address: str) -> dict[str, Any]:
        """The body of a token request. Who is throttled is told so before anything else of it is looked at."""
        document = form_or_json(request.check_body_headers(self._media_types), raw) if raw else {}
        if not isinstance(document, dict):
            raise INVALID_REQUEST.with_reason("the body is no object")
        authentication.check_throttled(self.service.state["client_throttle"], document, address)
        return document

    def _checked_query(self, request: Request) -> dict[str, str]:
        query = request.query()
        if self.operation.surface == "token" and self._takes_body and query:
            raise INVALID_REQUEST.with_reason("parameters in the query string")
        return query

    def _read_body(self, raw: bytes, caller: Caller) -> tuple[Any, Any]:
        """The parsed document, and what the handler is given: its model's instance where it has one."""
        operation = self.operation
        if operation.raw_body or not self._takes_body:
            return raw, raw
        if operation.surface == "page":
            return raw, faults.validate_form(operation.body, raw)
        if not raw:
            # No body and an empty one are equal; an operation that needs fields finds them missing.
            raw = b"{}"
        document = body.parse_json(raw)
        if operation.body is None:
            return document, document
        model, found = faults.validate(operation.body, document, raw, self._context(caller))
        if found:
            raise faults.refused(found)
        return document, model

    def _context(self, caller: Caller) -> dict[str, Any]:
        return {
            "currency": caller.currency,
            "amount_minor_min": self.service.settings.order_amount_minor_min,
            "loopback_allowed": bool(self.service.state.get("loopback_allowed")),
            "references_checked": self._references_checked,
        }

    async def _run(self, call: Call) -> Reply:
        operation, database = self.operation, self.service.database
        if operation.transaction == "none":
            return self._outcome(await self._handle(call))

        async def work(tx: Transaction) -> Reply:
            call.begin(tx)
            reached("before_claim")
            reply = self._outcome(await self._handle(call))
            reached("after_effect")
            return reply

        if operation.transaction == "write":
            reply = await database.write(work, conflict_keys=self._touches(call))
            if call.alert is not None:
                operator_events.warn(call.alert)
                call.alert = None
            return reply
        return await database.read(work, heavy=operation.transaction == "heavy")

    async def _run_once(self, call: Call, key: Key, digest: bytes, conflict_keys: tuple[Hashable, ...]) -> Reply:
        async def work(tx: Transaction) -> Reply:
            call.begin(tx)
            reached("before_claim")
            stored = await idempotency.claim(tx, key, digest, call.now_ms)
            if stored is not None:
                return replayed(stored.status, stored.body)
            reached("after_claim")
            reply = self._outcome(await idempotency.unless_it_wrote(call, self._handle))
            reached("after_effect")
            if reply.refusal is not None:
                await idempotency.release(tx, key)
            else:
                idempotency.store_response(tx, key, reply.status, reply.body)
            return reply

        return await self.service.database.write(work, conflict_keys=conflict_keys)

    def _touches(self, call: Call) -> tuple[str, ...]:
        return tuple(self.operation.conflict_keys(call)) if self.operation.conflict_keys is not None else ()

    def _outcome(self, outcome: Any) -> Reply:
        surface = self.operation.surface
        return refused(outcome, surface) if isinstance(outcome, Refusal) else answered(outcome, surface)


async def _next_tick(started: float) -> None:
    every = INVALID_CLIENT_EVERY_SECONDS
    await asyncio.sleep(every - (time.perf_counter() - started) % every)


def _check_scope(scope: str, caller: Caller) -> None:
    if scope not in caller.scopes:
        raise errors.INSUFFICIENT_SCOPE.with_reason(f"lacks {scope}", f"the token lacks the scope {scope}")


def _check_test_header(request: Request, caller: Caller) -> None:
    if caller.live and request.headers.get("x-test-token", "").lower() == "true":
        raise errors.UNSUPPORTED_HEADER.with_reason(
            "X-Test-Token with a live token",
            message="X-Test-Token asks for a test order, but the access token is a live one; send a TEST-… token.",
        )
