"""The operations and words of stores and points of sale."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from paydesk.core.errors import IN_USE, PROPERTY_VALUE, SELLER_NOT_FOUND
from paydesk.core.ids import NUMBER_PATTERN
from paydesk.operators import errors
from paydesk.operators.lists import OF_SELLER
from paydesk.operators.noun import Noun
from paydesk.operators.stores import fields, handlers
from paydesk.operators.words import Shown, Words, columns

_SELLER, _TERMINAL = "/sellers/{user_id}", "/terminals/{terminal_id}"
_STORE = Noun(
    "stores/{store_id}",
    "store",
    NUMBER_PATTERN,
    handlers.StoreDocument,
    errors.STORE_NOT_FOUND,
    page=_SELLER,
    pages=_SELLER,
    forms=f"{_SELLER}/stores/{{store_id}}",
    find=lambda api, names: fields.row_of(api, "stores", "store_id", names),
    selects={"seller": "{seller_id}"},
    argument={"store_id": "The store, see `paydesk stores list`."},
    generic={"name": "the store", "seller_name": "the seller"},
)
_POS = Noun(
    "pos/{pos_id}",
    "pos",
    NUMBER_PATTERN,
    handlers.PosDocument,
    errors.POS_NOT_FOUND,
    title="point of sale",
    page=_SELLER,
    pages=_SELLER,
    forms=f"{_SELLER}/pos/{{pos_id}}",
    find=lambda api, names: fields.row_of(api, "pos", "pos_id", names),
    selects=_STORE.selects,
    argument={"pos_id": "The point of sale, see `paydesk pos list`."},
    generic={"shown_name": "the point of sale", "store_name": "the store"},
)
_OF_SELLER = replace(
    OF_SELLER,
    shown=Shown(
        "Seller",
        option="--seller",
        metavar="USER_ID",
        help="The seller; needed only if several sellers have this id.",
    ),
)
_OF = "It belongs to {seller_name}, and has no point of sale at first."
_IN = "It is in {store_name}."
_STAYS = "The terminal stays where it is: move it there afterwards."
_AT_TERMINAL: dict[str, Any] = {"reads": "terminals/{terminal_id}", "back": _TERMINAL, "facts": None}
"""The differences of the forms on the page of a terminal, which add to its seller and to its store."""
_NEW_STORE = Words(
    "New store",
    says=(_OF, "Add points of sale to it afterwards."),
    done="The store {answer[name]} is added.",
    submit="Add the store",
    repeatable=True,
    form=f"{_SELLER}/add-store",
    fields=("name",),
    reads="sellers/{user_id}",
    facts=lambda seller: {"seller_id": seller["user_id"], "seller_name": seller["name"]},
    sends=lambda typed, names: {"seller_id": names["seller_id"], **typed},
    checks=fields.name_taken,
    examples=("--seller 1160535239 --name 'Main street'",),
)
_NEW_POS = Words(
    "New point of sale",
    says=(_IN, "Terminals can then be moved to it."),
    done="The point of sale {answer[name]} is added to {store_name}.",
    submit="Add the point of sale",
    repeatable=True,
    form=f"{_STORE.forms}/add-pos",
    fields=("external_pos_id", "name"),
    reads=_STORE,
    facts=lambda store: {"store_name": store["name"]},
    sends=lambda typed, names: {"seller_id": names["seller_id"], "store_id": names["store_id"], **typed},
    examples=("--seller 1160535239 --store 47792478 --external-id TILL1 --name 'Till 1'",),
)

OPERATIONS = (
    _STORE.listing(
        handlers.STORE_PAGES,
        words=Words(
            "Stores",
            says="By seller and number.",
            columns=columns("store_id", "seller_id", "name", "created_date"),
            examples=("--seller 1160535239",),
        ),
    ),
    _STORE.creating(
        handlers.create_store,
        fields.StoreRequest,
        handlers.StoreDocument,
        errors=(SELLER_NOT_FOUND,),
        words=replace(
            _NEW_STORE, forms=(replace(_NEW_STORE, says=(_OF, _STAYS), form=f"{_TERMINAL}/store", **_AT_TERMINAL),)
        ),
    ),
    _STORE.changing(
        handlers.change_store,
        fields.StoreChange,
        errors=(PROPERTY_VALUE,),
        query=(_OF_SELLER,),
        words=Words(
            "Rename the store {name}",
            says="Its points of sale and their terminals stay in it. The new name is shown at once.",
            done="The store is called {name} now.",
            submit="Save",
            repeatable=True,
            form="rename",
            checks=fields.name_taken,
            examples=("47792478 --name 'High street'",),
        ),
    ),
    _STORE.deleting(
        handlers.delete_store,
        query=(_OF_SELLER,),
        errors=(PROPERTY_VALUE, IN_USE),
        words=Words(
            "Delete the store {name}",
            says=(
                "The store is no longer listed. Orders that were made there stay. This cannot be undone.",
                "It must have no points of sale: delete these first.",
            ),
            done="{name} is deleted.",
            submit="Delete the store",
            danger=True,
            repeatable=True,
            examples=("47792478",),
        ),
    ),
    _POS.listing(
        handlers.POS_PAGES,
        words=Words(
            "Points of sale",
            says="By seller and number.",
            columns=columns("pos_id", "external_pos_id", "store_id", "seller_id", "name"),
            examples=("--seller 1160535239 --json",),
        ),
    ),
    _POS.creating(
        handlers.create_pos,
        fields.PosRequest,
        handlers.PosDocument,
        errors=(errors.STORE_NOT_FOUND, errors.EXTERNAL_POS_ID_TAKEN),
        words=replace(
            _NEW_POS, forms=(replace(_NEW_POS, says=(_IN, _STAYS), form=f"{_TERMINAL}/pos", **_AT_TERMINAL),)
        ),
    ),
    _POS.changing(
        handlers.change_pos,
        fields.PosChange,
        errors=(PROPERTY_VALUE, errors.EXTERNAL_POS_ID_TAKEN),
        query=(_OF_SELLER,),
        words=Words(
            "Change the point of sale {shown_name}",
            says="It stays in its store, and its terminals stay at it. Applications see the new values from the next"
            " request on.",
            done="The point of sale {name} is changed.",
            submit="Save",
            repeatable=True,
            facts=lambda pos: {"shown_name": fields.name_of(pos)},
            examples=("47792476 --name 'Till 2' --external-id TILL2",),
        ),
    ),
    _POS.deleting(
        handlers.delete_pos,
        query=(_OF_SELLER,),
        errors=(PROPERTY_VALUE, IN_USE),
        words=Words(
            "Delete the point of sale {shown_name}",
            says=(
                "The point of sale is no longer listed. Orders that were made there stay. This cannot be undone.",
                "It must have no terminals: move or delete these first.",
            ),
            done="{shown_name} is deleted.",
            submit="Delete the point of sale",
            danger=True,
            repeatable=True,
            facts=lambda pos: {"shown_name": fields.name_of(pos)},
            examples=("47792476",),
        ),
    ),
)
