"""An order's row with a state and otherwise minimal values."""

from __future__ import annotations

from paydesk.platform.storage.database import Transaction

_COLUMNS = "seller_id, order_id, terminal_id, status, status_detail, payment_status_detail"
_TEXTS = "currency, country, amount, expiration_time, config, integration_data"
_NUMBERS = "application_id, live, version, amount_minor, created_ms, updated_ms, expires_ms, refunded_minor"
_VALUES = "1, $1, $1, $2, $3, $4" + ", ''" * 6 + ", 0" * 8

INSERT = f"INSERT INTO orders ({_COLUMNS}, {_TEXTS}, {_NUMBERS}) VALUES ({_VALUES})"


async def insert(tx: Transaction, order_id: str, state: tuple[str, str, str]) -> None:
    """Insert it on a terminal of its own. `state` is status, detail and payment detail."""
    await tx.run(INSERT, order_id, *state)
