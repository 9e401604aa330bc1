"""The first ten mistakes of a newcomer, each made with curl and both official clients: what they see.

`page(seen)` is `docs/first-mistakes.md`, which `PYTHONPATH=tests .venv/bin/python -m first_mistakes` writes.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import textwrap
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import mercadopago
from mercadopago.config.config import Config
from mercadopago.config.request_options import RequestOptions
from mercadopago.errors import MercadoPagoError

import node_clients
import paydesk_process

PAGE = Path(__file__).parents[1] / "docs" / "first-mistakes.md"
WAIT_SECONDS_MAX = 60
HEADINGS = {"curl": "curl", "python": "Python", "node": "Node"}
Json = dict[str, Any]


class Client(Protocol):
    """A way to call the service. Each method returns what a person sees of a refusal."""

    def create(self, token: str | None, body: Json, key: str) -> str:
        """Create an order."""

    def cancel(self, token: str, order_id: str) -> str:
        """Cancel an order."""

    def exchange(self, fields: Json) -> str:
        """Exchange a code for tokens."""


@dataclass(frozen=True)
class Curl:
    """curl, as the pages of `docs/` call it. A person sees the body."""

    base_url: str

    def create(self, token: str | None, body: Json, key: str) -> str:
        """Create an order; without a token the variable that should contain it is empty."""
        return self._post("/v1/orders", body, f"Authorization: Bearer {token or ''}", f"X-Idempotency-Key: {key}")

    def cancel(self, token: str, order_id: str) -> str:
        """Cancel an order."""
        key = f"X-Idempotency-Key: {uuid.uuid4()}"
        return self._post(f"/v1/orders/{order_id}/cancel", None, f"Authorization: Bearer {token}", key)

    def exchange(self, fields: Json) -> str:
        """Exchange a code for tokens."""
        return self._post("/oauth/token", fields)

    def _post(self, path: str, body: Json | None, *headers: str) -> str:
        sent = [] if body is None else ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
        with_headers = [part for header in headers for part in ("-H", header)]
        done = subprocess.run(
            ["curl", "-sS", "--noproxy", "*", "-X", "POST", self.base_url + path, *with_headers, *sent],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        return json.dumps(json.loads(done.stdout), indent=2, ensure_ascii=False)


@dataclass(frozen=True)
class Python:
    """The official Python client. A person sees the last line of the traceback."""

    base_url: str

    def create(self, token: str | None, body: Json, key: str) -> str:
        """Create an order; without a token the variable that should contain it is None."""
        options = RequestOptions(token or "", custom_headers={"x-idempotency-key": key})
        return self._seen(lambda: mercadopago.SDK(token).order().create(body, request_options=options))

    def cancel(self, token: str, order_id: str) -> str:
        """Cancel an order."""
        return self._seen(lambda: mercadopago.SDK(token).order().cancel(order_id))

    def exchange(self, fields: Json) -> str:
        """Exchange a code for tokens."""
        return self._seen(lambda: mercadopago.SDK("none").oauth().create(fields))

    def _seen(self, call: Callable[[], Any]) -> str:
        before = Config._Config__api_base_url
        Config._Config__api_base_url = self.base_url
        try:
            call().raise_for_status()
        except (MercadoPagoError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
        finally:
            Config._Config__api_base_url = before
        raise AssertionError("the mistake was accepted")


@dataclass(frozen=True)
class Node:
    """The official Node client. A person sees the error's first line."""

    base_url: str

    def create(self, token: str | None, body: Json, key: str) -> str:
        """Create an order; without a token the variable that should contain it is undefined."""
        return self._seen("Order", "create", token, {"body": body}, {"idempotencyKey": key})

    def cancel(self, token: str, order_id: str) -> str:
        """Cancel an order."""
        return self._seen("Order", "cancel", token, {"id": order_id})

    def exchange(self, fields: Json) -> str:
        """Exchange a code for tokens."""
        return self._seen("OAuth", "create", "none", {"body": fields})

    def _seen(self, name: str, method: str, token: str | None, given: Json, options: Json | None = None) -> str:
        with_token = {} if token is None else {"accessToken": token}
        answer = node_clients.call(self.base_url, name, method, given=given, options=options or {}, **with_token)
        assert "failure" in answer, answer
        return f"{answer['failure']}: {answer['message']}"


CLIENTS: Mapping[str, Callable[[str], Client]] = {"curl": Curl, "python": Python, "node": Node}


