"""What operators are answered, as JSON schemas for the docs."""

from __future__ import annotations

from typing import Any, get_args

from paydesk.operator_events import Kind
from paydesk.operators.history import DELIVERY_STATUSES
from paydesk.webhooks.schemas import ACTIONS_OF

DATE = {"type": "string", "format": "date-time"}
TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
YES_OR_NO = {"type": "boolean"}


def described(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    """An object of these fields and no others."""
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }


def list_of(item: dict[str, Any]) -> dict[str, Any]:
    """One page of such objects."""
    return described({"data": {"type": "array", "items": item}}, next=TEXT)


_APPLICATION: dict[str, Any] = {
    "client_id": TEXT,
    "name": TEXT,
    "redirect_uris": {"type": "array", "items": TEXT},
    "scopes": TEXT,
    "pkce_required": YES_OR_NO,
    "on_replay": {"enum": ["revoke", "refuse"]},
    "created_date": DATE,
}
APPLICATION = described(_APPLICATION, suspended_date=DATE)
SECRETS: dict[str, Any] = {
    "type": "array",
    "items": described({"id": TEXT, "created_date": DATE}, expires_date=DATE),
}
APPLICATION_WITH_SECRETS = described({**_APPLICATION, "secrets": SECRETS}, suspended_date=DATE)
NEW_APPLICATION = described({**_APPLICATION, "client_secret": TEXT})
NEW_SECRET = described({"client_id": TEXT, "id": TEXT, "client_secret": TEXT, "created_date": DATE, "secrets": SECRETS})
_SELLER: dict[str, Any] = {
    "user_id": NUMBER,
    "email": TEXT,
    "name": TEXT,
    "country": TEXT,
    "currency": TEXT,
    "created_date": DATE,
}
SELLER = described(_SELLER, suspended_date=DATE)
NEW_SELLER = described(_SELLER, password=TEXT)
NEW_PASSWORD = described(
    {
        **_SELLER,
        "authorizations": {**NUMBER, "description": "How many authorizations of the seller have not been withdrawn."},
    },
    withdrawn={**NUMBER, "description": "How many authorizations `withdraw_all` withdrew."},
    password=TEXT,
    suspended_date=DATE,
)
_OPERATOR: dict[str, Any] = {
    "operator_id": TEXT,
    "name": TEXT,
    "role": {"enum": ["owner", "operator", "support"]},
    "created_date": DATE,
}
OPERATOR = described(_OPERATOR, revoked_date=DATE)
NEW_OPERATOR = described({**_OPERATOR, "token": TEXT})
GRANT = described(
    {
        "id": {**TEXT, "description": "Ends with the seller's own id."},
        "seller_id": NUMBER,
        "client_id": TEXT,
        "application_name": TEXT,
        "scope": TEXT,
        "created_date": DATE,
    },
    withdrawn_date=DATE,
)
STORE = described({"store_id": NUMBER, "seller_id": NUMBER, "name": TEXT, "created_date": DATE})
POS = described(
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
    "live_mode": YES_OR_NO,
    "created_date": DATE,
}
TERMINAL = described(_TERMINAL, script=TEXT, last_seen_date=DATE)
NEW_TERMINAL = described(
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
    "live_mode": YES_OR_NO,
    "url": TEXT,
    "actions": {"type": "array", "items": TEXT},
    "created_date": DATE,
}
SUBSCRIPTION = described(_SUBSCRIPTION)
NEW_SUBSCRIPTION = described({**_SUBSCRIPTION, "secret": TEXT})
CODE = described(
    {
        "code": TEXT,
        "client_id": TEXT,
        "user_id": NUMBER,
        "redirect_uri": TEXT,
        "scope": TEXT,
        "expires_date": DATE,
    }
)
DELIVERY = described(
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
MOVE = described(
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
    "description": "The order as applications see it, and beside it its history.",
    "properties": {
        "id": TEXT,
        "events": {"type": "array", "items": MOVE},
        "deliveries": {"type": "array", "items": DELIVERY},
    },
    "required": ["id", "events", "deliveries"],
}
REVERSAL = described(
    {
        "id": TEXT,
        "seller_id": NUMBER,
        "order_id": TEXT,
        "live_mode": YES_OR_NO,
        "amount_minor": NUMBER,
        "reference_id": TEXT,
        "status": {"enum": ["pending", "reversed", "not_found"]},
        "attempts": NUMBER,
        "created_date": DATE,
    },
    confirmed={"enum": ["approved", "not_found"], "description": "What the acquirer said when it was asked."},
    next_date=DATE,
    ended_date=DATE,
)
REFUND = described(
    {
        "id": TEXT,
        "seller_id": NUMBER,
        "order_id": TEXT,
        "live_mode": YES_OR_NO,
        "amount": TEXT,
        "status": {"enum": ["processing", "processed", "failed"]},
        "attempts": NUMBER,
        "created_date": DATE,
    },
    next_date=DATE,
    ended_date=DATE,
)
INQUIRY = described(
    {
        "seller_id": NUMBER,
        "order_id": TEXT,
        "live_mode": YES_OR_NO,
        "reason": TEXT,
        "status": {"enum": ["asking", "reversing", "ended"]},
        "attempts": NUMBER,
        "created_date": DATE,
    },
    outcome={"enum": ["approved", "declined", "not_found", "result", "operator", "simulated", "forgone"]},
    next_date=DATE,
    ended_date=DATE,
)
EVENT = described(
    {
        "id": TEXT,
        "kind": {"enum": list(get_args(Kind))},
        "subject": TEXT,
        "message": TEXT,
        "body": {},
        "occurrences": {
            "type": "integer",
            "description": "How often it happened within one hour.",
        },
        "created_date": DATE,
    },
    seller_id=NUMBER,
)
