"""`POST /device/v1/leases/{lease_id}/authorize`: the service asks the acquirer for a terminal of kind `service`.

The permit and the request are committed before the acquirer is asked, and its answer ends the order as `decisions`
says. A repeated request joins the call that runs on this node. If none runs, it asks again under the same payment id,
which charges nothing twice. A call continues when its terminal disconnects; if its node stops, an inquiry follows.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
from dataclasses import replace
from functools import partial

import msgspec

from paydesk.core.clock import rfc3339
from paydesk.core.crash_points import reached
from paydesk.core.errors import PROPERTY_VALUE, SERVICE_UNAVAILABLE, Refusal
from paydesk.core.keys import Keys
from paydesk.core.money import CURRENCIES, decimal_string, minor_units
from paydesk.engine.device import store
from paydesk.engine.device.authorization.calls import Answered, Authorization, Authorizations
from paydesk.engine.device.errors import (
    ACQUIRER_NOT_CONFIGURED,
    AUTHORIZATION_CONFLICT,
    LEASE_NOT_FOUND,
    NOT_A_SERVICE_TERMINAL,
)
from paydesk.engine.device.leases import ended, lease_keys, lock_order, order_body, permit
from paydesk.engine.device.schemas import AuthorizationOutcome, AuthorizeRequest
from paydesk.engine.device.sessions import lock_session, refuse_revoked
from paydesk.engine.orders import status
from paydesk.engine.orders import store as orders
from paydesk.engine.orders.change import Change, change_of
from paydesk.engine.orders.order import Order
from paydesk.engine.payments import confirmation_store
from paydesk.engine.payments import terms as payment_terms
from paydesk.engine.payments.acquirer import Card
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.terms import Requested, Terms, payment_of
from paydesk.platform.operation import Answer, Call, Handled
from paydesk.platform.storage.database import Transaction


async def authorize(call: Call) -> Handled:
    """Have the service request the authorization (terminals of kind service). Without one in time it is `unknown`."""
    authorizations = call.shared.objects[Authorizations]
    running = authorizations.running(f"ORD{call.path.upper()}")
    begin = partial(_begin, call=call, is_running=running is not None)
    begun = await call.database.write(begin, conflict_keys=lease_keys(call))
    if not isinstance(begun, Authorization):
        return begun
    reached("intent_committed")
    # A call that has ended meanwhile has left the order as this request would: it is not started again.
    task = running or authorizations.join(begun.order, lambda: begun.run(lease_keys(call)))
    await asyncio.wait((task,))
    if task.cancelled():
        raise SERVICE_UNAVAILABLE.with_reason("the node stops", message="The node is stopping. Repeat the request.")
    return _answer(task.result())


async def _begin(tx: Transaction, call: Call, *, is_running: bool) -> Authorization | Answer | Refusal:
    """Commit the permit and the authorization; or return what is known of an earlier request with the same content.

    `is_running`: this node is asking the acquirer already, so that no further call will be started.
    """
    call.begin(tx)
    refuse_revoked(call)
    request: AuthorizeRequest = call.body
    change, session = change_of(call), await lock_session(call, request.boot_id)
    order = await orders.expire_overdue(change, await lock_order(tx, call.caller, call.path))
    terms = await payment_terms.find(tx, order)
    if terms.kind != "service":
        raise NOT_A_SERVICE_TERMINAL.with_reason(f"a terminal of kind {terms.kind}")
    earlier = terms.requested
    if earlier is not None and not hmac.compare_digest(
        _digest(request, call.keys, earlier.key_version), earlier.digest
    ):
        raise AUTHORIZATION_CONFLICT.with_reason("other content")
    if order.status not in status.LIVE or order.detached_ms is not None:
        # Returned, not raised, so that the expiry is committed.
        return ended(order) if earlier is None else _answer(Answered(order))
    is_first, acquirer = earlier is None, call.shared.objects[Acquirers].of(order)
    if is_first:
        if acquirer is None:
            raise ACQUIRER_NOT_CONFIGURED.with_reason("no acquirer")
        terms = replace(terms, requested=_requested(request, _tip_minor(request, order, terms), call.keys))
        await _permit(change, order, session, call.shared.objects[Acquirers].name_of(order))
    send_ms = (order.permitted_ms or call.now_ms) + call.settings.grant_seconds * 1000 - call.now_ms
    approval = await confirmation_store.provisional(tx, order)
    if order.state != status.AT_TERMINAL or send_ms <= 0 or acquirer is None or approval is not None:
        return _answer(Answered(order, approval))
    if is_first and terms.requested is not None:
        needs_confirmation = acquirer.capabilities.needs_confirmation
        await payment_terms.request(tx, order, terms.requested, call.now_ms, needs_confirmation=needs_confirmation)
    elif "authorize" not in acquirer.capabilities.idempotent and not is_running:
        # A second call, on any node, could charge twice.
        return _answer(Answered(order))
    elif not is_running:
        await payment_terms.repeat(tx, order, call.now_ms)
    method, card = request.payment_method, request.card
    return Authorization(
        database=call.database,
        clock=call.clock,
        settings=call.settings,
        labels=change.labels,
        acquirer=acquirer,
        order=order,
        terms=terms,
        payment=replace(payment_of(order, terms), store_id=terms.store_id, pos_id=terms.pos_id),
        card=Card(method.id, method.type, card.first_digits, card.last_digits, request.entry_mode),
        blob=request.blob,
        request_id=call.request_id,
        send_seconds_max=send_ms / 1000,
    )


async def _permit(change: Change, order: Order, session: int, acquirer: str | None) -> None:
    """Take the authorization permit, as the step `authorizing` does; the order keeps its acquirer. Raises refusals."""
    lease = await store.find_lease(change.tx, order.seller_id, order.ulid)
    if lease is None:
        raise LEASE_NOT_FOUND.with_reason("never acknowledged")
    permitted_ms = await permit(change, order, lease, session)
    if isinstance(permitted_ms, Refusal):
        raise permitted_ms
    if acquirer not in (None, order.acquirer):
        await payment_terms.keep_acquirer(change.tx, order, acquirer)


def _tip_minor(request: AuthorizeRequest, order: Order, terms: Terms) -> int:
    """Return the requested tip. Raises `property_value` for a tip that the terminal does not offer."""
    decimals = CURRENCIES[order.currency].decimals
    tip_minor = minor_units(request.tip_amount or "0", decimals)
    if tip_minor is None:
        raise PROPERTY_VALUE.with_reason("tip", f"'$.tip_amount' - must be an amount of {order.currency}")
    tip_minor_max = terms.tip_minor_max(order.amount_minor)
    if tip_minor > tip_minor_max:
        rule = f"must be at most {decimal_string(tip_minor_max, decimals)}, the largest tip that the terminal offers"
        raise PROPERTY_VALUE.with_reason("tip", f"'$.tip_amount' - {rule}")
    return tip_minor


def _requested(request: AuthorizeRequest, tip_minor: int, keys: Keys) -> Requested:
    card = {**request.card.model_dump(), "entry_mode": request.entry_mode}
    return Requested(
        _digest(request, keys, keys.active),
        keys.active,
        tip_minor,
        request.payment_method.model_dump_json(),
        msgspec.json.encode(card).decode(),
    )


def _digest(request: AuthorizeRequest, keys: Keys, key_version: int) -> bytes:
    """Return a keyed digest of the content: the encrypted data can't be found by trial."""
    content = request.model_dump(exclude={"boot_id"}, exclude_none=True)
    return keys.derive(key_version, "authorization", msgspec.json.encode(content, order="sorted"))


def _answer(answered: Answered) -> Answer | Refusal:
    """Return the outcome that the order has; while an approval waits for the terminal's result, the approval."""
    order, approval = answered.order, answered.approval
    shown = order_body(order).order
    if approval is not None:
        body = AuthorizationOutcome(
            "approved",
            order.payment_status_detail,
            shown,
            approval.authorization_code,
            approval.reference_id,
            issuer_data=_base64(approval.issuer_data),
            result_required=True,
            until=rfc3339(approval.decide_by_ms),
        )
        return Answer(200, body)
    if order.paid_ms is not None:
        codes = order.authorization_code, order.reference_id
        return Answer(200, AuthorizationOutcome("approved", "accredited", shown, *codes))
    if order.status == "failed":
        issuer_data = _base64(answered.issuer_data)
        return Answer(
            200, AuthorizationOutcome("declined", order.payment_status_detail, shown, issuer_data=issuer_data)
        )
    if order.status == "canceled":
        return ended(order)
    return Answer(200, AuthorizationOutcome("unknown", order.payment_status_detail, shown))


def _base64(data: bytes | None) -> str | None:
    return base64.b64encode(data).decode() if data else None
