"""The adapter between HTTP and the handlers: read, authenticate, replay or run, answer.

`Endpoint._reply` checks a request in the documented order of precedence.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import structlog

from paydesk import operator_events
from paydesk.core import conflict_keys, errors, idempotency
from paydesk.core.clock import Clock
from paydesk.core.conflict_keys import ConflictKey
from paydesk.core.crash_points import reached
from paydesk.core.errors import ErrorKind, Refusal
from paydesk.core.idempotency import Key
from paydesk.core.keys import KeyMissing, Keys
from paydesk.http import body, error_responses, request_log, validation
from paydesk.http.rate_limit import BearerRates
from paydesk.http.reply import Receive, Reply, Scope, Send, answered, refused, replayed, request_id, send_reply
from paydesk.http.request import READ_ONCE, Disconnected, PathRules, Request, form_or_json
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
"""Failed authentications are answered at a multiple of this time, so that the duration reveals nothing."""

IGNORED_BY_TOKENS = {"authorization", "x-idempotency-key"}
"""Official clients send these headers on every request; the token endpoints ignore them, repeated ones too."""

JSON = ("application/json",)
FORM = ("application/x-www-form-urlencoded",)
MEDIA_TYPES: Mapping[Surface, tuple[str, ...]] = {"token": (*JSON, *FORM), "page": FORM}


@dataclass(frozen=True, slots=True)
class Service:
    """The objects that all endpoints of a process share."""

    settings: Settings
    database: Database
    keys: Keys
    clock: Clock
    host_names: frozenset[str]
    authenticate: Mapping[str, Authenticate]
    state: Mapping[str, Any]


class Endpoint:
    """Serves one operation."""

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
        self._takes_body = error_responses.takes_body(operation)
        self._needs_time = not (operation.is_health_check or operation.is_constant)
        # `resource_locked` names the idempotency key, so operations without one answer 503.
        self._when_locked = errors.RESOURCE_LOCKED if operation.idempotent else errors.SERVICE_UNAVAILABLE
        self._own_headers = [header.name.lower() for header in operation.headers]
        self._path = PathRules(operation)
        self._conflict_keys = operation.conflict_keys or _no_keys
        handler = operation.handler
        self._three_phase: ThreePhaseRunner | None = None
        if isinstance(handler, ThreePhase):
            self._three_phase, handler = ThreePhaseRunner(handler, service.database, self._outcome), handler.begin
        self._handle = handler
        self._references_checked = service.settings.card_numbers_refused_in_references
        self._loopback_only = operation.development and operation.surface == "public"

    @cached_property
    def _declared(self) -> frozenset[ErrorKind]:
        return error_responses.may_answer(self.operation)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request and log it."""
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
            log.exception("unhandled_exception", request_id=identity, operation=self.operation.name)
            reply = self._refused(errors.INTERNAL_ERROR.with_reason("unhandled exception"), request)
            request.forget_alert()
        if reply.refusal is not None and reply.refusal.kind not in self._declared:
            # The answer is sent unchanged; the tests fail on this event.
            log.error(
                "undeclared_error", request_id=identity, operation=self.operation.name, error=reply.refusal.kind.code
            )
        if reply.refusal is not None and reply.refusal.kind is INVALID_CLIENT:
            # Finding an existing client takes microseconds longer.
            every = INVALID_CLIENT_EVERY_SECONDS
            await asyncio.sleep(every - (time.perf_counter() - started) % every)
        reached("before_answer")
        await send_reply(scope, send, reply, identity)
        request_log.write(
            request.method, request.path, reply.status, identity, started, reply.refusal, address, request.identity
        )
        if request.call is not None and request.call.alert is not None:
            # After the answer, so that its time does not reveal whether an event was reported.
            await self._reporter.report(request.call.alert, request.call.now_ms)

    def _refused(self, error: Refusal | Unavailable | KeyMissing | Locked, request: Request) -> Reply:
        surface = self.operation.surface
        if isinstance(error, Locked):
            error = self._when_locked.with_reason("lock timeout")
        elif not isinstance(error, Refusal):
            if isinstance(error, KeyMissing) and self.service.keys.should_log_missing(error.version):
                log.error("server_key_missing", key_version=error.version, reason=str(error))
            error = errors.SERVICE_UNAVAILABLE.with_reason(str(error), message=error.message)
        elif surface == "token":
            error = error_responses.in_token_format(error)
        elif surface == "page":
            error = error_responses.in_page_format(error)
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
        now_ms = service.clock.now_ms() if self._needs_time else 0
        if operation.development:
            request.check_development(loopback_only=self._loopback_only)
        caller = await self._caller(self._authenticate, request, now_ms, address) if self._authenticate else ANONYMOUS
        if operation.scope is not None:
            _check_scope(operation.scope, caller)
            if operation.refuses_test_header:
                request.check_test_header(live=caller.live)
        key_value = ""
        if operation.idempotent:
            sent_key = request.headers.get("x-idempotency-key")
            key_value = idempotency.check(sent_key, references_checked=self._references_checked)
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
            disconnected=request.disconnected,
        )
        if not operation.idempotent:
            return await self._run(call)
        key = Key(caller.seller_id, caller.application_id, int(caller.live), operation.name, path, key_value)
        own_headers = [request.headers.get(name, "") for name in self._own_headers]
        digest = idempotency.request_digest(document, own_headers)
        keys = self._conflict_keys(call)
        if keys:
            keys = (*keys, conflict_keys.idempotency(key))
        if self._three_phase is not None:
            return await self._three_phase.run(call, key, digest, keys)
        return await self._run_once(call, key, digest, keys)

    async def _caller(self, authenticate: Authenticate, request: Request, now_ms: int, address: str) -> Caller:
        """Authenticate the bearer and check its rate limit."""
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

    def _token_document(self, request: Request, raw: bytes, address: str) -> dict[str, Any]:
        """Return the body of a token request. The throttle is checked before anything else in it."""
        document = form_or_json(request.check_body_headers(self._media_types), raw) if raw else {}
        if not isinstance(document, dict):
            raise INVALID_REQUEST.with_reason("the body is not an object")
        authentication.check_throttled(self.service.state["client_throttle"], document, address)
        return document

    def _checked_query(self, request: Request) -> dict[str, str]:
        query = request.query()
        if self.operation.surface == "token" and self._takes_body and query:
            raise INVALID_REQUEST.with_reason("parameters in the query string")
        return query

    def _read_body(self, raw: bytes, caller: Caller) -> tuple[Any, Any]:
        """Return the parsed document, and the body for the handler: an instance of its model if it has one."""
        operation = self.operation
        if operation.raw_body or not self._takes_body:
            return raw, raw
        if operation.surface == "page":
            return raw, validation.validate_form(operation.body, raw)
        raw = raw or b"{}"  # A missing body counts as an empty object; the model reports missing fields.
        document = body.parse_json(raw)
        if operation.body is None:
            return document, document
        model, faults = validation.validate(operation.body, document, raw, self._context(caller))
        if faults:
            raise validation.refused(faults)
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
            reply = await database.write(work, conflict_keys=self._conflict_keys(call))
            if call.alert is not None:
                operator_events.warn(call.alert)
                call.alert = None
            return reply
        return await database.read(work, heavy=operation.transaction == "heavy")

    async def _run_once(self, call: Call, key: Key, digest: bytes, keys: tuple[ConflictKey, ...]) -> Reply:
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

        return await self.service.database.write(work, conflict_keys=keys)

    def _outcome(self, outcome: Any) -> Reply:
        surface = self.operation.surface
        return refused(outcome, surface) if isinstance(outcome, Refusal) else answered(outcome, surface)


def _no_keys(_: Call) -> tuple[ConflictKey, ...]:
    return ()


def _check_scope(scope: str, caller: Caller) -> None:
    if scope not in caller.scopes:
        raise errors.INSUFFICIENT_SCOPE.with_reason(f"lacks {scope}", f"the token lacks the scope {scope}")
