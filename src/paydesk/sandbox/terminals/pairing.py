"""Pairs virtual terminals with any service: over the public pairing interface, as its operator approves each code.

All are test terminals of one seller, in a store made for them, each at a point of sale of its own.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from paydesk.sandbox.http_client import Client, Document, Refused

MODEL = "PAYDESK_VIRTUAL"
STORE_NAME = "Simulated terminals"
RELEASE_REASON = "The simulation that the terminal belongs to has ended."
ATTEMPTS_MAX, PAUSE_SECONDS = 5, 1.0
"""Of a request that the service cannot answer now. One that it throttles is repeated without a limit."""

Kind = Literal["terminal", "service"]


@dataclass(frozen=True, slots=True)
class Paired:
    """A terminal and its point of sale."""

    terminal_id: str
    pos_id: int


@dataclass(frozen=True, slots=True)
class Service:
    """The service at its address for terminals, and at that for operators with the token of one.

    `wait` is called with the pause in seconds when the service is busy or throttles. It may raise `Refused` to give up.
    """

    terminals: Client
    operators: Client
    wait: Callable[[float], Awaitable[object]] = asyncio.sleep

    async def operator(self, method: str, path: str, body: Document | None = None) -> Document:
        """Send a request to the operators' interface. Raises `Refused`."""
        return await self._call(self.operators, method, f"/operator/v1{path}", body)

    async def device(self, path: str, body: Document) -> Document:
        """Send a request of a terminal that is not paired. Raises `Refused`."""
        return await self._call(self.terminals, "POST", f"/device/v1{path}", body)

    async def kind(self) -> Kind:
        """Return the kind of terminals that fits: `service` where there is no simulated acquirer for terminals.

        Raises `Refused` for an address that is not for terminals.
        """
        if not await self._has("/device/v1/hello"):
            raise Refused(
                f"{self.terminals.base_url} does not serve terminals. Name the address that does with --device-url;"
                " with `paydesk serve` it is another one than the operators'.",
                404,
            )
        return "terminal" if await self._has("/virtual/v1/acquirer/payments") else "service"

    async def _has(self, path: str) -> bool:
        """Return whether the service has the operation, which it refuses without credentials."""
        try:
            await self._call(self.terminals, "POST", path, {})
        except Refused as refused:
            if refused.status == 0:
                raise
            return refused.status != 404
        return True

    async def _call(self, client: Client, method: str, path: str, body: Document | None) -> Document:
        failures = 0
        while True:
            try:
                return await client.call(method, path, body)
            except Refused as refused:
                failures += refused.status != 429
                if refused.status not in (429, 503) or failures == ATTEMPTS_MAX:
                    raise
                pause = refused.retry_seconds or PAUSE_SECONDS
            await self.wait(pause)


class Pairing:
    """Pairs the terminals of one simulation, and removes them. `terminals` are those that were paired."""

    def __init__(self, service: Service, seller_id: int, kind: Kind) -> None:
        self._service, self._seller_id, self._kind = service, seller_id, kind
        self.store_id: int | None = None
        self.terminals: list[Paired] = []

    async def open(self) -> None:
        """Make the store. Raises `Refused`."""
        store = await self._service.operator("POST", "/stores", {"seller_id": self._seller_id, "name": STORE_NAME})
        self.store_id = store["store_id"]

    async def pair(self) -> tuple[str, str]:
        """Pair a new terminal, in mode PDV; return its id and its device token. Raises `Refused`."""
        asked = await self._service.device("/pairings", {"model": MODEL, "serial": secrets.token_hex(8).upper()})
        terminal = await self._service.operator(
            "POST",
            f"/pairings/{asked['user_code']}",
            {"seller_id": self._seller_id, "store_id": self.store_id, "kind": self._kind, "live_mode": False},
        )
        self.terminals.append(Paired(terminal["id"], terminal["pos_id"]))
        await self._service.operator("PATCH", f"/terminals/{terminal['id']}", {"operating_mode": "PDV"})
        received = await self._service.device("/pairings/token", {"device_code": asked["device_code"]})
        return terminal["id"], received["device_token"]

    async def remove(self, terminal: Paired) -> None:
        """Release the terminal's order, and delete the terminal and its point of sale. Raises `Refused`."""
        path = f"/terminals/{terminal.terminal_id}"
        try:
            await self._service.operator("DELETE", path)
        except Refused as refused:
            if refused.code != "in_use":
                raise
            await self._service.operator("POST", f"{path}/release", {"reason": RELEASE_REASON})
            await self._service.operator("DELETE", path)
        await self._service.operator("DELETE", f"/pos/{terminal.pos_id}")

    async def close(self) -> None:
        """Delete the store. Raises `Refused`."""
        await self._service.operator("DELETE", f"/stores/{self.store_id}")
