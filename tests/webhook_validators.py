"""What validators of webhooks, all unmodified, say of a received request: on Python and on Node."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

from mercadopago.webhook import InvalidWebhookSignatureError, WebhookSignatureValidator
from standardwebhooks import Webhook, WebhookVerificationError

import node_clients

OF_X_SIGNATURE = {"mercadopago for Python", "mercadopago for Node"}
OF_THE_BODY = {f"{library} for {runtime}" for library in ("standardwebhooks", "svix") for runtime in ("Python", "Node")}
ALL = OF_X_SIGNATURE | OF_THE_BODY


def accepting(url: str, headers: Mapping[str, str], body: bytes, secret: str) -> set[str]:
    """Return the validators that accept the request with this secret."""
    return {name for name, reason in verdicts(url, headers, body, secret).items() if not reason}


def verdicts(url: str, headers: Mapping[str, str], body: bytes, secret: str) -> dict[str, str]:
    """Return what each validator says, empty if it accepts the request; they read `data.id` from the query."""
    lower = {name.lower(): value for name, value in headers.items()}
    given = {"url": url, "headers": lower, "body": body.decode(), "secret": secret}
    return {**in_python(url, lower, body, secret), **node_clients.validate(given)}


def in_python(url: str, headers: Mapping[str, str], body: bytes, secret: str) -> dict[str, str]:
    """Return what the validators on Python say; names of headers are in lower case."""
    # Only here: it brings in hundreds of models, half a second of work for each process that collects the tests.
    from svix.webhooks import Webhook as SvixWebhook

    data_id = parse_qs(urlsplit(url).query).get("data.id", [None])[-1]
    said = {"mercadopago for Python": ""}
    try:
        WebhookSignatureValidator.validate(
            headers.get("x-signature"), headers.get("x-request-id"), data_id, secret, tolerance_seconds=300
        )
    except InvalidWebhookSignatureError as error:
        said["mercadopago for Python"] = error.reason.value
    for library, webhook in (("standardwebhooks", Webhook), ("svix", SvixWebhook)):
        try:
            webhook(secret).verify(body, dict(headers))
            said[f"{library} for Python"] = ""
        except WebhookVerificationError as error:
            said[f"{library} for Python"] = str(error)
    return said
