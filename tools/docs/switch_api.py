"""The OpenAPI document of a switch: what the HTTP adapter asks, and what its answers mean."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from typing import Any, get_args, get_type_hints

from paydesk.engine.orders.status import FAILED_DETAILS
from paydesk.engine.payments.acquirer import CHIP_DATA_BYTES_MAX, Advice, LedgerEntry

Json = dict[str, Any]

SECRET, SECONDS, KEY_ID = "0c6f7a0a2b7e4d0f9e3d1c5b8a796857", 1_769_869_602, "shop-1"
"""Of the signatures that are worked out."""
PAYMENT_ID, ORDER_ID = "PAY01J67CQQH5904WDBVZEM4JMEP3", "ORD01J67CQQH5904WDBVZEM4JMEP3"
CONFIRMATION_KEY, REFUND_ID = "CNF01J67CQQH5904WDBVZEM4JMEP3", "REF01J67D2ZT1V8XW6C7M0R5K9QHN"
BLOB_BYTES_MAX = 16 * 1024
LEDGER_KINDS = get_args(get_type_hints(LedgerEntry)["kind"])

DESCRIPTION = """\
A *switch* is your server between Paydesk and the system of your acquirer, the *host*. Paydesk calls it with its
adapter `http`. `examples/switch/` of Paydesk is a switch to start from, and docs/acquirers.md says when the engine
asks what.

**Transport.** HTTPS, or HTTP on loopback. One address: Paydesk follows no redirect, uses no proxy of its environment
and asks for no compression. Paydesk reuses connections: keep idle ones open for more than 10 s, or answer
`Connection: close`. JSON in UTF-8, at most 64 KiB in each direction. Amounts are integers of minor units with their
currency, and a currency has the decimals of ISO 4217 (CLP none). Times have their offset. A field without a value is
left out; an answer with `null` is unreadable. Fields that you do not know may be added: ignore them, as Paydesk does.

**Outcomes.** Every outcome is a 200, a decline too. A signed 400, 401, 403, 422, 429 or 503 means that the request
was refused before it had any effect. Paydesk takes *everything else* for an unknown outcome, which may have charged
the card: an unsigned answer, another media type, a 404 or 502 of a proxy, 409 and 500, a redirect, a cut body, no
answer in time. It then asks again under the same key, inquires or reverses. So never answer `declined` or one of
these errors for a request that may have reached the host: answer `pending`, or nothing. A table in docs/acquirers.md
has the outcome of each operation for each state of a payment.

**Keys.** Each request but inquiries has an `Idempotency-Key`: an authorization and its undo the `payment_id`, a
confirmation `CNF` and the order's ULID, the reversal of a late approval an id of its own, a refund its id. A key
belongs to its operation, and every attempt has the same key and the same body. Answer a repeated request as the first
time. While the host works on it, wait, or answer 409 `in_progress`. Bodies are the same if their JSON is, whatever
the order of its fields; another one is 409 `key_reused`. Only effects and declines bind a key: after `not_found`,
`too_late`, `pending` and errors the same request is performed. Keep keys for at least 120 days.

**At most once.** A payment, its confirmation and its reversal take effect at most once, also under different keys and
at the same time, and a refund once a key.

**Signature.** Requests and answers have the header `Paydesk-Signature: t=<seconds>,k=<key id>,v1=<hex>`. `v1` is the
HMAC-SHA256 in lower-case hexadecimal, with the secret as UTF-8, of these lines, joined by a newline (no newline at
the end):

| Request | Answer |
| --- | --- |
| `v1` | `v1` |
| `t`, seconds since 1970 | `t`, seconds since 1970 |
| the method | the status, `200` |
| the path with its query, as on the request line | - |
| the `Idempotency-Key`, or an empty line | the request's `Idempotency-Key`, or an empty line |
| the SHA-256 of the body in lower-case hexadecimal, also of no body | the same of the answer's body |

Compare in constant time. Accept a `t` within 300 s of your clock; a valid signature outside of that is 401
`clock_skew` with your `time`. During a change of the secret accept both, and sign each answer with the secret of its
request. If a signature is not valid, sign the 401 with the newest secret. Paydesk stops asking on an answer whose
signature is not valid. With mutual TLS and no secret configured the answer needs no signature.