@dataclass(frozen=True)
class Shop:
    """A running `paydesk dev` and its credentials file."""

    base_url: str
    credentials: Json

    @property
    def test_token(self) -> str:
        """The access token for test orders."""
        return str(self.credentials["test"]["access_token"])

    def terminal(self) -> str:
        """Create a virtual terminal that waits for a person, and return its id."""
        return str(self._post("/virtual/v1/terminals", {"script": "manual"})["id"])

    def order(self, **changes: Any) -> Json:
        """Return the body of an order for a new terminal."""
        payment = {"amount": "24.90"}
        config = {"point": {"terminal_id": self.terminal()}}
        return {"type": "point", "transactions": {"payments": [payment]}, "config": config, **changes}

    def created(self, body: Json, key: str = "") -> str:
        """Create an order and return its id."""
        return str(self._post("/v1/orders", body, {"X-Idempotency-Key": key or str(uuid.uuid4())})["id"])

    def wait_for(self, order_id: str, status: str) -> None:
        """Wait until an order has a status."""
        url, deadline = f"{self.base_url}/v1/orders/{order_id}", time.monotonic() + WAIT_SECONDS_MAX
        while (found := paydesk_process.request("GET", url, self.test_token)[1])["status"] != status:
            assert time.monotonic() < deadline, found
            time.sleep(0.05)

    def simulate(self, order_id: str, status: str) -> None:
        """Bring an order to a status."""
        self._post(f"/v1/orders/{order_id}/events", {"status": status})

    def code(self) -> Json:
        """Return the fields that exchange a new code for tokens."""
        seller, client_id = self.credentials["seller"]["user_id"], self.credentials["client_id"]
        operator = self.credentials["operator"]["token"]
        code = self._post("/operator/v1/codes", {"client_id": client_id, "user_id": seller}, token=operator)["code"]
        return {
            "client_id": client_id,
            "client_secret": self.credentials["client_secret"],
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.credentials["redirect_uri"],
        }

    def _post(self, path: str, body: Json, headers: Mapping[str, str] | None = None, *, token: str = "") -> Any:
        status, document = paydesk_process.request(
            "POST", self.base_url + path, token or self.test_token, body, headers
        )
        assert status < 300, document
        return document


@dataclass(frozen=True)
class Mistake:
    """A mistake: how it happens, what to do, and how to make it."""

    title: str
    cause: str
    remedy: str
    make: Callable[[Shop, Client], str]


def _no_token(shop: Shop, client: Client) -> str:
    return client.create(None, shop.order(), "sale-1")


def _wrong_token(shop: Shop, client: Client) -> str:
    return client.create(shop.test_token[:-1], shop.order(), "sale-1")


def _live_token(shop: Shop, client: Client) -> str:
    return client.create(shop.credentials["live"]["access_token"], shop.order(), "sale-1")


def _missing_field(shop: Shop, client: Client) -> str:
    body = shop.order()
    body["config"]["point"] = {"print_on_terminal": "no_ticket"}
    return client.create(shop.test_token, body, "sale-1")


def _wrong_amount(shop: Shop, client: Client) -> str:
    return client.create(shop.test_token, shop.order(transactions={"payments": [{"amount": 24.9}]}), "sale-1")


def _terminal_busy(shop: Shop, client: Client) -> str:
    body = shop.order()
    shop.wait_for(shop.created(body), "at_terminal")
    return client.create(shop.test_token, body, str(uuid.uuid4()))


def _key_used_twice(shop: Shop, client: Client) -> str:
    key, body = str(uuid.uuid4()), shop.order()
    shop.created(body, key)
    return client.create(shop.test_token, {**body, "transactions": {"payments": [{"amount": "9.90"}]}}, key)


def _wrong_secret(shop: Shop, client: Client) -> str:
    return client.exchange({**shop.code(), "client_secret": "secret"})


def _wrong_redirect(shop: Shop, client: Client) -> str:
    return client.exchange({**shop.code(), "redirect_uri": "https://shop.example/callback"})


def _cancel_too_late(shop: Shop, client: Client) -> str:
    order_id = shop.created(shop.order())
    shop.simulate(order_id, "processed")
    return client.cancel(shop.test_token, order_id)


