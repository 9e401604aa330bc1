"""The adapter between HTTP and the handlers: read, authenticate, replay or run, answer.

`Endpoint._reply` checks a request in the documented order of precedence; `surfaces` has what differs between surfaces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import nullcontext
from functools import cached_property
from typing import Any

import structlog

from paydesk.core import errors, ids, runtime, trace
from paydesk.core.crash_points import reached
from paydesk.core.errors import ErrorKind, Refusal
from paydesk.core.keys import KeyMissing
from paydesk.core.text.redaction import redacted_name
from paydesk.core.trace import Trace
from paydesk.platform import idempotency, operator_events, roles, traces
from paydesk.platform.http import request_log, request_metrics
from paydesk.platform.http.asgi import Receive, Scope, Send
from paydesk.platform.http.large_bodies import LargeBodies
from paydesk.platform.http.rate_limit import BearerRates
from paydesk.platform.http.recording import recorder as request_recorder
from paydesk.platform.http.recording.recorder import RequestRecorder
from paydesk.platform.http.refusals import error_responses, unauthorized
from paydesk.platform.http.refusals.repeated import RepeatedRefusals
from paydesk.platform.http.reply import Reply, answered, refused, replayed, request_id, send_reply, send_stream
from paydesk.platform.http.request import Disconnected, PathRules, Request
from paydesk.platform.http.surfaces import POLICIES, Authenticate, Callers
from paydesk.platform.http.three_phase import ThreePhaseRunner
from paydesk.platform.idempotency_key import Key
from paydesk.platform.operation import WAIT, Call, Caller, Operation, ThreePhase
from paydesk.platform.operator_events import Reporter
from paydesk.platform.roles import Required
from paydesk.platform.shared import Shared
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.conflict_keys import ConflictKey
from paydesk.platform.storage.database import Locked, Overtaken, Transaction, Unavailable
from paydesk.platform.storage.silence import SILENT
from paydesk.platform.storage.work import write_until_kept

log = structlog.get_logger("request")

ANONYMOUS = Caller(seller_id=0)
REFUSED_SECRETS_EVERY_SECONDS = 0.01
"""Failed authentications of clients are answered at a multiple of this time, so that the duration reveals nothing."""
SLOW_SECONDS = 1.0
"""A poll that took this much longer than it was to wait is slow, and so is a health check that took this time."""
NO_EVENTS = b'{"data":[],'


class Endpoint:
    """Serves one operation."""

    def __init__(self, operation: Operation, shared: Shared) -> None:
        self.operation, self.shared, self.policy = operation, shared, POLICIES[operation.surface]
        policy = self.policy
        callers = shared.objects[Callers]
        self._authenticate = callers.authenticate[operation.surface] if policy.credential is not None else None
        self._rates, self._reporter = shared.objects[BearerRates], shared.objects[Reporter]
        self._check_rate = policy.check_rate(self._rates)
        self._takes_body = error_responses.takes_body(operation)
        self._reads_at_once = self._takes_body and operation.body_bytes_max is None
        reads_first = policy.reads_first and self._takes_body
        self._read_first = callers.read_first[operation.surface] if reads_first else None
        self._parses_body = self._takes_body and not operation.raw_body
        self._needs_time = not (operation.is_health_check or operation.is_constant)
        self._silence = shared.database.silence if self._needs_time else None
        # `resource_locked` names the idempotency key, so operations without one answer 503.
        self._when_locked = errors.RESOURCE_LOCKED if operation.idempotent else errors.SERVICE_UNAVAILABLE
        self._own_headers = [(header.name.lower(), header.canonical) for header in operation.headers]
        is_strict = policy.has_strict_query or operation.refuses_repeated
        self._sent_once = frozenset(one.name for one in operation.query) if is_strict else frozenset[str]()
        self._path = PathRules(operation)
        self._conflict_keys = operation.conflict_keys or (lambda _: ())
        handler = operation.handler
        self._three_phase: ThreePhaseRunner | None = None
        if isinstance(handler, ThreePhase):
            self._three_phase, handler = ThreePhaseRunner(handler, shared.database, self._outcome), handler.begin
        self._handle = handler
        has_operators = operation.surface in ("operator", "virtual") and operation.role != "every"
        self._required_role = operation.role if has_operators else None
        self._references_checked = shared.settings.card_numbers_refused_in_references
        parameters = operation.path.count("{")
        # The path of a successful request has no parameter, or the id of an order that exists.
        self._has_known_path = not parameters or (parameters == 1 and operation.path_pattern == ids.ORDER_ID_PATTERN)
        self._recorder = shared.objects[RequestRecorder] if request_recorder.is_recorded(operation) else None
        self._served = request_metrics.of(operation)
        self._repeated = shared.objects.get(RepeatedRefusals)
        self._may_be_quiet = not shared.settings.log_polls and (operation.is_health_check or WAIT in operation.query)
        self._is_console = operation.surface == "console"
        self._is_page = self._is_console or operation.surface == "page"
        self._loopback_only = operation.loopback_only or (operation.development and operation.surface == "public")
        self._begins_traces = traces.PROCESS.ratio > 0 and not operation.is_health_check

    @cached_property
    def _declared(self) -> frozenset[ErrorKind]:
        return error_responses.may_answer(self.operation)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request and log it."""
        started = runtime.monotonic()
        request = Request(scope)
        identity = request_id(request.headers.get("x-request-id"), checked=self._references_checked)
        address = request.client_address(self.shared.settings.trusted_proxies)
        span = None
        if "traceparent" in request.headers or self._begins_traces:
            span = traces.begin(trace.read(*(",".join(request.all(name)) for name in ("traceparent", "tracestate"))))
        try:
            reply = await self._reply(request, receive, identity, address)
        except Disconnected:
            return
        except (Refusal, Unavailable, KeyMissing, Locked) as error:
            reply = self._refused(error, request, identity)
            if not isinstance(error, Refusal):
                request.forget_alert()
        except Exception:
            log.exception("unhandled_exception", **self._log_facts(request, identity))
            reply = self._refused(errors.INTERNAL_ERROR.with_reason("unhandled exception"), request, identity)
            request.forget_alert()
        if reply.refusal is not None:
            self._note(reply.refusal.kind, request, identity)
        if reply.refusal is not None and reply.refusal.kind is self.policy.refused_secret:
            # Finding an existing client takes microseconds longer.
            every = REFUSED_SECRETS_EVERY_SECONDS
            await asyncio.sleep(every - (runtime.monotonic() - started) % every)
        reached("before_answer")
        if reply.stream is None:
            await send_reply(scope, send, reply, identity)
        else:
            await send_stream(receive, send, reply, reply.stream, identity)
        self._keep(request, reply, identity, address, started, span)
        if request.call is not None and request.call.alert is not None:
            # After the answer, so that its time does not reveal whether an event was reported.
            await self._reporter.report(request.call.alert, request.call.now_ms, identity)

    def _note(self, kind: ErrorKind, request: Request, identity: str) -> None:
        """Count the refusal of a token, and log an error that the operation does not declare."""
        if self.operation.surface == "token" or kind is errors.INSUFFICIENT_SCOPE:
            request_metrics.TOKEN_REFUSALS.add(kind.code)
        if kind not in self._declared:
            # The answer is sent unchanged; the tests fail on this event.
            log.error("undeclared_error", error=kind.code, **self._log_facts(request, identity))

    def _keep(
        self, request: Request, reply: Reply, identity: str, address: str, started: float, span: Trace | None
    ) -> None:
        """Count the request, log it unless it is quiet, record its span, and keep it to be recorded."""
        self._served.add(reply.status, runtime.monotonic() - started)
        recorder = self._recorder
        # Requests that are recorded come from applications and terminals, never from a page.
        if not (self._may_be_quiet and self._is_quiet(request, reply, started)) and (
            recorder is not None or reply.status >= 400 or not request.is_background(of_console=self._is_console)
        ):
            known = {identity} if request.headers.get("x-request-id") != identity else set[str]()
            if self._has_known_path and reply.status < 400:
                known.add(request.path)
            request_log.write(
                request.method,
                request.path,
                reply.status,
                identity,
                started,
                reply.refusal,
                address,
                request.identity,
                known=known,
                repeated=self._repeated,
            )
        if span is not None and traces.PROCESS.collector is not None:
            self._record(span, request, reply, started)
        if recorder is not None:
            recorder.note(self.operation.name, request, reply, identity, address, started)

    def _log_facts(self, request: Request, identity: str) -> dict[str, Any]:
        return {"request_id": identity, "operation": self.operation.name, **request.identity()}

    def _is_quiet(self, request: Request, reply: Reply, started: float) -> bool:
        """Return whether a poll found nothing or a health check passed, and took no longer than it should."""
        if reply.status >= 400 or request.call is None:
            return False
        seconds = runtime.monotonic() - started - SLOW_SECONDS
        if self.operation.is_health_check:
            return seconds < 0
        found_nothing = reply.status == 204 or reply.body.startswith(NO_EVENTS)
        return found_nothing and seconds < (WAIT.number(request.call.query) or 0)

    def _record(self, span: Trace, request: Request, reply: Reply, started: float) -> None:
        operation, attributes = self.operation, traces.order_of(request.path, reply.body)
        attributes |= {"paydesk.operation": operation.name, traces.STATUS: reply.status}
        if "seller_id" in (identity := request.identity()):
            attributes[traces.SELLER] = identity["seller_id"]
        if reply.refusal is not None:
            attributes[traces.ERROR] = reply.refusal.kind.code
        name, failed = f"{operation.method} {operation.path}", reply.status >= 500
        traces.record(span, name, started, attributes, failed=failed, is_call=False)

    def _refused(self, error: Refusal | Unavailable | KeyMissing | Locked, request: Request, identity: str) -> Reply:
        if isinstance(error, Locked):
            error = self._when_locked.with_reason("lock timeout")
        elif not isinstance(error, Refusal):
            if isinstance(error, KeyMissing) and self.shared.keys.should_log_missing(error.version):
                facts = {"key_version": error.version, "reason": str(error), **self._log_facts(request, identity)}
                log.error("server_key_missing", **facts)
            error = errors.SERVICE_UNAVAILABLE.with_reason(str(error), message=error.message)
        elif error.kind in self.policy.replaced:
            error = self.policy.replaced[error.kind].with_reason(error.reason, message=error.message)
        return refused(error, self.policy, request.headers)

    async def _reply(self, request: Request, receive: Receive, identity: str, address: str) -> Reply:
        """Make the checks in their documented order, then run the operation."""
        operation, policy, shared = self.operation, self.policy, self.shared
        raw = await request.read(receive) if self._reads_at_once else b""
        bytes_max = operation.body_bytes_max
        has_body: object = raw if bytes_max is None else request.announces_body(bytes_max)
        if not operation.is_health_check:
            request.check_host(shared.host_names, shared.https_host_names)
        document = self._read_first(request, raw, address, shared) if self._read_first is not None else None
        request.check_headers(policy.read_once, policy.malformed)
        if has_body and document is None:
            request.check_body_headers(policy.media_types)
        now_ms = shared.clock.now_ms() if self._needs_time else 0
        if self._silence is not None and self._silence.lasts and not await self._silence.ends_soon():
            raise Unavailable(SILENT)
        if operation.development:
            request.check_development(loopback_only=self._loopback_only, of_page=self._is_page)
        caller = await self._caller(self._authenticate, request, now_ms, address) if self._authenticate else ANONYMOUS
        key = ""
        if operation.idempotent:
            sent_key = request.headers.get("x-idempotency-key")
            key = idempotency.check(sent_key, references_checked=self._references_checked)
        path, paths = self._path.checked(request.scope["path_params"])
        query = self._checked_query(request) if request.query_string else {}
        request.call = call = Call(
            shared=shared,
            caller=caller,
            now_ms=now_ms,
            request_id=identity,
            address=address,
            path=path,
            paths=paths,
            query=query,
            target=request.path,
            query_string=request.query_string,
            headers=request.headers,
            disconnected=request.disconnected,
        )
        if bytes_max is not None:
            return await self._run_with_large_body(call, key, request, receive, bytes_max)
        document, call.body = self._read_body(raw, caller) if document is None else (document, document)
        if self._required_role is not None:
            self._check_role(caller, self._required_role)
        return await (self._run_with_key(call, key, document) if operation.idempotent else self._run(call))

    def _check_role(self, caller: Caller, required: Required) -> None:
        """Refuse an operator whose role does not permit it. Raises `FORBIDDEN`."""
        # Only on `virtual` applications call too.
        if caller.operator_id or self.operation.surface == "operator":
            roles.check(caller.role, required)

    async def _run_with_large_body(
        self, call: Call, key: str, request: Request, receive: Receive, bytes_max: int
    ) -> Reply:
        """Read the body after the checks that need none: a caller without a token costs no memory."""
        admitted = nullcontext() if request.has_small_body else self.shared.objects[LargeBodies].admit(call.caller)
        with admitted:
            raw = await request.read(receive, bytes_max)
            document, call.body = self._read_body(raw, call.caller)
            if self._required_role is not None:
                self._check_role(call.caller, self._required_role)
            return await (self._run_with_key(call, key, document) if self.operation.idempotent else self._run(call))

    async def _caller(self, authenticate: Authenticate, request: Request, now_ms: int, address: str) -> Caller:
        """Authenticate the bearer and check its rate limit, its scope and `X-Test-Token`."""
        operation, scope, token = self.operation, self.operation.scope, None
        try:
            token = request.bearer()
            caller = await authenticate(token, now_ms)
        except Refusal as refusal:
            refusal = unauthorized.explained(refusal, request.headers.get("authorization"), self.policy.credential)
            raise self._rates.failed(refusal, token, address) from None
        request.caller = caller
        if self._check_rate is not None:
            self._check_rate(caller)
        if scope is not None:
            if scope not in caller.scopes:
                raise errors.INSUFFICIENT_SCOPE.with_reason(
                    f"lacks {scope}",
                    f"the token lacks the scope {scope}; ask the seller to authorize the application with it",
                )
            if operation.refuses_test_header:
                request.check_test_header(live=caller.live)
        return caller

    def _checked_query(self, request: Request) -> dict[str, str]:
        query = request.query()
        if query and self._takes_body and not self.policy.query_beside_body:
            message = f"{redacted_name(next(iter(query)))} must be sent in the body, not in the query string."
            raise self.policy.malformed.with_reason("parameters in the query string", message=message)
        if self._sent_once:
            request.check_parameters(self._sent_once, may_be_empty=not self.policy.has_strict_query)
        return query

    def _read_body(self, raw: bytes, caller: Caller) -> tuple[Any, Any]:
        """Return the parsed document, and the body for the handler: an instance of its model if it has one."""
        return self.policy.read_body(self.operation, raw, caller, self.shared) if self._parses_body else (raw, raw)

    async def _run(self, call: Call) -> Reply:
        operation, database = self.operation, self.shared.database
        if operation.transaction == "none":
            # The handler may wait for something that needs a task, such as a timeout; a request begins without one.
            await asyncio.sleep(0)
            return self._outcome(await self._handle(call))

        async def work(tx: Transaction) -> Reply:
            call.begin(tx)
            reached("before_claim")
            reply = self._outcome(await self._handle(call))
            reached("after_effect")
            return reply

        if operation.transaction == "write":
            reply = await write_until_kept(database, work, self._conflict_keys(call))
            if call.alert is not None:
                operator_events.warn(call.alert, call.request_id)
                call.alert = None
            return reply
        return await database.read(work, heavy=operation.transaction == "heavy")

    def _run_with_key(self, call: Call, key_value: str, document: Any) -> Awaitable[Reply]:
        caller = call.caller
        key = Key(caller.seller_id, caller.application_id, int(caller.live), self.operation.name, call.path, key_value)
        own_headers = [canonical(call.headers.get(name, "")) for name, canonical in self._own_headers]
        digest = idempotency.request_digest(document, own_headers)
        keys = self._conflict_keys(call)
        if keys:
            keys = (*keys, conflict_keys.idempotency(key))
        if self._three_phase is not None:
            return self._three_phase.run(call, key, digest, keys)
        return self._run_once(call, key, digest, keys)

    async def _run_once(self, call: Call, key: Key, digest: bytes, keys: tuple[ConflictKey, ...]) -> Reply:
        handle = self.operation.optimistic_handler or self._handle

        async def first(tx: Transaction) -> Reply:
            call.begin(tx)
            reached("before_claim")
            reply = self._outcome(await handle(call))
            reached("after_effect")
            if reply.refusal is not None:
                raise reply.refusal
            idempotency.claim_with_response(tx, key, digest, reply.status, reply.body, call.now_ms)
            return reply

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

        try:
            return await self.shared.database.write(first, conflict_keys=keys)
        except (Refusal, Overtaken):
            # Refused, repeated or concurrent: the key decides.
            return await self.shared.database.write(work, conflict_keys=keys)

    def _outcome(self, outcome: Any) -> Reply:
        return refused(outcome, self.policy) if isinstance(outcome, Refusal) else answered(outcome, self.policy)