Two requests with their answers, with the secret `{secret}`. The bodies end with their last brace:

{example}
"""


def _text(description: str, example: str | None = None, **rules: Any) -> Json:
    schema: Json = {"type": "string", "description": description, **rules}
    return schema if example is None else schema | {"examples": [example]}


def _object(required: Sequence[str] = (), **properties: Json) -> Json:
    return {"type": "object", "required": list(required), "properties": properties}


def _minor(description: str, example: int = 2490) -> Json:
    return {"type": "integer", "minimum": 1, "description": description, "examples": [example]}


def _base64(description: str, bytes_max: int) -> Json:
    characters_max = -(-bytes_max // 3) * 4
    return _text(f"{description} Base64.", contentEncoding="base64", maxLength=characters_max)


PAYMENT = _text("PAY and the order's ULID: the payment.", PAYMENT_ID, pattern="^PAY[0-9A-Z]{26}$")
CURRENCY = _text("ISO 4217.", "BRL", pattern="^[A-Z]{3}$")
REFERENCE = _text("The host's reference of the movement.", "115019989861", pattern="^[A-Za-z0-9._-]{1,64}$")
_WORD = "^[a-z_]{1,32}$"
METHOD = _object(
    ("id", "type"),
    id=_text("The brand.", "visa", pattern=_WORD),
    type=_text("The type of the card.", "credit_card", pattern=_WORD),
) | {"description": "How the buyer pays."}
CARD = _object(
    ("first_digits", "last_digits"),
    first_digits=_text("The first six digits.", "503175", pattern="^[0-9]{6}$"),
    last_digits=_text("The last four digits.", "6351", pattern="^[0-9]{4}$"),
) | {"description": "Never the full number."}
ENTRY_MODE = _text("How the card was read.", "contactless", pattern=_WORD)
INSTALLMENTS = {"type": "integer", "minimum": 1, "maximum": 48, "description": "1: no installments.", "examples": [1]}

REQUEST: dict[str, Json] = {
    "payment_id": PAYMENT,
    "order_id": _text("ORD and the same ULID.", ORDER_ID, pattern="^ORD[0-9A-Z]{26}$"),
    "seller_id": {"type": "integer", "description": "Map it to the host's merchant.", "examples": [7782587281]},
    "store_id": _text("The terminal's store; with an authorization alone."),
    "pos_id": _text("Its point of sale; with an authorization alone."),
    "terminal_id": _text("Map it to the host's terminal.", "PAX_A920__1234567890"),
    "external_reference": _text("The application's reference of the sale.", "sale-0042"),
    "amount_minor": _minor("The payment's amount with the tip, in every request about the payment."),
    "tip_minor": {"type": "integer", "minimum": 0, "description": "Included in `amount_minor`."},
    "currency": CURRENCY,
    "payment_method": METHOD,
    "installments": INSTALLMENTS,
    "installments_cost": _text("The bearer of their cost: `seller` or `buyer`."),
}
REQUIRED = ("payment_id", "order_id", "seller_id", "terminal_id", "amount_minor", "currency", "installments")
CHIP_DATA = _base64("The card's last words: cryptogram, script results.", CHIP_DATA_BYTES_MAX)
FURTHER: dict[str, dict[str, Json]] = {
    "authorize": {
        "entry_mode": ENTRY_MODE,
        "card": CARD,
        "encrypted_data": _base64("Encrypted by the terminal for the switch.", BLOB_BYTES_MAX),
    },
    "confirm": {"reference_id": REFERENCE, "chip_data": CHIP_DATA},
    "inquire": {},
    "reverse": {
        "reference_id": _text(
            "The payment's reference; absent or empty: whatever reference it has.", pattern="^[A-Za-z0-9._-]{0,64}$"
        ),
        "chip_data": CHIP_DATA,
    },
    "refund": {
        "refund_minor": _minor("The amount to refund, never more than is left.", 490),
        "reference_id": _text("The payment's reference."),
        "reason": _text("Why, for the host's records."),
    },
}

OUTCOMES: dict[str, Json] = {
    "Approved": _object(
        ("outcome", "payment_id", "key", "amount_minor", "currency", "reference_id"),
        outcome={"const": "approved"},
        payment_id=PAYMENT,
        key=_text(
            "The request's key; for an inquiry that of the authorization, which is the `payment_id`.", PAYMENT_ID
        ),
        amount_minor=_minor("What the movement has moved, by the host's own book: never a copy of the request."),
        currency=CURRENCY,
        reference_id=REFERENCE,
        authorization_code=_text("What the receipt shows.", "831000", pattern="^[0-9A-Za-z]{1,12}$"),
        needs_confirmation={
            "type": "boolean",
            "description": "Provisional: it is confirmed or reversed later. Only where the adapter declares it.",
        },
        issuer_data=_base64("The issuer's words for the chip: tags 8A, 91, 71, 72.", CHIP_DATA_BYTES_MAX),
        payment_method=METHOD,
        card=CARD | {"properties": CARD["properties"] | {"entry_mode": ENTRY_MODE}},
        installments=INSTALLMENTS,
    )
    | {"description": "The request took effect, now or when it was first made."},
    "Declined": _object(
        ("outcome", "code"),
        outcome={"const": "declined"},
        code=_text("The host's code.", "51"),
        detail=_text(
            "The payment's `status_detail`. Where it is missing, the adapter's configuration has one for the code.",
            "insufficient_amount",
            enum=list(FAILED_DETAILS),
        ),
        advice=_text("What the buyer can do.", enum=list(get_args(Advice))),
        issuer_data=_base64("The issuer's words for the chip.", CHIP_DATA_BYTES_MAX),
    )
    | {"description": "The request took no effect and never will. It binds the key."},
    "NotFound": _object(
        ("outcome",),
        outcome={"const": "not_found"},
        final={"type": "boolean", "description": "The id is blocked: no later authorization of it succeeds."},
    )
    | {"description": "No authorization under this `payment_id` was accepted, and none is under way."},
    "TooLate": _object(("outcome",), outcome={"const": "too_late"})
    | {"description": "The host no longer does this. The request took no effect."},
    "Pending": _object(("outcome",), outcome={"const": "pending"})
    | {"description": "The outcome is unknown: the host has the request and has not answered. Paydesk asks again."},
}

ENTRY = _object(
    ("entry_id", "time", "kind", "payment_id", "key", "amount_minor", "currency", "reference_id", "outcome"),
    entry_id=_text("Sorts as the entries of one `time` do."),
    time=_text("When it took effect, by the switch's clock.", "2026-01-31T14:26:43.702Z", format="date-time"),
    kind={"type": "string", "enum": list(LEDGER_KINDS)},
    payment_id=PAYMENT,
    key=_text("The request's key; empty where the host acted by itself, at its deadline."),
    amount_minor=_minor("Always positive; `kind` says the direction. A confirmation has the payment's amount."),
    currency=CURRENCY,
    reference_id=REFERENCE,
    outcome={
        "type": "string",
        "enum": ["approved", "provisional"],
        "description": "`provisional`: a payment whose approval needed a confirmation. The entry keeps it for ever:"
        " another entry, a confirmation or a reversal, says what became of it.",
    },
) | {"description": "A movement that took effect. Declines and blocked ids are none."}

SCHEMAS: dict[str, Json] = {
    **{
        f"{name.capitalize()}Request": _object(
            (*REQUIRED, *(("reference_id",) if name == "confirm" else ("refund_minor",) if name == "refund" else ())),
            **REQUEST,
            **further,
        )
        for name, further in FURTHER.items()
    },
    **OUTCOMES,
    "Echo": _object(("time",), time=_text("The switch's clock.", format="date-time")),
    "Entry": ENTRY,
    "Ledger": _object(
        ("entries", "complete_until"),
        entries={"type": "array", "items": {"$ref": "#/components/schemas/Entry"}, "maxItems": 1000},
        next=_text("The next page's `cursor`; absent on the last page. A page may have fewer entries than `limit`."),
        complete_until=_text(
            "No entry with an earlier time will be added. That of the last page holds for all of them.",
            format="date-time",
        ),
    ),
    "Error": _object(
        ("error", "message"),
        error=_text("A stable code in snake_case.", "key_reused"),
        message=_text("For the log of the operator."),
        time=_text("With `clock_skew`: the switch's clock.", format="date-time"),
    ),
}

ERRORS: dict[str, tuple[str, str]] = {
    "400": (
        "bad_request",
        "Malformed: a required field is missing, a float as an amount, over 64 KiB. Refused before acting.",
    ),
    "401": ("clock_skew", "No signature, another key id or secret, or a clock over 300 s away. Refused before acting."),
    "403": ("unknown_seller", "The switch does not do this for this seller or terminal. Refused before acting."),
    "409": ("in_progress", "`in_progress`: the host works on this key. `key_reused`: it had another body. Unknown."),
    "422": (
        "other_payment",
        "Well-formed, but not this payment's amount, currency or reference. Refused before acting. Only for a"
        " confirmation or a refund: an inquiry and a reversal are answered with the host's own amount, which Paydesk"
        " compares, and a repeated authorization with another amount is 409 `key_reused`.",
    ),
    "429": ("too_many_requests", "Refused before acting."),
    "503": ("unavailable", "The host cannot be reached, and the request was not sent to it. Refused before acting."),
    "default": ("internal", "Unknown. So is every answer that is not signed."),
}

_APPROVED = {
    "outcome": "approved",
    "payment_id": PAYMENT_ID,
    "key": PAYMENT_ID,
    "amount_minor": 2490,
    "currency": "BRL",
    "reference_id": "115019989861",
    "authorization_code": "831000",
}
_CARD = {"first_digits": "503175", "last_digits": "6351"}
_DECLINED = {"outcome": "declined", "code": "51", "detail": "insufficient_amount", "advice": "another_card"}
_PAYMENT = {
    "payment_id": PAYMENT_ID,
    "order_id": ORDER_ID,
    "seller_id": 7782587281,
    "terminal_id": "PAX_A920__1234567890",
    "external_reference": "sale-0042",
    "amount_minor": 2490,
    "tip_minor": 0,
    "currency": "BRL",
    "payment_method": {"id": "master", "type": "credit_card"},
    "installments": 1,
}
_PROVISIONAL = {**_APPROVED, "needs_confirmation": True, "issuer_data": "igIwMA=="}
_NOT_FOUND, _TOO_LATE, _PENDING = {"outcome": "not_found"}, {"outcome": "too_late"}, {"outcome": "pending"}

OPERATIONS: dict[str, tuple[str, str, Json, Mapping[str, tuple[str, Json]]]] = {
    "authorize": (
        "Charge a payment",
        "Once per `payment_id`, which is also the key. An id that a reversal has blocked is declined. Where"
        " approvals need a confirmation, the answer says so, and the money is only reserved.",
        {**_PAYMENT, "store_id": "STO01J5Z0", "pos_id": "POS01J5Z1", "entry_mode": "contactless", "card": _CARD},
        {
            "approved": ("Approved", {**_APPROVED, "card": {**_CARD, "entry_mode": "contactless"}}),
            "provisional": ("Approved", _PROVISIONAL),
            "declined": ("Declined", _DECLINED),
            "pending": ("Pending", _PENDING),
        },
    ),
    "confirm": (
        "Make a provisional approval final",
        "Asked until it is answered, so once more for a payment that is confirmed is `approved`. `too_late` if the"
        " host has confirmed or undone the payment by itself at its deadline; `declined` if the payment was declined"
        " or reversed by a request; `not_found` if it is unknown, with `final` if its id is blocked.",
        {**_PAYMENT, "reference_id": "115019989861", "chip_data": "nyYI"},
        {
            "approved": ("Approved", {**_APPROVED, "key": CONFIRMATION_KEY}),
            "declined": ("Declined", {"outcome": "declined", "code": "reversed", "detail": "processing_error"}),
            "not_found": ("NotFound", _NOT_FOUND),
            "too_late": ("TooLate", _TOO_LATE),
            "pending": ("Pending", _PENDING),
        },
    ),
    "inquire": (
        "Return the outcome of a payment's authorization",
        "As it is now: `approved` without `needs_confirmation` once it is confirmed, by a request or by the host;"
        " `declined` once it is reversed; still `approved` when it is refunded. It has no key and changes nothing."
        " If the host has no inquiries, declare `can_inquire = false`; the answer is then a signed 403, never a 404,"
        " which a proxy sends too.",
        _PAYMENT,
        {
            "approved": ("Approved", _APPROVED),
            "provisional": ("Approved", _PROVISIONAL),
            "declined": ("Declined", _DECLINED),
            "not_found": ("NotFound", _NOT_FOUND),
            "blocked": ("NotFound", {**_NOT_FOUND, "final": True}),
            "pending": ("Pending", _PENDING),
        },
    ),
    "reverse": (
        "Reverse a payment completely",
        "`approved` means that nothing of the payment remains charged: it is reversed now, or was before, by a"
        " request or by the host, or it was declined, or it is blocked. A payment that the switch does not have is"
        " blocked where the switch declares `reversal_blocks`; otherwise the answer is `not_found`, and a later"
        " authorization may succeed. With another `reference_id` than the payment's the answer is `not_found` too."
        " `too_late` after `reverse_until`; `declined` if a part was refunded. `approved` has a `reference_id` and"
        " an amount always: where no money moved, the amount of the payment, or of the request if there is none,"
        " and any number of yours. The ledger has no entry then.",
        {**_PAYMENT, "reference_id": "115019989861"},
        {
            "approved": ("Approved", {**_APPROVED, "reference_id": "115019989902"}),
            "declined": ("Declined", {"outcome": "declined", "code": "refunded", "detail": "processing_error"}),
            "not_found": ("NotFound", _NOT_FOUND),
            "too_late": ("TooLate", _TOO_LATE),
            "pending": ("Pending", _PENDING),
        },
    ),
    "refund": (
        "Refund a part or all of a payment",
        "Once a key. `amount_minor` is the payment's, `refund_minor` the refund's, which is the answer's"
        " `amount_minor`. `declined` if the payment is not final, is reversed or unknown, or if more would be"
        " refunded than was paid.",
        {**_PAYMENT, "refund_minor": 490, "reference_id": "115019989861"},
        {
            "approved": (
                "Approved",
                {**_APPROVED, "key": REFUND_ID, "amount_minor": 490, "reference_id": "115019989930"},
            ),
            "declined": ("Declined", {"outcome": "declined", "code": "more_than_paid", "detail": "processing_error"}),
            "pending": ("Pending", _PENDING),
        },
    ),
}


def signature(*parts: str, body: str) -> str:
    """Return the header of a message: of a request with its method, path and key, of an answer with status and key."""
    lines = ("v1", str(SECONDS), *parts, hashlib.sha256(body.encode()).hexdigest())
    signed = hmac.new(SECRET.encode(), "\n".join(lines).encode(), hashlib.sha256).hexdigest()
    return f"t={SECONDS},k={KEY_ID},v1={signed}"


def exchange(method: str, path: str, key: str, body: str, answer: Json) -> str:
    """Return a request and its answer with their signatures."""
    sent, answered = signature(method, path, key, body=body), signature("200", key, body=json.dumps(answer))
    request = [f"{method} {path} HTTP/1.1", f"Paydesk-Signature: {sent}", *([f"Idempotency-Key: {key}"] if key else [])]
    request += ["", body] if body else []
    return "\n".join([*request, "", "HTTP/1.1 200 OK", f"Paydesk-Signature: {answered}", "", json.dumps(answer)])


def exchanges() -> str:
    """Return an echo, whose request has neither key nor body, and a confirmation."""
    confirmation = json.dumps(OPERATIONS["confirm"][2])
    approved = {**_APPROVED, "key": CONFIRMATION_KEY}
    confirmed = exchange("POST", "/paydesk/confirm", CONFIRMATION_KEY, confirmation, approved)
    echo = exchange("GET", "/paydesk/echo", "", "", {"time": "2026-01-31T14:26:43.702Z"})
    return f"```\n{echo}\n```\n\n```\n{confirmed}\n```"


def document() -> Json:
    """Return the document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Switch",
            "version": "1",
            "summary": "What Paydesk's HTTP adapter asks of the server that connects it with an acquirer.",
            "description": DESCRIPTION.format(secret=SECRET, example=exchanges()),
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "https://switch.example/paydesk", "description": "The adapter's `url`."}],
        "security": [{"signature": []}],
        "paths": {
            **{f"/{name}": {"post": _operation(name)} for name in OPERATIONS},
            "/echo": {"get": _echo()},
            "/ledger": {"get": _ledger()},
        },
        "components": {
            "schemas": SCHEMAS,
            "responses": {f"Error{status}": _error(status) for status in ERRORS},
            "headers": {
                "Paydesk-Signature": {
                    "description": "The answer's signature. Without it the outcome is unknown.",
                    "required": True,
                    "schema": _signature(),
                }
            },
            "securitySchemes": {
                "signature": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Paydesk-Signature",
                    "description": "HMAC-SHA256 of the request, as described above.",
                }
            },
        },
    }


