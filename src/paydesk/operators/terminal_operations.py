"""The endpoints of operators about terminals, their pairing and their queue, and about stores and points of sale."""

from __future__ import annotations

from dataclasses import replace

from paydesk.core.errors import IN_USE, PROPERTY_VALUE, SELLER_NOT_FOUND
from paydesk.core.ids import NUMBER_PATTERN
from paydesk.operators import (
    errors,
    pairings,
    slot,
    store_changes,
    stores,
    terminal_changes,
    terminal_schemas,
    terminals,
)
from paydesk.operators.lists import OF_SELLER
from paydesk.operators.noun import Noun, creating, listing
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

_STORE = Noun("stores/{store_id}", "store", NUMBER_PATTERN, stores.StoreDocument, errors.STORE_NOT_FOUND)
_POS = Noun("pos/{pos_id}", "pos", NUMBER_PATTERN, stores.PosDocument, errors.POS_NOT_FOUND)
_TERMINAL = Noun(
    "terminals/{terminal_id}", "terminal", TERMINAL_ID_PATTERN, terminals.TerminalDocument, TERMINAL_NOT_FOUND
)
_QUEUE = replace(_TERMINAL, path=f"{_TERMINAL.path}/queue", name="queue", document=slot.QueueDocument)
_PAIRING = Noun("pairings/{user_code}", "pairing", USER_CODE_PATTERN, None, PAIRING_NOT_FOUND)
_WRONG_CODES = "An operator may send five wrong codes a minute."

OPERATIONS = (
    listing("stores", stores.STORE_PAGES),
    creating(
        "stores",
        stores.create_store,
        terminal_schemas.StoreRequest,
        stores.StoreDocument,
        summary="Add a store",
        errors=(SELLER_NOT_FOUND,),
    ),
    listing("pos", stores.POS_PAGES),
    creating(
        "pos",
        stores.create_pos,
        terminal_schemas.PosRequest,
        stores.PosDocument,
        summary="Add a point of sale",
        errors=(errors.STORE_NOT_FOUND, errors.EXTERNAL_POS_ID_TAKEN),
    ),
    listing("terminals", terminals.PAGES),
    creating(
        "terminals",
        terminals.create,
        terminal_schemas.TerminalRequest,
        VirtualTerminal,
        summary="Add a virtual terminal",
        description="It takes test orders at once, at a new point of sale unless `pos_id` is sent.",
        transaction="none",
        development=True,
        errors=(SELLER_NOT_FOUND, errors.POS_NOT_FOUND, errors.POS_TAKEN, TOO_MANY_TERMINALS),
    ),
    _STORE.changing(
        store_changes.change_store,
        terminal_schemas.StoreChange,
        summary="Rename a store",
        errors=(PROPERTY_VALUE,),
        query=(OF_SELLER,),
    ),
    _STORE.deleting(
        store_changes.delete_store,
        summary="Delete a store without points of sale",
        status=204,
        answer=None,
        query=(OF_SELLER,),
        errors=(PROPERTY_VALUE, IN_USE),
    ),
    _POS.changing(
        store_changes.change_pos,
        terminal_schemas.PosChange,
        summary="Change a point of sale",
        errors=(PROPERTY_VALUE, errors.EXTERNAL_POS_ID_TAKEN),
        query=(OF_SELLER,),
    ),
    _POS.deleting(
        store_changes.delete_pos,
        summary="Delete a point of sale without terminals",
        status=204,
        answer=None,
        query=(OF_SELLER,),
        errors=(PROPERTY_VALUE, IN_USE),
    ),
    _TERMINAL.reading(terminals.get, summary="Get a terminal", name="operator_get_terminal"),
    _TERMINAL.changing(
        terminal_changes.change,
        terminal_schemas.TerminalChange,
        summary="Change a terminal's mode, place, tips or script",
        errors=(errors.STORE_NOT_FOUND, errors.POS_NOT_FOUND, TERMINAL_BUSY, errors.POS_TAKEN),
        transaction="none",
    ),
    _TERMINAL.deleting(
        terminal_changes.delete,
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
        terminal_changes.revoke,
        summary="Revoke a terminal's device token",
        description=(
            "The terminal may still report results of earlier orders for 7 days; pair it anew for another token."
            " Revoking a revoked token has no effect."
        ),
    ),
    _QUEUE.reading(
        slot.queue,
        summary="Show what holds a terminal",
        description=(
            "The terminal's live order or print action, what that waits for (`waits_for`) and until when."
            " Empty if the terminal is free."
        ),
    ),
    _TERMINAL.acting(
        "release",
        slot.release,
        summary="Release a terminal from its order",
        answer=slot.ReleaseDocument,
        body=terminal_schemas.ReleaseRequest,
        description=(
            "The order is canceled at once, without an answer of the terminal, which gets `cancel` if it has the order."
            " Not after authorization was permitted: the card may be charged. Without an order nothing changes. The"
            " audit trail records the reason."
        ),
        errors=(errors.CANNOT_RELEASE_TERMINAL,),
    ),
    _PAIRING.reading(
        pairings.get,
        summary="Get the terminal that shows a code",
        name="operator_get_pairing",
        answer=pairings.PairingDocument,
        transaction="none",
        description=f"The code is valid for 5 minutes and is used once. {_WRONG_CODES}",
    ),
    creating(
        "pairings/{user_code}",
        pairings.approve,
        terminal_schemas.PairingApproval,
        terminals.TerminalDocument,
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
        pairings.deny,
        summary="Deny the pairing of the terminal that shows a code",
        name="operator_deny_pairing",
        status=204,
        transaction="none",
        description=f"The terminal gets `access_denied`. {_WRONG_CODES}",
    ),
)
