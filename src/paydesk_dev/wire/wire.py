"""The Wire: requests of tills and terminals pass it before the application, and their answers after it.

Without a fault and without the header `Paydesk-Fault` a request passes by. Otherwise it is read as a whole and counted;
one that a fault disturbs is lost, delayed or refused, or the application runs and its answer is lost, late or changed.
A sender that has hung up changes nothing of that: what arrives late takes effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from paydesk.core import faults, runtime
from paydesk.core.errors import BAD_REQUEST, Refusal
from paydesk.core.faults import MATCHES, FaultRefused
from paydesk.core.text.redaction import redacted_body
from paydesk.platform.http.asgi import BREAK, ASGIApp, Message, Receive, Scope, Send
from paydesk.platform.http.recording.refused import note_refused
from paydesk.platform.http.reply import Reply, refused, request_id, send_reply
from paydesk.platform.http.request import IN_PROCESS, Request
from paydesk.platform.http.surfaces import POLICIES, Callers
from paydesk.platform.shared import Shared
from paydesk.platform.storage.database import Locked, Unavailable
from paydesk_dev.faults.active import BODY_CHARACTERS_MAX, ON_WIRE, Active, Faults, Firing, RequestFacts, limited_to
from paydesk_dev.faults.requests import Received, Requests, describe_request
from paydesk_dev.wire.answers import Answer, changed, pieces, refusal_of

HEADER, NO_FAULT = b"paydesk-fault", b"none"
_IDENTITY = b"x-request-id"


class Wire:
    """Passes requests to an application, with the faults of the process."""

    def __init__(self, app: ASGIApp, shared: Shared) -> None:
        self._app, self._shared = app, shared
        self._faults, self._requests = shared.objects[Faults], shared.objects[Requests]
        self._faults.bind(shared.database.signals)
        self._overtaken = dict[Firing, bool]()
        """The requests that wait for a later one of their terminals, and whether it was answered."""

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Pass a request on. One with the header `Paydesk-Fault: none` counts for no fault."""
        if IN_PROCESS not in scope:
            header = dict(scope["headers"]).get(HEADER)
            if (self._faults.on_wire or header is not None) and header != NO_FAULT:
                return self._handle(scope, receive, send, header)
        return self._app(scope, receive, send)

    async def _handle(self, scope: Scope, receive: Receive, send: Send, header: bytes | None) -> None:
        """Read a request that a fault may disturb; pass it on, or apply the fault."""
        operation = self._requests.find(scope["method"], scope["path"])
        if operation is None:
            await self._app(scope, receive, send)
            return
        messages = await _read(receive, self._requests.body_bytes_max(operation[0]))
        if messages[-1]["type"] == "http.disconnect":
            await self._app(scope, _replayed(messages, receive), send)
            return
        raw = b"".join(one.get("body", b"") for one in messages)
        identity = _identify(scope, checked=self._shared.settings.card_numbers_refused_in_references)
        exchange = _Exchange(self._app, self._shared, Received(*operation, scope, raw), messages, send, identity)
        names = {name for edge in ON_WIRE for name in self._faults.matched_names(edge)}
        request = await describe_request(exchange.received, self._shared, identity, names)
        terminal = request.facts.get("terminal") if request.edge == "terminal" else None
        overtaken = [one for one in self._overtaken if terminal and terminal == one.request.facts.get("terminal")]
        try:
            fired = self._fire(request, operation[0].name, header)
        except FaultRefused as error:
            await exchange.refuse(BAD_REQUEST.with_reason("Paydesk-Fault", message=f"Paydesk-Fault: {error}."))
            return
        try:
            if fired is None:
                await self._app(scope, _replayed(messages, receive), send)
            else:
                await self._apply(exchange, *fired)
        finally:
            self._overtaken.update((one, True) for one in overtaken if one in self._overtaken)
            if overtaken:
                self._faults.notify()

    def _fire(self, request: RequestFacts, operation: str, header: bytes | None) -> tuple[Active, Firing] | None:
        """Return the fault of the request with its firing. Raises `FaultRefused` for a mistake in its header."""
        now_ms = self._shared.clock.now_ms()
        if header is None:
            return self._faults.take(request, operation, now_ms)
        fault = faults.parse_header(request.edge, operation, header.decode("latin-1"))
        own = {name: request.facts[name] for name in ("application", "seller") if name in request.facts}
        own = {name: value for name, value in own.items() if name in MATCHES[request.edge]}
        active = self._faults.add(limited_to(fault, own), now_ms, of_header=True)
        return active, self._faults.begin(active, request, operation, now_ms)

    async def _apply(self, exchange: _Exchange, active: Active, firing: Firing) -> None:
        """Apply the fault to the request."""
        fault, kind = active.fault, firing.kind
        delay = fault.delay_of(kind)
        match kind.name:
            case "reset":
                await exchange.note_refused(Reply(0))
                self._note(active, firing, None)
                exchange.break_off(reset=True)
                return
            case "busy" | "limited" | "error" | "missing":
                reply = await exchange.refuse(refusal_of(fault, kind, exchange.received.operation))
                self._note(active, firing, Answer(reply.status, [], reply.body))
                return
            case "late" | "out_of_order":
                self._note(active, firing, None)
                if kind.name == "late":
                    await self._faults.pause(active, firing, delay)
                else:
                    await self._wait_for_later(active, firing, delay)
                firing.ran_ms = self._shared.clock.now_ms()
        runs = (exchange.run() for _ in range(2 if kind.name == "twice" else 1))
        answers = await asyncio.gather(*runs, return_exceptions=True)
        answer = next((one for one in answers if isinstance(one, Answer)), None)
        if kind.name in ("late", "out_of_order"):
            self._keep(firing, answer)
        else:
            self._note(active, firing, answer)
        if answer is not None:
            await self._give(exchange, active, firing, answer)
        for error in answers:
            if isinstance(error, BaseException):
                raise error

    async def _give(self, exchange: _Exchange, active: Active, firing: Firing, answer: Answer) -> None:
        """Send the answer as the fault lets it come."""
        fault, kind = active.fault, firing.kind
        delay = fault.delay_of(kind)
        match kind.name:
            case "answer_lost":
                exchange.break_off(reset=True)
            case "cut":
                await exchange.give(answer, [answer.body[: len(answer.body) // 2]], is_whole=False)
                exchange.break_off(reset=not answer.body)
            case "error_after":
                await exchange.refuse(refusal_of(fault, kind, exchange.received.operation), is_effective=True)
            case "dribble" if answer.body:
                parts = pieces(answer.body)
                pause = (delay or 0) / len(parts)
                await exchange.give(answer, parts, lambda: self._faults.pause(active, firing, pause))
            case "slow":
                await self._faults.pause(active, firing, delay)
                await exchange.give(answer, [answer.body])
            case "broken_json" | "altered" | "empty":
                answer = changed(answer, fault, kind)
                await exchange.give(answer, [answer.body])
            case _:
                await exchange.give(answer, [answer.body])

    async def _wait_for_later(self, active: Active, firing: Firing, delay: float | None) -> None:
        """Hold a terminal's request until one that it sent later was answered, at most for the delay."""
        self._overtaken[firing] = False
        try:
            await self._faults.pause(active, firing, delay, lambda: self._overtaken[firing])
        finally:
            del self._overtaken[firing]

    def _note(self, active: Active, firing: Firing, answer: Answer | None) -> None:
        self._keep(firing, answer)
        self._faults.note(active, firing)

    def _keep(self, firing: Firing, answer: Answer | None) -> None:
        """Keep what the sender got, or would have got, without secrets."""
        if answer is None:
            return
        text = redacted_body(answer.body.decode("utf-8", "replace"), is_answer=True)
        firing.answer = answer.status, text[:BODY_CHARACTERS_MAX]
        created = (answer.document or {}).get("id", "") if answer.status == 201 else ""
        if str(created).startswith("ORD"):
            firing.order = str(created)


class _Exchange:
    """A request that a fault may disturb, and its answer."""

    def __init__(
        self,
        app: ASGIApp,
        shared: Shared,
        received: Received,
        messages: list[Message],
        send: Send,
        identity: str,
    ) -> None:
        self._app, self._shared, self.received = app, shared, received
        self._messages, self._send, self._identity = messages, send, identity
        self._started = runtime.monotonic()

    async def run(self) -> Answer | None:
        """Run the application once, and return its answer."""
        answer: list[Message] = []

        async def collect(message: Message) -> None:
            answer.append(message)

        async def never() -> Message:
            await asyncio.get_running_loop().create_future()
            raise AssertionError("nothing follows")

        # Without the extensions the answer comes here, and a sender that has gone is not noticed.
        await self._app({**self.received.scope, "extensions": {}}, _replayed(self._messages, never), collect)
        return Answer.of(answer)

    async def give(
        self,
        answer: Answer,
        parts: list[bytes],
        pause: Callable[[], Awaitable[None]] | None = None,
        *,
        is_whole: bool = True,
    ) -> None:
        """Send the answer in these parts, with a pause before each."""
        await self._send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
        for number, part in enumerate(parts, 1):
            if pause is not None:
                await pause()
            more = not is_whole or number < len(parts)
            await self._send({"type": "http.response.body", "body": part, "more_body": more})

    async def refuse(self, refusal: Refusal, *, is_effective: bool = False) -> Reply:
        """Answer with a refusal; unless the request took effect, it is logged and recorded."""
        received = self.received
        reply = refused(refusal, POLICIES[received.operation.surface])
        if not is_effective:
            await self.note_refused(reply)
        await send_reply({}, self._send, reply, self._identity)
        return reply

    async def note_refused(self, reply: Reply) -> None:
        """Log and record a request that does not reach the application; a status of 0 is none."""
        received, shared = self.received, self._shared
        request, operation = Request(received.scope), received.operation
        request.raw = received.raw
        authenticate = shared.objects[Callers].authenticate.get(operation.surface)
        with suppress(Refusal, Unavailable, Locked):  # It is recorded without its caller.
            token = request.bearer()
            request.caller = await authenticate(token, shared.clock.now_ms()) if authenticate and token else None
        note_refused(shared, operation, request, reply, self._identity, self._started)

    def break_off(self, *, reset: bool) -> None:
        """Break the connection: reset it, or close it after what was sent."""
        self.received.scope["extensions"][BREAK](reset)


async def _read(receive: Receive, bytes_max: int) -> list[Message]:
    """Return the messages of a request's body, no more than its operation takes."""
    messages, length = list[Message](), 0
    while length <= bytes_max:
        messages.append(await receive())
        length += len(messages[-1].get("body", b""))
        if not messages[-1].get("more_body", False):
            break
    return messages


def _replayed(messages: list[Message], then: Receive) -> Receive:
    """Return a function that receives these messages again, and what follows them."""
    left = iter(messages)

    async def receive() -> Message:
        message = next(left, None)
        return await then() if message is None else message

    return receive


def _identify(scope: Scope, *, checked: bool) -> str:
    """Return the id of the request's answer: without a valid one in its head, a new one is set there."""
    sent = [value.decode("latin-1") for name, value in scope["headers"] if name == _IDENTITY]
    identity = request_id(sent[-1] if sent else None, checked=checked)
    if len(sent) < 2 and sent != [identity]:
        others = [(name, value) for name, value in scope["headers"] if name != _IDENTITY]
        scope["headers"] = [*others, (_IDENTITY, identity.encode())]
    return identity
