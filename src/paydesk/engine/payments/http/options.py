"""The options of the HTTP adapter in the acquirers file."""

from __future__ import annotations

import base64
import re
import ssl
import urllib.parse
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from paydesk.core.secrets import Secret
from paydesk.engine.orders.status import FAILED_DETAILS
from paydesk.engine.payments.adapters.context import AdapterContext, AdapterRefused
from paydesk.engine.payments.adapters.options import capabilities_of, options_of, private_text, secret_of
from paydesk.engine.payments.http.adapter import HttpAcquirer
from paydesk.engine.payments.http.exchange import Exchange, Tls
from paydesk.engine.payments.http.signing import KEY_ID_PATTERN, Signer
from paydesk.platform.http.request import is_loopback

SECRETS_MAX = 2
CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\\s]+)-----END")
VALIDITY = re.compile(
    rb"\x30[\x1e-\x22](?:\x17\x0d[0-9]{12}Z|\x18\x0f[0-9]{14}Z)(?:\x17\x0d([0-9]{12})Z|\x18\x0f([0-9]{14})Z)"
)
"""A certificate's two dates, in DER: UTCTime has a year of two digits, GeneralizedTime of four."""


class _Options(msgspec.Struct, forbid_unknown_fields=True):
    url: str
    key_id: str = ""
    secret: str | list[str] = []
    client_certificate: str = ""
    client_key: str = ""
    ca_file: str = ""
    capabilities: dict[str, Any] = {}
    details: dict[str, str] = {}


def create(name: str, options: Mapping[str, object], context: AdapterContext) -> HttpAcquirer:
    """Return the acquirer. Raises `AdapterRefused`."""
    given = options_of(options, _Options)
    secrets = _secrets(given)
    unknown = sorted(set(given.details.values()) - set(FAILED_DETAILS))
    if unknown:
        raise AdapterRefused(f"`details` has `{unknown[0]}`; a detail is one of {', '.join(FAILED_DETAILS)}")
    url, tls = _address(given)
    exchange = Exchange(url, Signer(given.key_id, secrets), tls, context)
    return HttpAcquirer(name, exchange, capabilities_of(given.capabilities), given.details, context)


def _secrets(given: _Options) -> tuple[Secret, ...]:
    references = [given.secret] if isinstance(given.secret, str) else given.secret
    if len(references) > SECRETS_MAX:
        raise AdapterRefused("`secret` may have two values during a change, the new one first")
    if references and not re.fullmatch(KEY_ID_PATTERN, given.key_id):
        raise AdapterRefused("`key_id` is needed beside `secret`: 1 to 64 letters, digits, `.`, `-` or `_`")
    if not references and not given.client_certificate:
        raise AdapterRefused("`secret` is missing, and there is no `client_certificate` instead")
    return tuple(map(secret_of, references))


def _address(given: _Options) -> tuple[str, Tls | None]:
    """Return the URL without a slash at its end, and the context of its connections."""
    address = urllib.parse.urlsplit(given.url)
    try:
        is_complete = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:
        is_complete = False
    if not is_complete or address.query or address.fragment or address.username is not None:
        raise AdapterRefused("`url` must be like https://switch.example/paydesk, without user, query and fragment")
    url = given.url.rstrip("/")
    if address.scheme == "https":
        context = tls_context(given.ca_file, given.client_certificate, given.client_key)
        return url, Tls(context, _valid_until_seconds(given.client_certificate) if given.client_certificate else None)
    if address.hostname != "localhost" and not is_loopback(address.hostname or ""):
        raise AdapterRefused(f"`url` is {given.url}: payments would be sent unencrypted. Use https://…")
    if given.client_certificate or given.ca_file:
        raise AdapterRefused("`client_certificate` and `ca_file` need an https address")
    return url, None


def tls_context(ca_file: str, client_certificate: str, client_key: str) -> ssl.SSLContext:
    """Return the context of connections with these files; "" for none. Raises `AdapterRefused`."""
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:
        raise AdapterRefused(f"`ca_file` {ca_file} cannot be used: {error.strerror or error}") from None
    if client_certificate:
        # The key may be in the same file.
        private_text(Path(client_key or client_certificate))
        try:
            context.load_cert_chain(client_certificate, client_key or None, password="")
        except OSError as error:
            reason = error.strerror or error
            raise AdapterRefused(f"`client_certificate` {client_certificate} cannot be used: {reason}") from None
    return context


def _valid_until_seconds(file: str) -> int | None:
    """Return when the first certificate of a file expires; None if it does not have its dates as RFC 5280 says."""
    block = CERTIFICATE.search(Path(file).read_text("ascii", "replace"))
    found = VALIDITY.search(base64.b64decode(block[1])) if block else None
    if found is None:
        return None
    digits = (found[1] or found[2]).decode()
    # A year of two digits is one of 1950 to 2049.
    text = digits if found[2] else f"{'20' if digits < '5' else '19'}{digits}"
    return round(datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp())
