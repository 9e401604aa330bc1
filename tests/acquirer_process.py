"""The simulated acquirer as a process of its own, for tests that kill it. It starts on the same database again.

`main([DATABASE_URL, OPERATION, LABEL, PAYMENT_ID, KEY])` asks once and dies at the crash point; with the operation
`everything`, LABEL is a seed: it makes requests for PAYMENT_ID and others until killed, and logs the results.
"""

from __future__ import annotations

import asyncio
import os
import random

from acquirer_scene import Bank, card, new_payment
from paydesk.core import crash_points
from paydesk.engine.payments.acquirer import Payment, Result
from paydesk.engine.payments.capabilities import Capabilities
from paydesk.engine.payments.simulator.acquirer import BY_DEFAULT, WITH_CONFIRMATIONS
from paydesk.platform.storage.connect import open_database

AMOUNT_MINOR = 1000
PAYMENTS, PARTS, TILLS = 30, 6, 8
SCRIPT = "payment:lost@10 payment:unheard@10 refund:not_sent:2@20 refund:decline:processing_error@10 reversal:lost@30"


async def ask(bank: Bank, operation: str, payment: Payment, key: str) -> Result:
    """Make one request: a payment, a refund of three tenths, a reversal, or a confirmation."""
    if operation == "payment":
        return await bank.simulator.authorize(payment, card())
    if operation == "refund":
        return await bank.simulator.refund(payment, key=key, amount_minor=AMOUNT_MINOR * 3 // 10)
    if operation == "confirmation":
        return await bank.simulator.confirm(payment, key=key, reference_id=await bank.reference_of(payment))
    return await bank.simulator.reverse(payment, key=key, amount_minor=AMOUNT_MINOR)


def capabilities_for(operation: str) -> Capabilities:
    """Return the capabilities of an acquirer that has the operation."""
    return WITH_CONFIRMATIONS if operation == "confirmation" else BY_DEFAULT


def payment_of(payment_id: str) -> Payment:
    """Return the payment with that id, the same in every process."""
    return new_payment(AMOUNT_MINOR, payment_id=payment_id)


def requests(run: str, seed: int) -> list[tuple[str, str, str]]:
    """Return payments, parts that exceed them, and reversals; each twice, in random order."""
    asked = []
    for number in range(PAYMENTS):
        payment_id = f"PAY{run}{number}"
        asked += [("payment", payment_id, payment_id)] * 2
        asked += [("refund", payment_id, f"REF{run}{number}/{part}") for part in range(PARTS)] * 2
        if number % 5 == 0:
            asked += [("reversal", payment_id, f"REV{run}{number}")] * 2
    random.Random(seed).shuffle(asked)
    return asked


async def _once(database_url: str, operation: str, label: str, payment_id: str, key: str) -> None:
    database = await open_database(database_url)
    bank = Bank(database, capabilities=capabilities_for(operation))
    crash_points.arm(label)  # type: ignore[arg-type]  # a label is a word on the command line
    await ask(bank, operation, payment_of(payment_id), key)


async def _for_ever(database_url: str, seed: int, run: str) -> None:
    bank = Bank(await open_database(database_url), SCRIPT)
    asked = iter(requests(run, seed))

    async def till() -> None:
        for operation, payment_id, key in asked:
            outcome = await ask(bank, operation, payment_of(payment_id), key)
            # In one piece: a line that is in the log is a whole one.
            os.write(1, f"{operation} {payment_id} {key} {outcome}\n".encode())

    await asyncio.gather(*(till() for _ in range(TILLS)))
    await asyncio.Event().wait()


def main(arguments: list[str]) -> None:
    """Make requests until killed."""
    database_url, operation, label, payment_id, key = arguments
    if operation == "everything":
        asyncio.run(_for_ever(database_url, int(label), payment_id))
    else:
        asyncio.run(_once(database_url, operation, label, payment_id, key))
