"""What operators do in development alone: codes without a browser, virtual terminals, and sending something again."""

from __future__ import annotations

from paydesk.core.errors import PROPERTY_VALUE, SELLER_NOT_FOUND
from paydesk.operators import errors, schemas
from paydesk.operators.deliveries.operations import DELIVERY
from paydesk.operators.noun import ROWS
from paydesk.operators.requests.operations import REQUEST
from paydesk.operators.terminals.operations import TERMINAL
from paydesk.operators.words import Words
from paydesk.platform.operation import Operation
from paydesk_dev import codes
from paydesk_dev.faults.subscriptions import RETIRED as FAULTS
from paydesk_dev.resending import delivery as sent_elsewhere
from paydesk_dev.resending import request as sent_again
from paydesk_dev.virtual.api import handlers as virtual
from paydesk_dev.virtual.api.schemas import TerminalRequest, VirtualTerminal
from paydesk_dev.virtual.errors import TOO_MANY_TERMINALS

OPERATIONS: tuple[Operation, ...] = (
    ROWS.post(
        "codes",
        "operator_create_codes",
        codes.create,
        body=schemas.CodeRequest,
        answer=codes.NewCode,
        status=201,
        summary="Issue an authorization code",
        description="The code is the one that the seller's consent would have issued.",
        development=True,
        errors=(errors.APPLICATION_NOT_FOUND, SELLER_NOT_FOUND),
    ),
    TERMINAL.creating(
        virtual.create_by_operator,
        TerminalRequest,
        VirtualTerminal,
        description="It takes test orders at once, at a new point of sale unless `pos_id` is sent.",
        transaction="none",
        development=True,
        errors=(SELLER_NOT_FOUND, errors.POS_NOT_FOUND, errors.POS_TAKEN, TOO_MANY_TERMINALS),
        words=Words("New virtual terminal", did="Added", form=None, command=None),
    ),
    *FAULTS,
    REQUEST.acting(
        "send",
        sent_again.send,
        body=sent_again.SendRequest,
        answer=sent_again.SentRequest,
        description="With a token of the credentials file. What is not sent here is as in the recorded request.",
        transaction="none",
        development=True,
        errors=(PROPERTY_VALUE, sent_again.CANNOT_SEND_AGAIN),
    ),
    DELIVERY.acting(
        "send-to",
        sent_elsewhere.send_to,
        role="resend",
        name="operator_send_delivery_to",
        body=sent_elsewhere.SendElsewhere,
        answer=sent_elsewhere.SentElsewhere,
        description="Sends the same notification once, at once, with the same ids and body and a new signature by the"
        " subscription's secrets, also if the subscription is paused; its fault has no effect. Returns what the"
        " receiver answered. It is no attempt: nothing of the delivery changes.",
        transaction="none",
        development=True,
        errors=(errors.SUBSCRIPTION_ENDED, PROPERTY_VALUE),
    ),
)
