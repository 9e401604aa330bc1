"""The adapter of a host of the tests: one connection and one line of JSON for each request."""

from __future__ import annotations

import asyncio
import json
import uuid
from dataclasses import asdict
from typing import Any, cast

from paydesk.engine.payments.acquirer import (
    Acquirer,
    Approved,
    Card,
    ConfirmResult,
    Declined,
    InquiryResult,
    NotFound,
    NotSent,
    Outcome,
    Payment,
    Result,
    ReverseResult,
    TooLate,
    Unknown,
)
from paydesk.engine.payments.capabilities import Capabilities


class LineAdapter(Acquirer):
    """The host with that name, at a port of this machine."""

    def __init__(self, name: str, port: int, capabilities: Capabilities) -> None:
        self._name, self._port, self._capabilities = name, port, capabilities

    @property
    def capabilities(self) -> Capabilities:
        """Return what the host can do."""
        return self._capabilities

    async def authorize(self, payment: Payment, card: Card | None, *, blob: bytes = b"") -> Outcome:
        """Charge the payment."""
        asked = None if card is None else asdict(card)
        return cast(
            "Outcome", await self._ask("authorize", payment, key=payment.payment_id, card=asked, blob=blob.hex())
        )

    async def confirm(self, payment: Payment, *, key: str, reference_id: str, chip_data: bytes = b"") -> ConfirmResult:
        """Confirm the payment."""
        return await self._ask("confirm", payment, key=key, reference_id=reference_id, chip_data=chip_data.hex())

    async def inquire(self, payment: Payment) -> InquiryResult:
        """Return the outcome of the payment."""
        return cast("InquiryResult", await self._ask("inquire", payment, key=payment.payment_id))

    async def refund(self, payment: Payment, *, key: str, amount_minor: int, reference_id: str = "") -> Outcome:
        """Refund a part of the payment."""
        asked = {"amount_minor": amount_minor, "reference_id": reference_id}
        return cast("Outcome", await self._ask("refund", payment, key=key, **asked))

    async def reverse(
        self, payment: Payment, *, key: str, amount_minor: int, reference_id: str = "", chip_data: bytes = b""
    ) -> ReverseResult:
        """Reverse the payment."""
        asked = {"amount_minor": amount_minor, "reference_id": reference_id, "chip_data": chip_data.hex()}
        return await self._ask("reverse", payment, key=key, **asked)

    async def _ask(self, operation: str, payment: Payment, **request: Any) -> Result:
        named = {"host": self._name, "operation": operation, "payment": asdict(payment), "call": str(uuid.uuid4())}
        answer = await self._exchange({**named, **request})
        return _result(answer) if isinstance(answer, bytes) else answer

    async def _exchange(self, request: dict[str, Any]) -> bytes | Result:
        """Send the request; return its answer, or why there is none."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError as error:
            return NotSent(str(error))
        try:
            writer.write(json.dumps(request).encode() + b"\n")
            return await reader.readline()
        except OSError as error:
            return Unknown(str(error))
        finally:
            writer.close()


def _result(line: bytes) -> Result:
    """Return the answer; what cannot be read is unknown."""
    try:
        answer = json.loads(line)
        match answer.pop("outcome"):
            case "approved":
                return Approved(**answer)
            case "declined":
                return Declined(answer["detail"])
            case "not_found":
                return NotFound()
            case "too_late":
                return TooLate()
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    return Unknown("the answer is unreadable")
