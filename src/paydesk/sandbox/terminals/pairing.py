"""Pairs virtual terminals with any service: over the public pairing interface, as its operator approves each code.

All are test terminals of one seller, in a store made for them, each at a point of sale of its own.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    import aiohttp

MODEL = "PAYDESK_VIRTUAL"
STORE_NAME = "Simulated terminals"
RELEASE_REASON = "The simulation that the terminal belongs to has ended."
REQUEST_SECONDS_MAX = 30
ATTEMPTS_MAX, PAUSE_SECONDS = 5, 1.0
"""Of a request that the service cannot answer now. One that it throttles is repeated without a limit."""

Kind = Literal["terminal", "service"]
Document = dict[str, Any]


class Refused(Exception):
    """The service refused a request; `status` is its status, 0 if it could not be reached."""

    def __init__(self, message: str, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        self.status, self.code = status, code


@dataclass(frozen=True, slots=True)
class Paired:
    """A terminal and its point of sale."""

    terminal_id: str
    pos_id: int


@dataclass(frozen=True, slots=True)
class Service:
    """The service: its address for terminals, its address for operators, and an operator's token.

    `wait` is called with the pause in seconds when the service is busy or throttles. It may raise `Refused` to give up.
    """

    http: aiohttp.ClientSession
    device_url: str
    operator_url: str
    operator_token: str
    wait: Callable[[float], Awaitable[object]] = asyncio.sleep

    async def operator(self, method: str, path: str, body: Document | None = None) -> Document:
        """Send a request to the operators' interface. Raises `Refused`."""
        headers = {"Authorization": f"Bearer {self.operator_token}"}
        return await self._request(method, f"{self.operator_url}/operator/v1{path}", body, headers)

    async def device(self, path: str, body: Document) -> Document:
        """Send a request of a terminal that is not paired. Raises `Refused`."""
        return await self._request("POST", f"{self.device_url}/device/v1{path}", body, {})

    async def kind(self) -> Kind:
        """Return the kind of terminals that fits: `service` where there is no simulated acquirer for terminals.

        Raises `Refused` for an address that is not for terminals.
        """
        if not await self._has("/device/v1/hello"):
            raise Refused(
                f"{self.device_url} does not serve terminals. Name the address that does with --device-url; with"
                " `paydesk serve` it is another one than the operators'.",
                404,
            )
        return "terminal" if await self._has("/virtual/v1/acquirer/payments") else "service"

    async def _has(self, path: str) -> bool:
        """Return whether the service has the operation, which it refuses without credentials."""
        try:
            await self._request("POST", self.device_url + path, {}, {})
        except Refused as refused:
            if refused.status == 0:
                raise
            return refused.status != 404
        return True

    async def _request(self, method: str, url: str, body: Document | None, headers: dict[str, str]) -> Document:
        failures = 0
        while True:
            try:
                status, retry_after, document = await self._attempt(method, url, body, headers)
            except OSError as error:
                raise Refused(f"Cannot connect to {url.partition('/operator/')[0]}: {error}.") from None
            if status < 400:
                return document
            failures += status != 429
            if status not in (429, 503) or failures == ATTEMPTS_MAX:
                raise _refused(status, document)
            await self.wait(retry_after)

    async def _attempt(
        self, method: str, url: str, body: Document | None, headers: dict[str, str]
    ) -> tuple[int, float, Document]:
        from aiohttp import ClientError, ClientTimeout

        timeout = ClientTimeout(total=REQUEST_SECONDS_MAX)
        try:
            async with self.http.request(method, url, json=body, headers=headers, timeout=timeout) as answer:
                raw = await answer.read()
                pause = answer.headers.get("Retry-After", "")
                document = msgspec.json.decode(raw) if raw else {}
        except (ClientError, TimeoutError) as error:
            raise OSError(str(error) or type(error).__name__) from None
        except msgspec.DecodeError:
            document = {}
        is_object = isinstance(document, dict)
        return answer.status, float(pause) if pause.isdecimal() else PAUSE_SECONDS, document if is_object else {}


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


def _refused(status: int, document: Document) -> Refused:
    first = next(iter(document.get("errors") or [{}]))
    message = first.get("message") or document.get("message") or f"The service responded with status {status}."
    details = "; ".join(first.get("details") or ())
    return Refused(f"{message} {details}".strip(), status, str(first.get("code", "")))
