"""What operators do about terminals, their queue and their pairing."""

from __future__ import annotations

from dataclasses import replace

from paydesk.core.errors import IN_USE, PROPERTY_VALUE, SELLER_NOT_FOUND
from paydesk.core.text.sentences import First, When
from paydesk.engine.terminals.errors import (
    PAIRING_NOT_FOUND,
    TERMINAL_ALREADY_PAIRED,
    TERMINAL_BUSY,
    TERMINAL_NOT_FOUND,
)
from paydesk.engine.terminals.pairing.codes import USER_CODE_PATTERN
from paydesk.engine.terminals.schemas import EXAMPLE_TERMINAL_ID, TERMINAL_ID_PATTERN
from paydesk.operators import errors
from paydesk.operators.noun import ROWS, Noun
from paydesk.operators.schemas import ReasonRequest
from paydesk.operators.terminals import changes, fields, handlers, pairing, queue
from paydesk.operators.words import Action, Column, Words, columns

TERMINAL = Noun(
    "terminals/{terminal_id}",
    "terminal",
    TERMINAL_ID_PATTERN,
    handlers.RegisteredTerminal,
    TERMINAL_NOT_FOUND,
    key="id",
    example=EXAMPLE_TERMINAL_ID,
    argument={"terminal_id": "The terminal, see `paydesk terminals list`."},
    generic={"serial": "the terminal", "seller_name": "the seller"},
    facts=lambda terminal: {"serial": fields.serial_of(terminal["terminal_id"])},
)
_QUEUE = replace(TERMINAL, path=f"{TERMINAL.path}/queue", name="queue", document=queue.QueueDocument)
_PAIRING = Noun(
    "pairings/{user_code}",
    "pairing",
    USER_CODE_PATTERN,
    None,
    PAIRING_NOT_FOUND,
    title="terminal",
    section="terminals",
    page="/pair/{user_code}",
    pages="/terminals",
)
_WRONG_CODES = "An operator may send five wrong codes a minute."
_NEEDS_FREE = "It must have no order and no print action."
SET_MODE = Words(
    "Set the mode of {serial}",
    says=("It is in mode {operating_mode}. It shows the new mode at once.", _NEEDS_FREE),
    done=When(
        "operating_mode",
        "The terminal is in mode {operating_mode}: it takes orders.",
        fields.TAKING_ORDERS,
        otherwise="The terminal is in mode {operating_mode}: it does not take orders.",
    ),
    submit="Set the mode",
    repeatable=True,
    form="mode",
    fields=("operating_mode",),
)
_SET_TIPS = Words(
    "Tips at {serial}",
    says=("The buyer chooses one of them, or none, before the payment. From the next order on.", _NEEDS_FREE),
    done=When("tips", "The terminal offers tips of {tips}.", otherwise="The terminal offers no tips."),
    submit="Set the tips",
    repeatable=True,
    form="tips",
    fields=("tip_percentages",),
    facts=lambda terminal: {"tips": ", ".join(f"{one} %" for one in terminal.get("tip_percentages", ()))},
)
_MOVE = Words(
    "Move {serial}",
    says=("It is at {place}. Orders that it had stay where they were made.", _NEEDS_FREE),
    done="The terminal is at {place}.",
    submit="Move the terminal",
    form="place",
    asks=fields.PlaceForm,
    facts=lambda terminal: {"place": fields.place_of(terminal)},
    sends=lambda typed, _: fields.place_sent(typed["place"]),
)
LIST = TERMINAL.listing(
    handlers.PAGES,
    words=Words(
        "Terminals",
        says="By seller and id.",
        columns=(
            Column("id", "Terminal", "terminal", style="what", at=1),
            Column("presence", "Presence", "presence", at=2),
            Column("current_order", "Order", "holder", style="nowrap"),
            Column("operating_mode", "Mode", "mode", at=4),
            Column("store_name", "Place", "place"),
            Column("seller_name", "Seller"),
            Column("last_seen_date", "Last seen", "seen", style="nowrap", label="seen", at=5),
            Column("app_version", "App", style="wide mono", label="app"),
            Column("order", at=3),
            *columns(
                *("status", "kind", "script", "live_mode", "seller_id", "store_id", "pos_id", "page_url"), first=6
            ),
        ),
        examples=("", "--presence offline --mode PDV", "--text 'Main street' --seller 1160535239 --json"),
    ),
)

