"""The options of the HTTP adapter in the acquirers file."""

from __future__ import annotations

import ipaddress
import re
import ssl
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from paydesk.core.secrets import Secret
from paydesk.engine.orders.status import FAILED_DETAILS
from paydesk.engine.payments.adapters.context import AcquirerState, AdapterContext, AdapterRefused
from paydesk.engine.payments.adapters.options import capabilities_of, private_text, secret_of
from paydesk.engine.payments.http.adapter import HttpAcquirer
from paydesk.engine.payments.http.exchange import Exchange
from paydesk.engine.payments.http.signing import KEY_ID_PATTERN, Signer

SECRETS_MAX = 2


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
    try:
        given = msgspec.convert(options, _Options)
    except msgspec.ValidationError as error:
        raise AdapterRefused(str(error)) from None
    secrets = _secrets(given)
    unknown = sorted(set(given.details.values()) - set(FAILED_DETAILS))
    if unknown:
        raise AdapterRefused(f"`details` has `{unknown[0]}`; a detail is one of {', '.join(FAILED_DETAILS)}")
    url, tls = _address(given)
    return HttpAcquirer(
        name,
        Exchange(url, Signer(given.key_id, secrets), tls, context),
        capabilities_of(given.capabilities),
        given.details,
        AcquirerState(url, given.key_id or None),
        context,
    )


def _secrets(given: _Options) -> tuple[Secret, ...]:
    references = [given.secret] if isinstance(given.secret, str) else given.secret
    if len(references) > SECRETS_MAX:
        raise AdapterRefused("`secret` may have two values during a change, the new one first")
    if references and not re.fullmatch(KEY_ID_PATTERN, given.key_id):
        raise AdapterRefused("`key_id` is needed beside `secret`: 1 to 64 letters, digits, `.`, `-` or `_`")
    if not references and not given.client_certificate:
        raise AdapterRefused("`secret` is missing, and there is no `client_certificate` instead")
    return tuple(map(secret_of, references))


def _address(given: _Options) -> tuple[str, ssl.SSLContext | None]:
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
        return url, _tls(given)
    if not _is_this_machine(address.hostname or ""):
        raise AdapterRefused(f"`url` is {given.url}: payments would be sent unencrypted. Use https://…")
    if given.client_certificate or given.ca_file:
        raise AdapterRefused("`client_certificate` and `ca_file` need an https address")
    return url, None


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _tls(given: _Options) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=given.ca_file or None)
    except OSError as error:
        raise AdapterRefused(f"`ca_file` {given.ca_file} cannot be used: {error.strerror or error}") from None
    if given.client_certificate:
        # The key may be in the same file.
        private_text(Path(given.client_key or given.client_certificate))
        try:
            context.load_cert_chain(given.client_certificate, given.client_key or None, password="")
        except OSError as error:
            reason = error.strerror or error
            raise AdapterRefused(f"`client_certificate` {given.client_certificate} cannot be used: {reason}") from None
    return context
