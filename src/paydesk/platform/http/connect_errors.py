"""Says why a connection to another system could not be made."""

from __future__ import annotations

import os
from ssl import SSLError


def connect_message(error: Exception) -> str:
    """Return what happened when connecting failed, without the internals that aiohttp names; empty for other errors."""
    from aiohttp import ClientConnectorCertificateError, ClientConnectorError

    if isinstance(error, ClientConnectorCertificateError):
        cause: Exception = error.certificate_error
        reason = f"its certificate is not valid, {getattr(cause, 'verify_message', '') or cause}"
    elif isinstance(error, ClientConnectorError):
        cause = error.os_error
        if isinstance(cause, SSLError):
            reason = f"TLS failed, {(cause.reason or str(cause)).replace('_', ' ').lower()}"
        else:
            number = cause.errno or 0
            reason = os.strerror(number) if number > 0 else cause.strerror or str(cause)
    else:
        return ""
    return f"Cannot connect to host {error.host}:{error.port}: {reason}"
