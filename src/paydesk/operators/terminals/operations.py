"""What operators do about terminals, their queue and their pairing."""

from __future__ import annotations

from dataclasses import replace

from paydesk.core.errors import IN_USE, PROPERTY_VALUE, SELLER_NOT_FOUND
from paydesk.operators import errors
from paydesk.operators.noun import Noun, creating, listing
from paydesk.operators.terminals import changes, fields, handlers, pairing, queue
from paydesk.sandbox.virtual.errors import TOO_MANY_TERMINALS
from paydesk.sandbox.virtual.schemas import VirtualTerminal
from paydesk.terminals.errors import (
    PAIRING_NOT_FOUND,
    TERMINAL_ALREADY_PAIRED,
    TERMINAL_BUSY,
    TERMINAL_NOT_FOUND,
)
from paydesk.terminals.pairing_codes import USER_CODE_PATTERN
from paydesk.terminals.schemas import TERMINAL_ID_PATTERN

_TERMINAL = Noun(
    "terminals/{terminal_id}", "terminal", TERMINAL_ID_PATTERN, handlers.TerminalDocument, TERMINAL_NOT_FOUND
)
_QUEUE = replace(_TERMINAL, path=f"{_TERMINAL.path}/queue", name="queue", document=queue.QueueDocument)
_PAIRING = Noun("pairings/{user_code}", "pairing", USER_CODE_PATTERN, None, PAIRING_NOT_FOUND)
_WRONG_CODES = "An operator may send five wrong codes a minute."

OPERATIONS = (
    listing("terminals", handlers.PAGES),
    creating(
        "terminals",
        handlers.create,
        fields.TerminalRequest,
        VirtualTerminal,
        summary="Add a virtual terminal",
        description="It takes test orders at once, at a new point of sale unless `pos_id` is sent.",
        transaction="none",
        development=True,
        errors=(SELLER_NOT_FOUND, errors.POS_NOT_FOUND, errors.POS_TAKEN, TOO_MANY_TERMINALS),
    ),
    _TERMINAL.reading(handlers.get, summary="Get a terminal", name="operator_get_terminal"),
    _TERMINAL.changing(
        changes.change,
        fields.TerminalChange,
        summary="Change a terminal's mode, place, tips or script",
        errors=(errors.STORE_NOT_FOUND, errors.POS_NOT_FOUND, TERMINAL_BUSY, errors.POS_TAKEN),
        transaction="none",
    ),
    _TERMINAL.deleting(
        changes.delete,
        summary="Delete a terminal without a live order",
        status=204,
        answer=None,
        transaction="none",
        errors=(IN_USE,),
        description=(
            "Its device token is revoked, its orders stay, and it may still report results of its own orders for 7"
            " days. Any seller can be paired with it afterwards. The point of sale that was made for a virtual terminal"
            " is deleted with it."
        ),
    ),
    _TERMINAL.acting(
        "revoke",
        changes.revoke,
        summary="Revoke a terminal's device token",
        description=(
            "The terminal may still report results of earlier orders for 7 days; pair it anew for another token."
            " Revoking a revoked token has no effect."
        ),
    ),
    _QUEUE.reading(
        queue.queue,
        summary="Show what holds a terminal",
        description=(
            "The terminal's live order or print action, what that waits for (`waits_for`) and until when."
            " Empty if the terminal is free."
        ),
    ),
    _TERMINAL.acting(
        "release",
        queue.release,
        summary="Release a terminal from its order",
        answer=queue.ReleaseDocument,
        body=fields.ReleaseRequest,
        description=(
            "The order is canceled at once, without an answer of the terminal, which gets `cancel` if it has the order."
            " Not after authorization was permitted: the card may be charged. Without an order nothing changes. The"
            " audit trail records the reason."
        ),
        errors=(errors.CANNOT_RELEASE_TERMINAL,),
    ),
    _PAIRING.reading(
        pairing.get,
        summary="Get the terminal that shows a code",
        name="operator_get_pairing",
        answer=pairing.PairingDocument,
        transaction="none",
        description=f"The code is valid for 5 minutes and is used once. {_WRONG_CODES}",
    ),
    creating(
        "pairings/{user_code}",
        pairing.approve,
        fields.PairingApproval,
        handlers.TerminalDocument,
        name="operator_approve_pairing",
        summary="Pair the terminal that shows a code with a seller",
        path_pattern=USER_CODE_PATTERN,
        transaction="none",
        description=(
            "The terminal gets its device token with its next poll. It takes orders once its `operating_mode` is set."
            f" {_WRONG_CODES}"
        ),
        errors=(
            PAIRING_NOT_FOUND,
            SELLER_NOT_FOUND,
            PROPERTY_VALUE,
            TERMINAL_ALREADY_PAIRED,
            IN_USE,
            errors.STORE_NOT_FOUND,
            errors.POS_NOT_FOUND,
        ),
    ),
    _PAIRING.deleting(
        pairing.deny,
        summary="Deny the pairing of the terminal that shows a code",
        name="operator_deny_pairing",
        status=204,
        transaction="none",
        description=f"The terminal gets `access_denied`. {_WRONG_CODES}",
    ),
)