MISTAKES: Sequence[Mistake] = (
    Mistake(
        "No token",
        "The variable that should contain the access token is not set.",
        'Set it: `eval "$(paydesk env)"` exports the tokens of the credentials file.',
        _no_token,
    ),
    Mistake(
        "A wrong token",
        "The last character of the access token is missing. An expired or revoked token is refused alike.",
        "Copy the whole token. After a reset of the data the credentials file has new ones: read it again.",
        _wrong_token,
    ),
    Mistake(
        "A live token",
        "The access token begins with `APP_USR-`: it is for live orders, and the terminal is a virtual one.",
        "Use a test token, which begins with `TEST-`: exchange the code with `test_token`: true, or let an operator"
        " turn on `test_tokens` for the application. [Get a token](get-a-token.md) shows both.",
        _live_token,
    ),
    Mistake(
        "A missing field",
        "The order does not name its terminal: `config.point.terminal_id` is missing.",
        "Every fault is listed in `errors`, at most 50, each with the path of its field.",
        _missing_field,
    ),
    Mistake(
        "A wrong amount",
        "The amount is the number 24.9. Amounts are strings, because floating-point numbers lose cents.",
        'Send `"24.90"`.',
        _wrong_amount,
    ),
    Mistake(
        "A busy terminal",
        "The terminal still has another order: a terminal has one at a time.",
        "Wait until the other order ends or cancel it, then repeat the request with the same key.",
        _terminal_busy,
    ),
    Mistake(
        "A key used twice",
        "A second sale was sent with the `X-Idempotency-Key` of the first.",
        "Use a new key for every sale, and the same key only to repeat a request whose answer was lost.",
        _key_used_twice,
    ),
    Mistake(
        "A wrong secret",
        "The `client_secret` is not the application's. The answer does not say which of client_id and secret is wrong.",
        "Use both from the credentials file; in production, `paydesk apps secrets add` creates a new secret.",
        _wrong_secret,
    ),
    Mistake(
        "A wrong redirect URI",
        "The `redirect_uri` of the exchange is not the one to which the code was sent.",
        "Send the same one, identical in every character. The code stays valid, so the exchange can be repeated.",
        _wrong_redirect,
    ),
    Mistake(
        "A cancel that comes too late",
        "The order is paid already.",
        "Refund it: `POST /v1/orders/{id}/refund`. [Refund a payment](refunds.md) has the details.",
        _cancel_too_late,
    ),
)

_ID = "[0-9A-HJKMNP-TV-Z]{26}"
_EXAMPLES = (
    (re.compile(f"ORD{_ID}"), "ORD01J67CQQH5904WDBVZEM4JMEP3"),
    (re.compile(f"PAY{_ID}"), "PAY01J67CQQH5904WDBVZEM4JMEP3"),
    (re.compile("PAYDESK_VIRTUAL__[0-9A-Z]+"), "PAYDESK_VIRTUAL__7F3A21"),
    (re.compile(r"http://127\.0\.0\.1:\d+"), "http://127.0.0.1:8377"),
)
"""What differs from run to run, and what the page has instead."""


def see(shop: Shop, mistake: Mistake, client: str) -> str:
    """Make the mistake with a client; return what a person sees, with the ids of the page."""
    seen = mistake.make(shop, CLIENTS[client](shop.base_url))
    for pattern, example in _EXAMPLES:
        seen = pattern.sub(example, seen)
    return seen


Seen = Mapping[str, Mapping[str, str]]
"""By the title of the mistake and by client."""

INTRODUCTION = """\
# The first ten mistakes

What curl and the official clients of Python and Node show; `…` stands for the message. [Errors](errors.md#the-body) has
the whole body of a refusal. A test compares each output with this page.

"""


def page(seen: Seen, mistakes: Sequence[Mistake] = MISTAKES) -> str:
    """Return `docs/first-mistakes.md`, or the part of it that is about these mistakes."""
    return INTRODUCTION + "\n".join(_section(mistake, seen[mistake.title]) for mistake in mistakes)


def _section(mistake: Mistake, seen: Mapping[str, str]) -> str:
    body = json.loads(seen["curl"])
    shown = [f"curl    {body['status']} {body['error']}: {body['message']}"]
    shown += [
        f"{HEADINGS[client]:<8}{text.replace(body['message'], '…')}"
        for client, text in seen.items()
        if client != "curl"
    ]
    block = "\n".join(_wrapped(line) for line in shown)
    return f"## {mistake.title}\n\n{mistake.cause}\n\n```text\n{block}\n```\n\n{mistake.remedy}\n"


def _wrapped(line: str) -> str:
    return textwrap.fill(line, 110, subsequent_indent=" " * 8, break_long_words=False, break_on_hyphens=False)


def main() -> None:
    """Write the page."""
    node_clients.install()
    with tempfile.TemporaryDirectory() as folder, paydesk_process.dev(Path(folder)) as service:
        shop = Shop(service.wait_until_ready(), paydesk_process.credentials(Path(folder)))
        seen = {mistake.title: {client: see(shop, mistake, client) for client in CLIENTS} for mistake in MISTAKES}
    PAGE.write_text(page(seen))


if __name__ == "__main__":
    main()
