"""The kit as application and operator: it creates and cancels orders, sets the mode and moves the clock, over HTTP."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paydesk.core.secrets import Secret
from paydesk.terminals.schemas import Kind

if TYPE_CHECKING:
    import aiohttp

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


@dataclass(slots=True)
class Shop:
    """The client of the service at `base_url` for one terminal."""

    http: aiohttp.ClientSession
    base_url: str
    access_token: Secret
    operator_token: Secret
    seller_id: int
    terminal_id: str
    kind: Kind

    async def pair(self, user_code: str) -> str:
        """Approve the pairing and use its terminal from now on; return the error code if it is refused."""
        body = {"seller_id": self.seller_id, "kind": self.kind, "live_mode": False, "replace": True}
        path = f"/operator/v1/pairings/{user_code}"
        status, answer = await self._call("POST", path, body, token=self.operator_token)
        if status != 201:
            return str(answer.get("error", status))
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
        status, answer = await self._call("POST", "/v1/orders", body)
        assert status == 201, f"the kit's own order was refused: {answer}"
        return Order(answer["id"], answer["id"].removeprefix("ORD"), amount)

    async def print_text(self) -> str:
        """Have the terminal print a text; return the id of the action."""
        body = {
            "type": "print",
            "external_reference": "conformance",
            "config": {"point": {"terminal_id": self.terminal_id, "subtype": "custom"}},
            "content": PRINTED_TEXT,
        }
        status, answer = await self._call("POST", "/terminals/v1/actions", body)
        assert status == 201, f"the kit's own print action was refused: {answer}"
        return str(answer["id"])

    async def print_status(self, action_id: str) -> str:
        """Return the status of the print action."""
        return str((await self._call("GET", f"/terminals/v1/actions/{action_id}"))[1]["status"])

    async def release(self) -> None:
        """Cancel the print action that the terminal has."""
        path = f"/operator/v1/terminals/{self.terminal_id}/release"
        await self._call("POST", path, {"reason": "The case has ended."}, token=self.operator_token)

    async def get(self, order: Order) -> dict[str, Any]:
        """Return the order."""
        return (await self._call("GET", f"/v1/orders/{order.order_id}"))[1]

    async def cancel(self, order: Order) -> int:
        """Cancel the order, also at its terminal; return the status: 200 canceled, 202 requested."""
        headers = {"X-Allow-Cancelable-Status": "at_terminal"}
        return (await self._call("POST", f"/v1/orders/{order.order_id}/cancel", headers=headers))[0]

    async def set_mode(self, mode: str) -> None:
        """Set the terminal's operating mode."""
        body = {"terminals": [{"id": self.terminal_id, "operating_mode": mode}]}
        status, answer = await self._call("PATCH", "/terminals/v1/setup", body)
        assert status == 200, f"the kit's own change of the mode was refused: {answer}"

    async def advance(self, by: str) -> None:
        """Move the service's clock forward."""
        await self._call("POST", "/dev/clock", {"advance": by}, token=self.operator_token)

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
        await self._call("POST", "/device/v1/hello", body, token=device_token)

    async def _simulate(self, order: Order, status: str) -> bool:
        path = f"/v1/orders/{order.order_id}/events"
        return (await self._call("POST", path, {"status": status}))[0] == 204

    async def _call(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        token: Secret | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, dict[str, Any]]:
        sent = {"Authorization": f"Bearer {(token or self.access_token).reveal()}", **(headers or {})}
        sent["X-Idempotency-Key"] = str(uuid.uuid4())
        async with self.http.request(method, self.base_url + path, json=body, headers=sent) as reply:
            return reply.status, await reply.json() if reply.content_type == "application/json" else {}
