"""A seller and an application of one test's own, as the test and its till use them."""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Literal

from paydesk_dev.testing.documents import Charge, Document, Order, Request, id_of
from paydesk_dev.testing.errors import NotFired, NotReached, NotShown, Refused
from paydesk_dev.testing.faults import Faults
from paydesk_dev.testing.service import Service
from paydesk_dev.testing.terminal import Terminal
from paydesk_dev.testing.webhooks import Webhooks

EVENTS_SECONDS_MAX = 50
PAGE_SIZE = 50
ENDED = ("failed", "canceled", "expired", "refunded")
AFTER = ("idle", "approved", "declined", "canceled", "expired")
"""The screens after which nothing more happens without another order."""


class Paydesk:
    """A seller and an application with tokens and a subscription. `seconds`: how long a wait takes at most."""

    def __init__(self, service: Service, scene: Mapping[str, Any], seconds: float) -> None:
        self.service, self.seconds = service, seconds
        self.base_url: str = scene["base_url"]
        self.client_id: str = scene["client_id"]
        self.client_secret: str = scene["client_secret"]
        self.redirect_uri: str = scene["redirect_uri"]
        self.access_token: str = scene["test"]["access_token"]
        self._token = self.access_token
        self.refresh_token: str = scene["test"]["refresh_token"]
        self.user_id: int = scene["seller"]["user_id"]
        self.webhook_secret: str = scene["webhook"]["secret"]
        self.subscription_id: str = scene["webhook"]["subscription_id"]
        self.terminals: list[Terminal] = []
        self.faults, inbox_url = Faults(service, self.client_id, self.user_id, seconds), scene["webhook"]["inbox_url"]
        self.webhooks = Webhooks(service, self.subscription_id, self.client_id, inbox_url, seconds)

    @classmethod
    def create_in(cls, service: Service, seconds: float, **fields: Any) -> Paydesk:
        """Create the seller and the application; the fields are those of `POST /dev/scenes`."""
        return cls(service, service.ask("POST", "/dev/scenes", fields), seconds)

    def environment(self, terminal: Terminal | None = None) -> dict[str, str]:
        """Return environment variables for a till that is a program of its own."""
        names = ("base_url", "client_id", "client_secret", "access_token", "refresh_token", "user_id", "redirect_uri")
        variables = {f"PAYDESK_{name.upper()}": str(getattr(self, name)) for name in (*names, "webhook_secret")}
        return variables if terminal is None else {**variables, "PAYDESK_TERMINAL_ID": terminal.id}

    def terminal(self, script: str = "manual", *, pace: Literal["quick", "real"] = "quick") -> Terminal:
        """Create a virtual terminal at a point of sale of its own."""
        body = {"seller_id": self.user_id, "script": script, "pace": pace}
        made = Document(self.service.ask("POST", "/virtual/v1/terminals", body))
        self.terminals.append(Terminal(self.service.ask, made, self.seconds))
        return self.terminals[-1]

    def create(
        self, terminal: Terminal | str, amount: str = "24.90", *, reference: str = "", key: str = "", **fields: Any
    ) -> Order:
        """Create an order, as a till does; the fields are further ones of `POST /v1/orders`."""
        point = {"terminal_id": terminal if isinstance(terminal, str) else terminal.id}
        body = {
            "type": "point",
            "transactions": {"payments": [{"amount": amount}]},
            "config": {"point": point},
            **({"external_reference": reference} if reference else {}),
            **fields,
        }
        return Order(self.ask("POST", "/v1/orders", body, headers=_key(key)))

    def order(self, order: Order | str) -> Order:
        """Return the order as it is now."""
        return Order(self.ask("GET", f"/v1/orders/{id_of(order)}"))

    def orders(self, reference: str = "") -> list[Order]:
        """Return all orders, or those with this reference, oldest first."""
        found, query = list[Order](), f"&external_reference={reference}" if reference else ""
        while True:
            page = self.ask("GET", f"/v1/orders?sort_order=asc&limit={PAGE_SIZE}&offset={len(found)}{query}")
            found += map(Order, page["data"])
            if len(page["data"]) < PAGE_SIZE:
                return found

    def cancel(self, order: Order | str, *, at_terminal: bool = True) -> int:
        """Cancel the order, as a till does, and return the status: 200, or 202 if the terminal must agree."""
        allowed = {"X-Allow-Cancelable-Status": "at_terminal"} if at_terminal else {}
        path = f"/v1/orders/{id_of(order)}/cancel"
        return self._send("POST", path, headers={**_key(""), **allowed})[0]

    def refund(self, order: Order | str, amount: str | None = None, *, key: str = "") -> Order:
        """Refund the order, all or this amount, and return it."""
        found = self.order(order)
        payment = {"id": found["transactions"]["payments"][0]["id"], "amount": amount}
        body = {"transactions": [payment]} if amount is not None else None
        self.ask("POST", f"/v1/orders/{found.id}/refund", body, headers=_key(key))
        return self.order(found)

    def charges(self) -> list[Charge]:
        """Return what buyers have paid, by the acquirer's ledger: approved, minus what was given back."""
        found = map(Charge, self.service.ask("GET", f"/dev/charges?application={self.client_id}")["data"])
        return [charge for charge in found if float(charge.charged_amount) > 0]

    def wait_for(self, status: str, order: Order | str, *, detail: str = "", seconds: float | None = None) -> Order:
        """Return the order once it has this status, and this payment status detail if one is given.

        Raises `NotReached`, at once if the order has ended otherwise.
        """
        end = time.monotonic() + (self.seconds if seconds is None else seconds)
        after = ""
        while True:
            found, left = self.order(order), end - time.monotonic()
            if found.status == status and detail in ("", found.detail):
                return found
            if left <= 0 or (found.status in ENDED and found.status != status):
                wanted = f"{status} ({detail})" if detail else status
                raise NotReached(f"{found.id} does not reach {wanted}: it is {found.status} ({found.detail}).")
            wait = math.ceil(min(left, EVENTS_SECONDS_MAX))
            after = self.ask("GET", f"/v1/events?wait={wait}{after and f'&after={after}'}")["next"]

    async def wait_for_async(
        self, status: str, order: Order | str, *, detail: str = "", seconds: float | None = None
    ) -> Order:
        """Do as `wait_for` without blocking the event loop."""
        return await asyncio.to_thread(self.wait_for, status, order, detail=detail, seconds=seconds)

    def requests(self, order: Order | str | None = None, operation: str = "") -> list[Request]:
        """Return the requests that the application sent, oldest first, the test's own included.

        The service records them up to 0.1 s later.
        """
        query = f"application={self.client_id}" if order is None else f"order={id_of(order)}"
        found = map(Request, reversed(self.service.ask("GET", f"/operator/v1/requests?{query}")["data"]))
        return [one for one in found if operation in ("", one.get("operation"))]

    def ask(self, method: str, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None) -> Any:
        """Send a request of the application and return the JSON of the answer. Raises `Refused`.

        If the access token has expired or is revoked, the test gets one of its own, whatever its till does.
        """
        return self._send(method, path, body, headers=headers)[1]

    def check(self) -> None:
        """Raise `NotShown` for a planned step that was not possible, and `NotFired` for an unused fault."""
        __tracebackhide__ = True
        steps = [one.will.unfinished(self.seconds, self._is_over(one)) for one in self.terminals]
        if any(steps):
            raise NotShown("; ".join(filter(None, steps)))
        if unused := self.faults.unused():
            raise NotFired("; ".join(unused))

    def close(self) -> None:
        """Remove faults and terminals, whatever happened."""
        self.webhooks.close()
        self.faults.close()
        for terminal in self.terminals:
            terminal.close()

    def _send(self, *request: Any, headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
        try:
            return self.service.send(*request, token=self._token, headers=headers)
        except Refused as refused:
            if refused.status != 401:
                raise
        about = {"client_id": self.client_id, "redirect_uri": self.redirect_uri, "test_token": True}
        code = self.service.ask("POST", "/operator/v1/codes", {**about, "user_id": self.user_id})["code"]
        exchange = {**about, "client_secret": self.client_secret, "grant_type": "authorization_code", "code": code}
        self._token = self.service.ask("POST", "/oauth/token", exchange)["access_token"]
        return self.service.send(*request, token=self._token, headers=headers)

    def _is_over(self, terminal: Terminal) -> Callable[[], bool]:
        return lambda: (
            terminal.screen().name in AFTER
            and all(order.status not in ("created", "at_terminal") for order in self.orders())
        )


def _key(key: str) -> dict[str, str]:
    return {"X-Idempotency-Key": key or str(uuid.uuid4())}
