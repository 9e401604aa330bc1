"""Pairing as the terminal sees it (RFC 8628): ask for codes, show one, and poll for the device token.

The requests have no credentials, so the rows that they insert are limited per address and in all, and a poll of a
pending pairing writes nothing.
"""

from __future__ import annotations

from paydesk.core.keys import KeyMissing
from paydesk.core.secrets import digest
from paydesk.engine.terminals import store
from paydesk.engine.terminals.errors import ACCESS_DENIED, AUTHORIZATION_PENDING, EXPIRED_TOKEN, SLOW_DOWN
from paydesk.engine.terminals.pairing import codes as pairing_codes
from paydesk.engine.terminals.pairing import store as pairing_store
from paydesk.engine.terminals.pairing.rates import INTERVAL_SECONDS, PairingRates
from paydesk.engine.terminals.schemas import NewPairing, PairedDevice, PairingRequest, PairingTokenRequest
from paydesk.platform.operation import Answer, Call, Handled
from paydesk.platform.storage.database import Transaction

LIFETIME_SECONDS = 300
TOKEN_LIFETIME_SECONDS = 600
"""Time after the approval in which a terminal can get its token, until it has used it."""
USER_CODES_MAX = 4
"""Codes to try: one in two million is taken while ten thousand are open."""
NO_STORE = (("cache-control", "no-store"),)


async def begin(call: Call) -> Handled:
    """Ask to be paired: insert a pending pairing and return its codes. Expired pairings are deleted with it."""
    rates = call.shared.objects[PairingRates]
    rates.count_pairing(call.address)
    rates.refuse_while_full()
    device_code = pairing_codes.new_device_code()
    user_codes = [pairing_codes.new_user_code() for _ in range(USER_CODES_MAX)]
    user_code = await call.database.write(lambda tx: _insert(tx, call, device_code, user_codes))
    if user_code is None:
        # After the commit: the expired rows that were deleted stay deleted.
        raise rates.full()
    uri = verification_uri(call.settings.pairing_url, call.settings.operator_public_url)
    return Answer(201, NewPairing(device_code, user_code, LIFETIME_SECONDS, INTERVAL_SECONDS, uri), NO_STORE)


async def token(call: Call) -> Handled:
    """Get the device token of an approved pairing. It is returned until the terminal has used it."""
    request: PairingTokenRequest = call.body
    rates = call.shared.objects[PairingRates]
    rates.count_poll(call.address)
    pairing = await call.database.read(lambda tx: pairing_store.by_device_code(tx, request.device_code, call.now_ms))
    if pairing is None:
        raise EXPIRED_TOKEN.with_reason("device code unknown or expired")
    if pairing.denied_ms is not None:
        raise ACCESS_DENIED.with_reason("denied by an operator")
    if pairing.seller_id is None:
        raise (SLOW_DOWN if rates.is_too_fast(pairing.device_digest) else AUTHORIZATION_PENDING).with_reason("pending")
    assert pairing.key_version is not None, "it is set with the seller"
    seller_id, version = pairing.seller_id, pairing.key_version
    derived = pairing_codes.token_of(call.keys, version, pairing.device_digest, seller_id)
    is_unused = await call.database.read(lambda tx: store.is_unused(tx, seller_id, digest(derived)))
    if is_unused is None:
        raise KeyMissing(version, f"this node's server key of version {version} is not the one of the device token")
    if not is_unused:
        raise EXPIRED_TOKEN.with_reason("device token used or revoked")
    return Answer(200, PairedDevice(pairing.terminal_id, derived), NO_STORE)


def verification_uri(pairing_url: str | None, operator_public_url: str | None) -> str | None:
    """Return the address where operators type a user code, from the settings of these names, or None."""
    return pairing_url or (f"{operator_public_url}/console/pair" if operator_public_url else None)


async def _insert(tx: Transaction, call: Call, device_code: str, user_codes: list[str]) -> str | None:
    """Insert the pairing under one of the user codes and return that; None if there are too many pairings."""
    request: PairingRequest = call.body
    now_ms = call.now_ms
    await pairing_store.delete_expired(tx, now_ms)
    if await pairing_store.is_full(tx, now_ms, call.settings.pairings_open_max):
        return None
    for user_code in user_codes:
        if await pairing_store.insert(
            tx,
            device_code,
            user_code,
            model=request.model,
            serial=request.serial,
            address=call.address,
            now_ms=now_ms,
            expires_ms=now_ms + LIFETIME_SECONDS * 1000,
        ):
            return user_code
    raise AssertionError("all user codes are taken")