def page_of_switch() -> str:
    """Return the document as text."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def _operation(name: str) -> Json:
    summary, description, body, answers = OPERATIONS[name]
    key: Json = {
        "name": "Idempotency-Key",
        "in": "header",
        "required": True,
        "description": "The request's key, without quotes.",
        "schema": {"type": "string", "pattern": "^[0-9A-Z]{26,29}$"},
    }
    schemas = dict.fromkeys(schema for schema, _ in answers.values())
    content = {
        "schema": {"oneOf": [{"$ref": f"#/components/schemas/{schema}"} for schema in schemas]},
        "examples": {label: {"value": value} for label, (_, value) in answers.items()},
    }
    request = {"schema": {"$ref": f"#/components/schemas/{name.capitalize()}Request"}, "example": body}
    return {
        "operationId": name,
        "summary": summary,
        "description": description,
        **({} if name == "inquire" else {"parameters": [key]}),
        "requestBody": {"required": True, "content": {"application/json": request}},
        "responses": {"200": _response("The outcome.", content), **_errors()},
    }


def _echo() -> Json:
    content = {"schema": {"$ref": "#/components/schemas/Echo"}, "example": {"time": "2026-01-31T14:26:43.702Z"}}
    return {
        "operationId": "echo",
        "summary": "Answer, and do nothing else",
        "description": "Paydesk asks at its start, after failures, and for `paydesk acquirers test`.",
        "responses": {"200": _response("The switch is reachable.", content), **_errors()},
    }


def _ledger() -> Json:
    entry = {
        "entry_id": "000000000001",
        "time": "2026-01-31T14:26:43.702Z",
        "kind": "payment",
        **{name: _APPROVED[name] for name in ("payment_id", "key", "amount_minor", "currency", "reference_id")},
        "outcome": "approved",
    }
    example = {"entries": [entry], "complete_until": "2026-01-31T15:00:00.000Z"}
    parameters = {
        "since": _text("The first time to return, with its offset (write + as %2B). Default: all.", format="date-time"),
        "cursor": _text("The last answer's `next`; absent or empty for the first page."),
        "limit": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 1000},
    }
    return {
        "operationId": "ledger",
        "summary": "List the movements that took effect",
        "description": "One entry a movement, append-only, by time and `entry_id`. A page stays below 64 KiB too."
        " The service never asks for it; the conformance kit compares it with the orders.",
        "parameters": [{"name": name, "in": "query", "schema": schema} for name, schema in parameters.items()],
        "responses": {
            "200": _response("The entries.", {"schema": {"$ref": "#/components/schemas/Ledger"}, "example": example}),
            **_errors(),
        },
    }


def _errors() -> Json:
    return {status: {"$ref": f"#/components/responses/Error{status}"} for status in ERRORS}


def _error(status: str) -> Json:
    code, description = ERRORS[status]
    example = {"error": code, "message": "For the log of the operator."}
    if code == "clock_skew":
        example["time"] = "2026-01-31T14:26:43.702Z"
    return _response(description, {"schema": {"$ref": "#/components/schemas/Error"}, "example": example})


def _response(description: str, content: Json) -> Json:
    headers = {"Paydesk-Signature": {"$ref": "#/components/headers/Paydesk-Signature"}}
    return {"description": description, "headers": headers, "content": {"application/json": content}}


def _signature() -> Json:
    return {"type": "string", "pattern": "^t=[0-9]{1,12},k=[A-Za-z0-9_.-]{1,64},v1=[0-9a-f]{64}$"}
