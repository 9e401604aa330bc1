"""The kit as application and operator: it creates and cancels orders, sets the mode and moves the clock, over HTTP."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, replace

from paydesk.core.secrets import Secret
from paydesk.engine.terminals.schemas import Kind
from paydesk_dev.http_client import Client, Document, Refused

PRINTED_TEXT = (
    "{center}{b}Conformance{/b}{/center}{br}The terminal prints this text, or reports that it could not print it.{br}"
    "{qr}https://paydesk.example{/qr}"
)
LIVE = ("created", "at_terminal")
UNKNOWN_AFTER = "41s"
"""A permitted order without a result is `check_on_terminal` after 40 s."""
WORKER_SECONDS = 0.3
"""A worker acts within this time after the clock was moved."""


@dataclass(frozen=True, slots=True)
class Order:
    """An order that the kit has placed."""

    order_id: str
    lease_id: str
    amount: str

    @property
    def payment_id(self) -> str:
        """Return the id of its payment."""
        return f"PAY{self.lease_id}"


@dataclass(slots=True)
class Shop:
    """The clients of the service for one terminal, as application and as operator. Raises `Refused`."""

    application: Client
    operator: Client
    seller_id: int
    terminal_id: str
    kind: Kind

    async def pair(self, user_code: str) -> str:
        """Approve the pairing and use its terminal from now on; return the error code if it is refused."""
        body = {"seller_id": self.seller_id, "kind": self.kind, "live_mode": False, "replace": True}
        try:
            answer = await self.operator.call("POST", f"/operator/v1/pairings/{user_code}", body)
        except Refused as refused:
            return refused.code or str(refused.status)
        self.terminal_id = str(answer["id"])
        await self.set_mode("PDV")
        return ""

    async def create(self, amount: str, expires: str) -> Order:
        """Place an order on the terminal."""
        body = {
            "type": "point",
            "description": "Conformance",
            "expiration_time": expires,
            "transactions": {"payments": [{"amount": amount}]},
            "config": {"point": {"terminal_id": self.terminal_id, "print_on_terminal": "no_ticket"}},
        }
        answer = await self.application.call("POST", "/v1/orders", body, _new_key())
        return Order(answer["id"], answer["id"].removeprefix("ORD"), amount)

    async def print_text(self) -> str:
        """Have the terminal print a text; return the id of the action."""
        body = {
            "type": "print",
            "external_reference": "conformance",
            "config": {"point": {"terminal_id": self.terminal_id, "subtype": "custom"}},
            "content": PRINTED_TEXT,
        }
        return str((await self.application.call("POST", "/terminals/v1/actions", body, _new_key()))["id"])

    async def print_status(self, action_id: str) -> str:
        """Return the status of the print action."""
        return str((await self.application.call("GET", f"/terminals/v1/actions/{action_id}"))["status"])

    async def release(self) -> None:
        """Cancel the print action that the terminal has."""
        path = f"/operator/v1/terminals/{self.terminal_id}/release"
        await self.operator.send("POST", path, {"reason": "The case has ended."})

    async def get(self, order: Order) -> Document:
        """Return the order."""
        return await self.application.call("GET", f"/v1/orders/{order.order_id}")

    async def cancel(self, order: Order) -> None:
        """Cancel the order, or request it at its terminal."""
        headers = {"X-Allow-Cancelable-Status": "at_terminal", **_new_key()}
        await self.application.send("POST", f"/v1/orders/{order.order_id}/cancel", headers=headers)

    async def set_mode(self, mode: str) -> None:
        """Set the terminal's operating mode."""
        body = {"terminals": [{"id": self.terminal_id, "operating_mode": mode}]}
        await self.application.call("PATCH", "/terminals/v1/setup", body)

    async def advance(self, by: str) -> None:
        """Move the service's clock forward."""
        await self.operator.call("POST", "/dev/clock", {"advance": by})

    async def settle(self, order: Order) -> None:
        """End the order in any way, so that the terminal is free for the next one."""
        for _ in range(4):
            status = (await self.get(order))["status"]
            if status == "created":
                await self.cancel(order)
            elif status == "at_terminal" and not await self._simulate(order, "canceled"):
                await self.advance(UNKNOWN_AFTER)
                await asyncio.sleep(WORKER_SECONDS)
                await self._simulate(order, "failed")
            elif status not in LIVE:
                return

    async def take_session_over(self, device_token: Secret) -> None:
        """Begin a newer session of the terminal, as a second device with its token would."""
        body = {"boot_id": str(uuid.uuid4()), "app_version": "conformance kit", "journal": []}
        await replace(self.application, token=device_token).send("POST", "/device/v1/hello", body)

    async def _simulate(self, order: Order, status: str) -> bool:
        path = f"/v1/orders/{order.order_id}/events"
        return (await self.application.send("POST", path, {"status": status})).status == 204


def _new_key() -> dict[str, str]:
    return {"X-Idempotency-Key": str(uuid.uuid4())}
