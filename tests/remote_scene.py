"""A seller, an application and terminals of a service that a test reaches by HTTP alone, each by its own interface."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import counted
from device_scene import APPROVED
from oauth_scene import CHALLENGE, REDIRECT_URI, VERIFIER
from page_scene import PASSWORD, STATE
from pairing_scene import new_terminal
from paydesk_process import request
from seller import Seller
from service import order_body


def did(method: str, url: str, token: str = "", body: Any = None, *, status: int = 200, **headers: str) -> Any:
    """Return the document of the answer, which must have this status."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = request(method, url, token, body, sent)
    assert answer[0] == status, (method, url, *answer)
    return answer[1]


@dataclass(frozen=True, slots=True)
class RemoteTerminal:
    """A terminal that asks its acquirer itself, at a service with this address."""

    clients: str
    id: str
    token: str
    boot_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def pay(self, order_id: str) -> None:
        """Start, take the order from the poll, acknowledge it, get the permit, and report that it was approved."""
        session = {"boot_id": self.boot_id}
        assert self._did("POST", "hello", {**session, "app_version": "1", "journal": []})["leases"] == []
        offer = self._did("GET", f"next?boot_id={self.boot_id}&wait=25")
        assert (offer["type"], offer["order"]["id"], offer["order"]["amount"]) == ("order", order_id, "24.90")
        lease = f"leases/{offer['lease_id']}"
        assert self._did("POST", f"{lease}/ack", session)["order"]["status"] == "at_terminal"
        permit = self._did("POST", f"{lease}/progress", {**session, "seq": 1, "step": "authorizing"})
        assert permit["go"] is True
        result = self._did("PUT", f"{lease}/results/{uuid.uuid4()}", {**session, **APPROVED})
        assert result["order"]["status"] == "processed"

    def _did(self, method: str, path: str, body: Any = None) -> Any:
        return did(method, f"{self.clients}/device/v1/{path}", self.token, body)


class RemoteShop:
    """A seller with a store, and an application, added by an operator to a service with these addresses."""

    def __init__(self, clients: str, operators: str, operator_token: str) -> None:
        self._clients, self._operators, self._operator_token = clients, operators, operator_token
        seller = {"email": "ana@shop.example", "name": "Corner shop", "country": "BRA", "currency": "BRL"}
        self._seller_id = self._create("sellers", {**seller, "password": PASSWORD})["user_id"]
        self._store_id = self._create("stores", {"seller_id": self._seller_id, "name": "Main street"})["store_id"]
        self._application = self._create("applications", {"name": "Till", "redirect_uris": [REDIRECT_URI]})
        self._browser = Seller(seller["email"], PASSWORD)

    def access_token(self, *, live: bool) -> str:
        """Return the application's access token, after the seller's consent in a browser."""
        client_id = self._application["client_id"]
        asked = {"response_type": "code", "client_id": client_id, "redirect_uri": REDIRECT_URI, "state": STATE}
        pkce = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}
        redirect = self._browser.agree(f"{self._clients}/authorization?{urlencode({**asked, **pkce})}")
        assert redirect.startswith(f"{REDIRECT_URI}?"), redirect
        given = dict(parse_qsl(urlsplit(redirect).query))
        assert (given["state"], given["iss"]) == (STATE, self._clients)
        exchange = {
            "grant_type": "authorization_code",
            "client_id": client_id,
            "client_secret": self._application["client_secret"],
            "redirect_uri": REDIRECT_URI,
            "code": given["code"],
            "code_verifier": VERIFIER,
            "test_token": not live,
        }
        tokens = did("POST", f"{self._clients}/oauth/token", body=exchange)
        assert (tokens["live_mode"], tokens["user_id"]) == (live, self._seller_id)
        return str(tokens["access_token"])

    def terminal(self, *, live: bool) -> RemoteTerminal:
        """Pair a terminal at a point of sale of its own, and let it take orders."""
        pairings = f"{self._clients}/device/v1/pairings"
        codes = did("POST", pairings, body=new_terminal(), status=201)
        approved = self.approve(codes["user_code"], live=live, kind="terminal")
        token = did("POST", f"{pairings}/token", body={"device_code": codes["device_code"]})["device_token"]
        return replace(approved, token=token)

    def approve(self, user_code: str, *, live: bool, kind: str) -> RemoteTerminal:
        """Approve a pairing at a point of sale of its own; return the terminal, which has its token itself."""
        place = {"seller_id": self._seller_id, "store_id": self._store_id}
        pos = self._create("pos", {**place, "external_pos_id": counted.pos_id(), "name": "Till"})
        approval = {**place, "pos_id": pos["pos_id"], "kind": kind, "live_mode": live}
        paired = self._create(f"pairings/{user_code}", approval)
        url = f"{self._operators}/operator/v1/terminals/{paired['id']}"
        assert did("PATCH", url, self._operator_token, {"operating_mode": "PDV"})["operating_mode"] == "PDV"
        return RemoteTerminal(self._clients, paired["id"], "")

    def order(self, token: str, terminal: RemoteTerminal) -> str:
        """Create an order for the terminal and return its id."""
        key, body = str(uuid.uuid4()), order_body(terminal.id)
        order = did("POST", f"{self._clients}/v1/orders", token, body, status=201, x_idempotency_key=key)
        assert order["status"] == "created"
        return str(order["id"])

    def bring(self, token: str, order_id: str, status: str) -> None:
        """Bring a test order to a status without its terminal."""
        did("POST", f"{self._clients}/v1/orders/{order_id}/events", token, {"status": status}, status=204)

    def read(self, token: str, order_id: str) -> tuple[str, str, bool]:
        """Return the status of the order, the detail of its payment, and whether it is a live order."""
        order = did("GET", f"{self._clients}/v1/orders/{order_id}", token)
        return order["status"], order["transactions"]["payments"][0]["status_detail"], order["live_mode"]

    def _create(self, path: str, body: Any) -> Any:
        return did("POST", f"{self._operators}/operator/v1/{path}", self._operator_token, body, status=201)