OPERATIONS = (
    LIST,
    TERMINAL.reading(
        handlers.get,
        words=Words(
            "Show {serial}",
            says="Its presence, its order, its mode and its place are shown.",
        ),
    ),
    TERMINAL.changing(
        changes.change,
        fields.TerminalChange,
        errors=(errors.STORE_NOT_FOUND, errors.POS_NOT_FOUND, TERMINAL_BUSY, errors.POS_TAKEN),
        transaction="none",
        words=Words(
            "Change {serial}",
            says="Only what is given changes. All but the script needs a terminal without an order and a print action.",
            done="{serial} is changed.",
            repeatable=True,
            form=None,
            forms=(SET_MODE, _SET_TIPS, _MOVE),
            examples=(
                f"{EXAMPLE_TERMINAL_ID} --mode PDV",
                f"{EXAMPLE_TERMINAL_ID} --pos 47792476 --tip 10 --tip 15",
                f"{EXAMPLE_TERMINAL_ID} --no-tips",
                "PAYDESK_VIRTUAL__C2AFE1BB4D93 --script decline:card_disabled",
            ),
        ),
    ),
    TERMINAL.deleting(
        changes.delete,
        transaction="none",
        errors=(IN_USE,),
        description="Its device token is revoked, its orders stay, and it may still report results of its own orders"
        " for 7 days. Any seller can be paired with it afterwards. The point of sale that was made for a virtual"
        " terminal is deleted with it.",
        words=Words(
            "Delete {serial}",
            says=(
                "{seller_name} no longer has the terminal, and its device token is revoked. Its orders stay.",
                "Any seller can be paired with it afterwards. The point of sale that was made for a virtual terminal is"
                " deleted with it.",
                _NEEDS_FREE,
            ),
            done="{terminal_id} is deleted.",
            submit="Delete the terminal",
            danger=True,
            repeatable=True,
        ),
    ),
    TERMINAL.acting(
        "revoke",
        changes.revoke,
        description="The terminal may still report results of earlier orders for 7 days; pair it anew for another"
        " token. Revoking a revoked token has no effect.",
        words=Words(
            "Revoke the token of {serial}",
            says=(
                "For a terminal that is lost or stolen: it is disconnected at once and takes no orders until it is"
                " paired again.",
                "It can still report results of the orders that it has, for 7 days.",
            ),
            done="The device token is revoked. To use the terminal again, pair it again.",
            next="Pair it with `paydesk terminals pair CODE --seller {seller_id} --replace`.",
            submit="Revoke the token",
            danger=True,
            repeatable=True,
        ),
    ),
    _QUEUE.reading(
        queue.queue,
        description="The terminal's live order or print action, what that waits for (`waits_for`) and until when."
        " Empty if the terminal is free.",
    ),
    TERMINAL.acting(
        "release",
        queue.release,
        answer=queue.ReleaseDocument,
        body=ReasonRequest,
        description="The order is canceled at once, without an answer of the terminal, which gets `cancel` if it has"
        " the order. Not after authorization was permitted: the card may be charged. Without an order nothing"
        " changes. The audit trail records the reason.",
        errors=(errors.CANNOT_RELEASE_TERMINAL,),
        words=Words(
            "Release {serial}",
            reads=f"{TERMINAL.path}/queue",
            says=(
                When(
                    "current.type",
                    "Its print action is canceled at once, without waiting for the terminal.",
                    ("print",),
                ),
                When(
                    "current.type",
                    "Its order {current[id]} is canceled at once, without waiting for the terminal. Nothing is"
                    " charged.",
                    ("order",),
                ),
                When(
                    "current.type",
                    "The release is refused once authorization is permitted, because the card may then be charged.",
                    ("order",),
                ),
            ),
            impossible=When("current", "", otherwise="Nothing holds the terminal: it is free."),
            done=First(
                When("answer.released.type", "The print action is canceled. The terminal is free.", ("print",)),
                When(
                    "answer.released",
                    "The order {answer[released][id]} is canceled, and nothing was charged. The terminal is free.",
                    otherwise="The terminal was free already. Nothing has changed.",
                ),
            ),
            did="Released",
            submit="Release the terminal",
            danger=True,
            repeatable=True,
            command=None,
        ),
    ),
    _PAIRING.reading(
        pairing.get,
        answer=pairing.PairingDocument,
        transaction="none",
        description=f"The code is valid for 5 minutes and is used once. {_WRONG_CODES}",
    ),
    ROWS.post(
        _PAIRING.path,
        "operator_approve_pairing",
        pairing.approve,
        body=fields.PairingApproval,
        answer=handlers.RegisteredTerminal,
        status=201,
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
        action=Action(
            TERMINAL, "pair", Words("Pair a terminal", did="Paired", audit="pairings.approve", form=None, command=None)
        ),
    ),
    _PAIRING.deleting(
        pairing.deny,
        name="operator_deny_pairing",
        transaction="none",
        description=f"The terminal gets `access_denied`. {_WRONG_CODES}",
        words=Words(
            "Deny the pairing",
            says="The code becomes invalid, and the terminal shows that the pairing was denied.",
            done="The pairing is denied.",
            did="Denied the pairing of",
            audit="pairings.deny",
            danger=True,
            form="deny",
            command=None,
        ),
    ),
)
