"""Virtual terminals as a process of their own: `main([BASE_URL, FOLDER, SELLER_ID])` runs one for each journal there.

They are the real ones, except that they call the acquirer at the tests' own door: `paydesk serve` has none.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import structlog

from acquirer_door import PATH, asking
from paydesk.core.money import minor_units
from paydesk.engine.payments.acquirer import Payment
from paydesk_dev.http_client import Reply
from paydesk_dev.virtual import journal as journals
from paydesk_dev.virtual.journal import Journal
from paydesk_dev.virtual.terminal.client import CALL_SECONDS_MAX, DeviceClient, Pace
from paydesk_dev.virtual.terminal.terminal import Terminal

PACE = Pace(poll_seconds=5, backoff_seconds=(0.02, 0.05, 0.1))


class DoorClient(DeviceClient):
    """The client of a virtual terminal, which calls the acquirer at the tests' door."""

    def __init__(self, http: aiohttp.ClientSession, base_url: str, journal: Journal, seller_id: int) -> None:
        super().__init__(http, base_url, journal.device_token)
        self._terminal_id, self._seller_id = journal.terminal_id, seller_id

    async def authorize(self, request: dict[str, Any]) -> Reply:
        """Charge the payment with a card that is approved."""
        amount_minor = minor_units(request["amount"], 2)
        assert amount_minor is not None
        payment = Payment(self._seller_id, self._terminal_id, request["payment_id"], amount_minor, "BRL")
        return await self._send("POST", PATH, asking(payment, "visa_approved"), CALL_SECONDS_MAX)


async def run(base_url: str, paths: list[Path], seller_id: int) -> None:
    """Run a terminal for each journal, until the process is killed."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        for path in paths:
            journal = journals.read(path)
            assert journal is not None
            Terminal(journal, partial(DoorClient, http, base_url, journal, seller_id), PACE).start()
        await asyncio.Event().wait()


def main(arguments: list[str]) -> None:
    """Run the terminals."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    base_url, folder, seller_id = arguments
    asyncio.run(run(base_url, sorted(Path(folder).glob("*.json")), int(seller_id)))
