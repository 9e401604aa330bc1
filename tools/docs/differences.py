"""Generates the page of differences from the vendor's description, from a table of them with their reasons.

`tests/unit/test_docs_differences.py` compares the table with both documents. It fails for a difference that is not in
the table, and for one that no longer exists.
"""

from __future__ import annotations

from typing import NamedTuple

from tools.docs.markdown import page


class Reason(NamedTuple):
    """Why some things differ; a row has the place, what only the description has, and what only Paydesk has."""

    heading: str
    text: str
    rows: tuple[tuple[str, str, str], ...]


_ORDERS = "POST /v1/orders request"
_PAYMENTS = f"{_ORDERS}.transactions.payments[]"
_PAID = "Order.transactions.payments[]"
_REFUND = "POST /v1/orders/{order_id}/refund"
_CANCEL = "POST /v1/orders/{order_id}/cancel"
_ACTIONS = "POST /terminals/v1/actions"
_ACTION = "GET /terminals/v1/actions/{action_id}"
_CANCEL_ACTION = "POST /terminals/v1/actions/{action_id}/cancel"
_TERMINALS = "GET /terminals/v1/list"

REASONS = (
    Reason(
        "Orders for terminals",
        """\
An order of Paydesk names a terminal. It has no goods, delivery, postal address or stored card, is paid at once, and
expires as a whole. Other fields are refused rather than ignored.""",
        (
            (f"{_ORDERS}.type", "online", "point"),
            (_ORDERS, "additional_info items shipment", ""),
            (f"{_ORDERS}.processing_mode", "manual", ""),
            (f"{_ORDERS}.capture_mode", "manual", ""),
            (f"{_ORDERS}.config", "online", "payment_method point"),
            ("Order.config", "online", "payment_method point"),
            (f"{_ORDERS}.payer", "address entity_type first_name identification last_name phone", ""),
            (_PAYMENTS, "date_of_expiration expiration_time", ""),
            (f"{_PAYMENTS}.payment_method", "financial_institution statement_descriptor token", ""),
            (f"{_PAYMENTS}.payment_method.type", "account_money bank_transfer digital_wallet ticket", "qr"),
            ("GET /v1/orders parameters.type", "online", "point"),
            ("Order.type", "string", "point"),
            ("Order", "capture_mode client_token items shipment", ""),
            ("Order.processing_mode", "manual", ""),
            ("Order.payer", "address entity_type first_name identification last_name phone", ""),
            (_PAID, "date_of_expiration expiration_time", ""),
            (
                f"{_PAID}.payment_method",
                "barcode_content digitable_line e2e_id financial_institution qr_code qr_code_base64 redirect_url "
                "reference statement_descriptor ticket_url token transaction_security verification_code",
                "",
            ),
        ),
    ),
    Reason(
        "Fields that only Paydesk has",
        """\
What a receipt needs, and whether an order is live, how it ended and which of two copies is newer.""",
        (
            (_ORDERS, "", "currency expiration_time taxes"),
            ("Order", "", "currency expiration_time live_mode taxes version"),
            ("Order.transactions", "", "refunds"),
            (_PAID, "", "authorization_code card origin refunded_amount tip_amount"),
        ),
    ),
    Reason(
        "What a request must have",
        """\
The one payment determines the total, and the buyer the means of payment, so both are optional. Without dates a
search covers the last 30 days. An order needs its terminal and its payment, and the refund of a part says of which
payment.""",
        (
            (f"{_ORDERS}.required", "payer total_amount", "config"),
            (f"{_ORDERS}.config.required", "", "point"),
            (f"{_ORDERS}.payer.required", "email", ""),
            (f"{_ORDERS}.transactions.required", "", "payments"),
            (f"{_PAYMENTS}.required", "payment_method", ""),
            (f"{_PAYMENTS}.payment_method.required", "id type", ""),
            ("GET /v1/orders parameters.required", "begin_date end_date", ""),
            (f"{_REFUND} request.transactions[].required", "", "id"),
        ),
    ),
    Reason(
        "Status of an order",
        """\
An order that its terminal has is `at_terminal`, not `processing`: whether it can still be canceled depends on that.
A declined payment and a refunded one have statuses of their own. `expired` and `action_required` appear only with
the setting `order_statuses = "extended"`.""",
        (
            ("Order.status", "processing", "at_terminal expired failed refunded"),
            (f"{_PAID}.status", "processing", "at_terminal canceled expired failed refunded"),
            ("GET /v1/orders parameters.status", "processing", "at_terminal expired failed refunded"),
            (
                f"{_REFUND} answer.status",
                "string",
                "action_required at_terminal canceled created expired failed processed refunded",
            ),
        ),
    ),
    Reason(
        "status_detail",
        """\
The detail of a paid order is `processed`; `accredited` is that of its payment, and in notifications of both. The
detail of an order says how far it is, and that of its payment why it was declined or canceled. Payments at a
terminal are not reviewed by hand, and never wait for a transfer or a capture.""",
        (
            (
                "Order.status_detail",
                "accredited in_process in_review waiting_capture waiting_payment waiting_transfer",
                "at_terminal canceled check_on_terminal expired failed partially_refunded processed refunded",
            ),
            (
                f"{_PAID}.status_detail",
                "in_process pending_review_manual waiting_capture",
                "at_terminal canceled_by_api canceled_on_terminal cancellation_requested check_on_terminal expired "
                "partially_refunded refunded",
            ),
            (
                f"{_PAID}.status_detail",
                "",
                "amount_limit_exceeded bad_filled_card_data card_disabled high_risk insufficient_amount "
                "invalid_installments max_attempts_exceeded processing_error rejected_by_issuer rejected_other_reason "
                "required_call_for_authorize",
            ),
            (
                f"{_REFUND} answer.status_detail",
                "string",
                "at_terminal canceled check_on_terminal created expired failed partially_refunded processed refunded",
            ),
        ),
    ),
    Reason(
        "The amount that was paid",
        """\
An order has one payment, whose `paid_amount` is the whole amount, with a tip. Notifications have
`total_paid_amount`.""",
        (("Order", "total_paid_amount", ""),),
    ),
    Reason(
        "Numbers as text",
        """\
The types of the official client for Node read these fields as text. In responses to token requests `user_id` is a
number, as in the description. Numbers of installments are also accepted as text.""",
        (
            (f"{_PAYMENTS}.payment_method.installments", "", "string"),
            ("Order.user_id", "integer", "string"),
            ("GET /v1/orders answer.paging.total", "integer", "string"),
            ("GET /v1/orders answer.paging.offset", "integer", "string"),
            ("GET /v1/orders answer.paging.limit", "integer", "string"),
        ),
    ),
    Reason(
        "Search",
        """\
A till also searches by terminal, payment method and detail, and pages by number.""",
        (
            (
                "GET /v1/orders parameters",
                "",
                "page page_size payment_method_id payment_method_type sort_by sort_order status_detail terminal_id",
            ),
            ("GET /v1/orders answer.paging", "", "total_pages"),
        ),
    ),
    Reason(
        "Integrators",
        """\
Each id of an integrator is text, and the sponsor an object, as in the types of the official client for Node.""",
        ((f"{_ORDERS}.integration_data", "sponsor_id", "corporation_id integrator_id sponsor"),),
    ),
    Reason(
        "Tokens",
        """\
A token always acts for a seller, so an application gets none by its own credentials alone. `scope` reduces what a token
may do, `test_token` requests one for test orders. `client_id` may also be a number.""",
        (
            ("POST /oauth/token request.grant_type", "client_credentials", ""),
            ("POST /oauth/token request", "", "scope test_token"),
            ("POST /oauth/token request.required", "", "code redirect_uri refresh_token"),
            ("POST /oauth/token request.client_id", "", "integer"),
            ("POST /oauth/token answer.token_type", "string", "bearer"),
        ),
    ),
    Reason(
        "Cancel",
        """\
The header also cancels an order that its terminal has. An empty object is accepted as the body, because some HTTP
clients always send one.""",
        (
            (f"{_CANCEL} parameters", "", "X-Allow-Cancelable-Status"),
            (_CANCEL, "", "request"),
            (_CANCEL_ACTION, "", "request"),
        ),
    ),
    Reason(
        "Lists of terminals",
        """\
The list has pages and filters, so `terminals` is in `data`, beside `paging`. A terminal that buyers use alone is in
mode `SELF_SERVICE`; `UNDEFINED` means that no mode was set.""",
        (
            (f"{_TERMINALS} parameters", "", "limit offset pos_id store_id"),
            (f"{_TERMINALS} answer", "terminals", "data paging"),
            (
                f"{_TERMINALS} answer.terminals[]",
                "",
                "current_order external_pos_id last_seen_date presence terminal_id",
            ),
            (f"{_TERMINALS} answer.terminals[].operating_mode", "", "SELF_SERVICE UNDEFINED"),
            ("PATCH /terminals/v1/setup request.terminals[].operating_mode", "", "SELF_SERVICE"),
        ),
    ),
    Reason(
        "Print actions",
        """\
A print action has the text or the image itself: Paydesk requests no URL of an application for a terminal. As in an
order, `config.point` names the terminal, and an idempotency key prevents that a retry prints twice.""",
        (
            (f"{_ACTIONS} parameters", "", "X-Idempotency-Key"),
            (f"{_ACTIONS} parameters.required", "", "X-Idempotency-Key"),
            (f"{_ACTIONS} request.type", "PRINT_DTE PRINT_INFO", "print"),
            (f"{_ACTIONS} request.config", "device_id", "point"),
            (f"{_ACTIONS} request.config.required", "", "point"),
            (f"{_ACTIONS} request.content", "object", "string"),
            (f"{_ACTIONS} answer", "", "config created_date external_reference last_updated_date type"),
            (f"{_ACTIONS} answer.status", "pending printed sent", "canceled created on_terminal processed"),
            (f"{_ACTION} answer", "date_created", "config created_date last_updated_date"),
            (f"{_ACTION} answer.type", "string", "print"),
            (f"{_ACTION} answer.status", "pending printed sent", "canceled created on_terminal processed"),
            (f"{_CANCEL_ACTION} parameters", "", "X-Idempotency-Key"),
            (f"{_CANCEL_ACTION} parameters.required", "", "X-Idempotency-Key"),
        ),
    ),
    Reason(
        "Responses that the description leaves open",
        """\
Paydesk describes them: the terminals with their modes, and the action.""",
        (("PATCH /terminals/v1/setup", "", "answer"), (_CANCEL_ACTION, "", "answer")),
    ),
    Reason(
        "Errors",
        """\
A code is a name. `errors` has every error of a request with its details, `code` repeats the one of a 401, and
`error_description` is the field of RFC 6749. The details name the field, so there is no `data`.""",
        (
            ("Error", "", "code error_description errors"),
            ("Error.cause[]", "data", ""),
            ("Error.cause[].code", "integer", "string"),
        ),
    ),
    Reason(
        "HTTP statuses",
        """\
The description has some of an operation's statuses, Paydesk's document all; listed are only operations where the
description has one that Paydesk has not. [Errors](errors.md) has the reasons. 422 and the token endpoint's 401 are 400
here. 202 means that the terminal was requested to release the order, 201 that a print action was created.""",
        (
            ("POST /oauth/token statuses", "401", "408 421 500 503"),
            ("POST /v1/orders statuses", "422", "403 408 409 413 415 421 429 503"),
            ("GET /v1/orders statuses", "", "403 414 421 429 500 503"),
            ("GET /v1/orders/{id} statuses", "", "403 421 429 500 503"),
            (f"{_CANCEL} statuses", "", "202 403 408 413 415 421 423 429 500 503"),
            (f"{_REFUND} statuses", "", "403 408 413 415 421 423 429 500 503"),
            (f"{_TERMINALS} statuses", "", "400 403 414 421 429 500 503"),
            ("PATCH /terminals/v1/setup statuses", "", "403 404 408 409 412 413 415 421 500 503"),
            (f"{_ACTIONS} statuses", "200", "201 403 404 408 409 413 415 421 423 500 503"),
            (f"{_ACTION} statuses", "", "400 401 403 421 429 500 503"),
            (f"{_CANCEL_ACTION} statuses", "", "400 401 403 408 409 413 415 421 423 429 500 503"),
        ),
    ),
)

_HEAD = """\
# Differences from the vendor's description

<!-- Generated by `make generate` from `tools/docs/differences.py`; do not edit. -->

The vendor publishes an OpenAPI description of its API for orders that are paid online. Here is where Paydesk differs
from it, as of June 2026, and why. Tests compare it with Paydesk's [OpenAPI document](openapi.json), so the list is
complete for the operations that both have. `-` marks a name that only the description has, `+` one that only Paydesk
has.

`Create` is the request of `POST /v1/orders`, `Order` and `Error` are what several operations return, `[]` is an item of
an array, `required` are the fields or parameters that a request must have."""


def page_of_differences() -> str:
    """Return docs/differences.md."""
    return page(_HEAD, *(block for reason in REASONS for block in _blocks(reason)))


def _blocks(reason: Reason) -> tuple[str, ...]:
    lines = (
        f"- `{where.replace(_ORDERS, 'Create')}`: {', '.join((*_code('-', theirs), *_code('+', ours)))}"
        for where, theirs, ours in reason.rows
        if not (where.endswith(" statuses") and not theirs)
    )
    return f"## {reason.heading}", reason.text, "\n".join(lines)


def _code(sign: str, words: str) -> list[str]:
    return [f"{sign}`{word}`" for word in words.split()]
