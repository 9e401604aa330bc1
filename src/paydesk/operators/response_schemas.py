"""JSON schemas of the responses of the operator interface."""

from __future__ import annotations

from typing import Any, get_args

from paydesk.operator_events import Kind
from paydesk.operators.history import DELIVERY_STATUSES
from paydesk.operators.outcomes import REFUND_STATUSES, REVERSAL_STATUSES
from paydesk.operators.schemas import ROLES
from paydesk.payments import lifecycles
from paydesk.webhooks.schemas import ACTIONS_OF

DATE = {"type": "string", "format": "date-time"}
TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
BOOLEAN = {"type": "boolean"}


def object_of(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    """Return the schema of an object with these fields and no others."""
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }


def list_of(item: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a page of such objects."""
    return object_of({"data": {"type": "array", "items": item}}, next=TEXT)


_APPLICATION: dict[str, Any] = {
    "client_id": TEXT,
    "name": TEXT,
    "redirect_uris": {"type": "array", "items": TEXT},
    "scopes": TEXT,
    "pkce_required": BOOLEAN,
    "on_replay": {"enum": ["revoke", "refuse"]},
    "created_date": DATE,
}
APPLICATION = object_of(_APPLICATION, suspended_date=DATE)
SECRETS: dict[str, Any] = {
    "type": "array",
    "items": object_of({"id": TEXT, "created_date": DATE}, expires_date=DATE),
}
APPLICATION_WITH_SECRETS = object_of({**_APPLICATION, "secrets": SECRETS}, suspended_date=DATE)
NEW_APPLICATION = object_of({**_APPLICATION, "client_secret": TEXT})
NEW_SECRET = object_of({"client_id": TEXT, "id": TEXT, "client_secret": TEXT, "created_date": DATE, "secrets": SECRETS})
_SELLER: dict[str, Any] = {
    "user_id": NUMBER,
    "email": TEXT,
    "name": TEXT,
    "country": TEXT,
    "currency": TEXT,
    "created_date": DATE,
}
SELLER = object_of(_SELLER, suspended_date=DATE)
NEW_SELLER = object_of(_SELLER, password=TEXT)
NEW_PASSWORD = object_of(
    {
        **_SELLER,
        "authorizations": {
            **NUMBER,
            "description": "The number of authorizations of the seller that are not withdrawn.",
        },
    },
    withdrawn={**NUMBER, "description": "The number of authorizations that `withdraw_all` withdrew."},
    password=TEXT,
    suspended_date=DATE,
)
_OPERATOR: dict[str, Any] = {
    "operator_id": TEXT,
    "name": TEXT,
    "role": {"enum": list(ROLES)},
    "created_date": DATE,
}
OPERATOR = object_of(_OPERATOR, revoked_date=DATE)
NEW_OPERATOR = object_of({**_OPERATOR, "token": TEXT})
AUTHORIZATION = object_of(
    {
        "id": {**TEXT, "description": "Ends with the seller's id."},
        "seller_id": NUMBER,
        "client_id": TEXT,
        "application_name": TEXT,
        "scope": TEXT,
        "created_date": DATE,
    },
    withdrawn_date=DATE,
)
STORE = object_of({"store_id": NUMBER, "seller_id": NUMBER, "name": TEXT, "created_date": DATE})
POS = object_of(
    {
        "pos_id": NUMBER,
        "seller_id": NUMBER,
        "store_id": NUMBER,
        "external_pos_id": TEXT,
        "name": TEXT,
        "created_date": DATE,
    }
)
_TERMINAL: dict[str, Any] = {
    "id": TEXT,
    "operating_mode": {"enum": ["PDV", "STANDALONE", "SELF_SERVICE", "UNDEFINED"]},
    "seller_id": NUMBER,
    "store_id": NUMBER,
    "pos_id": NUMBER,
    "live_mode": BOOLEAN,
    "created_date": DATE,
}
TERMINAL = object_of(_TERMINAL, script=TEXT, last_seen_date=DATE)
NEW_TERMINAL = object_of(
    {
        "id": TEXT,
        "operating_mode": {"enum": ["PDV", "STANDALONE", "SELF_SERVICE"]},
        "script": TEXT,
        "seller_id": NUMBER,
        "store_id": NUMBER,
        "pos_id": NUMBER,
    }
)
_SUBSCRIPTION: dict[str, Any] = {
    "id": TEXT,
    "client_id": TEXT,
    "topic": TEXT,
    "live_mode": BOOLEAN,
    "url": TEXT,
    "actions": {"type": "array", "items": TEXT},
    "created_date": DATE,
}
SUBSCRIPTION = object_of(_SUBSCRIPTION)
NEW_SUBSCRIPTION = object_of({**_SUBSCRIPTION, "secret": TEXT})
CODE = object_of(
    {
        "code": TEXT,
        "client_id": TEXT,
        "user_id": NUMBER,
        "redirect_uri": TEXT,
        "scope": TEXT,
        "expires_date": DATE,
    }
)
DELIVERY = object_of(
    {
        "id": TEXT,
        "seller_id": NUMBER,
        "subscription_id": TEXT,
        "topic": {"enum": list(ACTIONS_OF)},
        "version": NUMBER,
        "status": {"enum": list(DELIVERY_STATUSES)},
        "attempts": NUMBER,
        "created_date": DATE,
    },
    order_id=TEXT,
    client_id=TEXT,
    next_date=DATE,
    ended_date=DATE,
)
MOVE = object_of(
    {
        "id": TEXT,
        "version": NUMBER,
        "move": TEXT,
        "action": TEXT,
        "status": TEXT,
        "status_detail": TEXT,
        "payment_status_detail": TEXT,
        "created_date": DATE,
    }
)
ORDER = {
    "type": "object",
    "description": "The order as applications see it, with its history.",
    "properties": {
        "id": TEXT,
        "events": {"type": "array", "items": MOVE},
        "deliveries": {"type": "array", "items": DELIVERY},
    },
    "required": ["id", "events", "deliveries"],
}
REVERSAL = object_of(
    {
        "id": TEXT,
        "seller_id": NUMBER,
        "order_id": TEXT,
        "live_mode": BOOLEAN,
        "amount_minor": NUMBER,
        "reference_id": TEXT,
        "status": {"enum": list(REVERSAL_STATUSES)},
        "attempts": NUMBER,
        "created_date": DATE,
    },
    confirmed={"enum": ["approved", "not_found"], "description": "The acquirer's inquiry result."},
    next_date=DATE,
    ended_date=DATE,
)
REFUND = object_of(
    {
        "id": TEXT,
        "seller_id": NUMBER,
        "order_id": TEXT,
        "live_mode": BOOLEAN,
        "amount": TEXT,
        "status": {"enum": list(REFUND_STATUSES)},
        "attempts": NUMBER,
        "created_date": DATE,
    },
    next_date=DATE,
    ended_date=DATE,
)
INQUIRY = object_of(
    {
        "seller_id": NUMBER,
        "order_id": TEXT,
        "live_mode": BOOLEAN,
        "reason": TEXT,
        "status": {"enum": list(lifecycles.INQUIRIES.names)},
        "attempts": NUMBER,
        "created_date": DATE,
    },
    outcome={"enum": list(get_args(lifecycles.InquiryOutcome))},
    next_date=DATE,
    ended_date=DATE,
)
EVENT = object_of(
    {
        "id": TEXT,
        "kind": {"enum": list(get_args(Kind))},
        "subject": TEXT,
        "message": TEXT,
        "body": {},
        "occurrences": {**NUMBER, "description": "The number of occurrences within one hour."},
        "created_date": DATE,
    },
    seller_id=NUMBER,
)
