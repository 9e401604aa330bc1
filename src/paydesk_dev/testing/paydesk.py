"""A seller and an application of one test's own, as the test and its till use them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, Literal

from paydesk.core.money import CURRENCIES
from paydesk_dev.testing.blocking import POLL_SECONDS, in_thread
from paydesk_dev.testing.documents import Charge, Document, Order, Request, id_of
from paydesk_dev.testing.errors import NotFired, NotReached, Refused
from paydesk_dev.testing.expected import can_become, known_status
from paydesk_dev.testing.faults import Faults
from paydesk_dev.testing.service import Service
from paydesk_dev.testing.terminal import Terminal
from paydesk_dev.testing.webhooks import Webhooks

PAGE_SIZE = 50
PAST_FAULTS = {"Paydesk-Fault": "none"}
"""With this header the faults of the till neither meet nor count what the test looks up itself."""
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
        self._amount = "24.90" if CURRENCIES[scene["seller"]["currency"]].decimals else "2490"
        self.webhook_secret: str = scene["webhook"]["secret"]
        self.subscription_id: str = scene["webhook"]["subscription_id"]
        self.terminals: list[Terminal] = []
        inbox_url, failure = scene["webhook"]["inbox_url"], self.raise_failure
        self.faults = Faults(service, self.client_id, self.user_id, seconds, failure)
        self.webhooks = Webhooks(service, self.subscription_id, self.client_id, inbox_url, seconds, failure)

    @classmethod
    def create_in(cls, service: Service, seconds: float, **fields: Any) -> Paydesk:
        """Create the seller and the application; the fields are those of `POST /dev/scenes`."""
        __tracebackhide__ = True
        return cls(service, service.ask("POST", "/dev/scenes", fields), seconds)

    def environment(self, terminal: Terminal | None = None) -> dict[str, str]:
        """Return environment variables for a till that is a program of its own."""
        names = ("base_url", "client_id", "client_secret", "access_token", "refresh_token", "user_id", "redirect_uri")
        variables = {f"PAYDESK_{name.upper()}": str(getattr(self, name)) for name in (*names, "webhook_secret")}
        return variables if terminal is None else {**variables, "PAYDESK_TERMINAL_ID": terminal.id}

    def terminal(self, script: str = "manual", *, pace: Literal["quick", "real"] = "quick") -> Terminal:
        """Create a virtual terminal at a point of sale of its own."""
        body = {"seller_id": self.user_id, "script": script, "pace": pace}
        created = Document(self.service.ask("POST", "/virtual/v1/terminals", body))
        self.terminals.append(Terminal(self.service.ask, created, self.seconds, self.raise_failure))
        return self.terminals[-1]

    def create(
        self, terminal: Terminal | str, amount: str = "", *, reference: str = "", key: str = "", **fields: Any
    ) -> Order:
        """Create an order, as a till does, by default of 24.90; the fields are further ones of `POST /v1/orders`."""
        point = {"terminal_id": terminal if isinstance(terminal, str) else terminal.id}
        body = {
            "type": "point",
            "transactions": {"payments": [{"amount": amount or self._amount}]},
            "config": {"point": point},
            **({"external_reference": reference} if reference else {}),
            **fields,
        }
        return Order(self.ask("POST", "/v1/orders", body, headers=_key(key)))

    def order(self, order: Order | str) -> Order:
        """Return the order as it is now."""
        return Order(self._look_up(f"/v1/orders/{id_of(order)}"))

    def orders(self, reference: str = "") -> list[Order]:
        """Return all orders, or those with this reference, oldest first."""
        orders = list[Order]()
        while True:
            page = {"sort_order": "asc", "limit": PAGE_SIZE, "offset": len(orders)}
            data = self._look_up("/v1/orders", {**page, "external_reference": reference})["data"]
            orders += map(Order, data)
            if len(data) < PAGE_SIZE:
                return orders

    def cancel(self, order: Order | str, *, at_terminal: bool = True) -> int:
        """Cancel the order, as a till does, and return the status: 200, or 202 if the terminal must agree."""
        allowed = {"X-Allow-Cancelable-Status": "at_terminal"} if at_terminal else {}
        path = f"/v1/orders/{id_of(order)}/cancel"
        return self._send("POST", path, headers={**_key(""), **allowed})[0]

    def refund(self, order: Order | str, amount: str | None = None, *, key: str = "") -> Order:
        """Refund the order, all or this amount, and return it."""
        payment = {"id": self.order(order)["transactions"]["payments"][0]["id"], "amount": amount}
        body = {"transactions": [payment]} if amount is not None else None
        self.ask("POST", f"/v1/orders/{id_of(order)}/refund", body, headers=_key(key))
        return self.order(order)

    def charges(self) -> list[Charge]:
        """Return what buyers have paid, by the acquirer's ledger: without what was refunded in whole.

        Its fields are `order_id`, `amount`, `refunded_amount`, what is left as `charged_amount`, and `currency`.
        """
        charges = map(Charge, self.service.ask("GET", "/dev/charges", query={"application": self.client_id})["data"])
        return [charge for charge in charges if float(charge.charged_amount) > 0]

    def wait_for(self, status: str, order: Order | str, *, detail: str = "", seconds: float | None = None) -> Order:
        """Return the order once it has this status, and this payment status detail if one is given.

        Raises `NotReached`, at once if that can no longer come.
        """
        known_status(status)
        end = time.monotonic() + (self.seconds if seconds is None else seconds)
        after = ""
        while True:
            self.raise_failure()
            current, left = self.order(order), end - time.monotonic()
            if current.status == status and detail in ("", current.detail):
                return current
            if left <= 0 or not can_become(status, detail, current.detail):
                wanted = f"{status} ({detail})" if detail else status
                raise NotReached(f"{current.id} does not reach {wanted}: it is {current.status} ({current.detail}).")
            after = self._look_up("/v1/events", {"wait": POLL_SECONDS, "after": after})["next"]

    wait_for_async = in_thread(wait_for)

    def requests(self, order: Order | str | None = None, operation: str = "") -> list[Request]:
        """Return the requests that the application sent, oldest first, the test's own included.

        The service records them up to 0.1 s later.
        """
        query = {"application": self.client_id, "order": None if order is None else id_of(order)}
        requests = map(Request, reversed(self.service.rows("/operator/v1/requests", query)))
        return [one for one in requests if operation in ("", one.get("operation"))]

    def ask(self, method: str, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None) -> Any:
        """Send a request of the application, which faults meet as the till's, and return the JSON. Raises `Refused`.

        If the access token has expired or is revoked, the test gets one of its own, whatever its till does.
        """
        return self._send(method, path, body, headers=headers)[1]

    def failures(self) -> list[str]:
        """Return in words which planned steps were not possible, and how receivers have failed."""
        receivers = [f"The receiver of notifications failed: {error!r}" for error in self.webhooks.errors]
        return [*filter(None, (one.will.error for one in self.terminals)), *receivers]

    def raise_failure(self) -> None:
        """Raise what a receiver or a planned function has raised, or `NotShown` for another planned step."""
        __tracebackhide__ = True
        for error in (*self.webhooks.errors, *(one.will.exception for one in self.terminals)):
            if error is not None:
                raise error

    def check(self) -> None:
        """End the plans. Raise their failure or that of a receiver, and `NotFired` for an unused fault."""
        __tracebackhide__ = True
        for terminal in self.terminals:
            terminal.will.finish(self.seconds, self._is_over(terminal))
        self.raise_failure()
        if unused := self.faults.unused():
            raise NotFired(" ".join(unused))

    def close(self) -> None:
        """End the plans and receivers, and remove faults and terminals: each, whatever happens to another."""
        ends = [*(one.close for one in self.terminals), *(one.remove for one in self.faults.added)]
        with ExitStack() as stack:
            for end in (*ends, self.webhooks.close, *(one.will.stop for one in self.terminals)):
                stack.callback(end)

    def _look_up(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        return self._send("GET", path, headers=PAST_FAULTS, query=query)[1]

    def _send(self, *request: Any, **fields: Any) -> tuple[int, Any]:
        """Send a request, and again with another token if this one is not valid. A fault's 401 is none of that."""
        try:
            return self.service.send(*request, token=self._token, **fields)
        except Refused as refused:
            if refused.status != 401 or self._is_token_valid():
                raise
        application = {"client_id": self.client_id, "redirect_uri": self.redirect_uri, "test_token": True}
        code = self.service.ask("POST", "/operator/v1/codes", {**application, "user_id": self.user_id})["code"]
        exchange = {**application, "client_secret": self.client_secret, "code": code}
        exchange["grant_type"] = "authorization_code"
        self._token = self.service.ask("POST", "/oauth/token", exchange, headers=PAST_FAULTS)["access_token"]
        return self.service.send(*request, token=self._token, **fields)

    def _is_token_valid(self) -> bool:
        try:
            self.service.ask("GET", "/users/me", token=self._token, headers=PAST_FAULTS)
        except Refused as refused:
            return refused.status != 401
        return True

    def _is_over(self, terminal: Terminal) -> Callable[[], bool]:
        return lambda: (
            bool(self.webhooks.errors)
            or (
                terminal.screen().name in AFTER
                and all(order.status not in ("created", "at_terminal") for order in self.orders())
            )
        )


def _key(key: str) -> dict[str, str]:
    return {"X-Idempotency-Key": key or str(uuid.uuid4())}
